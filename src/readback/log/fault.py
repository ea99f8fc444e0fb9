"""What can be wrong with a log that is shown to us: its form, its proofs, its signatures.

Raised by this room's parsers and checks. They hang on the root that `canon` gives, since this room knows nothing above
it; `domain.errors` draws the whole tree. They must not say whose fault it is: bytes that were changed look alike.
"""

from __future__ import annotations

from readback.canon import ReadbackError


class LogError(ReadbackError):
    """A log, a proof or a checkpoint does not show what it is meant to show."""

    code = "log"
    exit_code = 1


class LogFormatError(LogError):
    """Bytes that are no note, checkpoint, key, tile or proof. Nothing of them was used."""

    code = "log.format"
    exit_code = 2
    remedy_default = "Compare it with the place where it came from; it was cut, changed, or is something else."


class LogProofError(LogError):
    """Hashes that do not lead from what is claimed to the root."""

    code = "log.proof"
    remedy_default = "Do not rely on what it was to prove; keep both as they are, and compare with another copy."


class LogUnplacedError(LogError):
    """An entry that is durable, and has no place in the log yet: nothing can be proved of it before it has."""

    code = "log.unplaced"
    exit_code = 3
    remedy_default = (
        "Ask again in a moment: whoever appends gives places, and so do a worker and `readback ledger checkpoint`."
    )


class LogCutError(LogProofError):
    """A checkpoint covers more entries than there are: the end was cut off, or the checkpoint is of what never was."""

    code = "log.cut"


class LogForkError(LogProofError):
    """Two checkpoints of as many entries differ: the log was shown in two forms."""

    code = "log.fork"


class LogRewrittenError(LogProofError):
    """The entries that a checkpoint covers are not those that are there."""

    code = "log.rewritten"


class LogOriginError(LogProofError):
    """A checkpoint of another log."""

    code = "log.origin"


class LogSignatureError(LogError):
    """No valid signature by the key that was asked for, or an invalid one in its name."""

    code = "log.signature"
    remedy_default = "Look whether this is the log's verifier key; if it is, do not rely on what was signed."
