"""Errors of a log from outside: format, proofs, signatures.

Raised by this package's parsers and checks. The errors derive from the root in `canon`. An error never names a culprit,
because changed bytes look alike.
"""

from __future__ import annotations

from readback.canon import ReadbackError


class LogError(ReadbackError):
    """A log, a proof or a checkpoint fails to prove its claim."""

    code = "log"
    exit_code = 1


class LogFormatError(LogError):
    """Bytes that are no note, checkpoint, key, tile or proof. Nothing of them was used."""

    code = "log.format"
    exit_code = 2
    remedy_default = "Compare the file with its origin: the content was cut or changed, or has another type."


class LogProofError(LogError):
    """The hashes do not lead from the claimed leaf or tree to the root."""

    code = "log.proof"
    remedy_default = "Do not rely on the claim. Keep proof and log unchanged, and compare with another copy."


class LogUnplacedError(LogError):
    """A durable entry without a sequence number in the log. No proof exists before the number is assigned."""

    code = "log.unplaced"
    exit_code = 3
    remedy_default = (
        "Try again in a moment. Appending processes, workers and `readback ledger checkpoint` assign sequence numbers."
    )


class LogCutError(LogProofError):
    """A checkpoint covers more entries than exist: the end was cut off, or the checkpoint describes a log that never
    was.
    """

    code = "log.cut"


class LogForkError(LogProofError):
    """Two checkpoints of equal size differ: the log was shown in two forms."""

    code = "log.fork"


class LogRewrittenError(LogProofError):
    """The present entries differ from the entries under the checkpoint."""

    code = "log.rewritten"


class LogOriginError(LogProofError):
    """A checkpoint of another log."""

    code = "log.origin"


class LogSignatureError(LogError):
    """No valid signature by the requested key, or an invalid signature in its name."""

    code = "log.signature"
    remedy_default = "Check the log's verifier key. If the key is right, do not rely on the signed content."
