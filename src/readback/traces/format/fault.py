"""What can be wrong with a trace before it can be judged: its bytes, the policy, a file beside it.

Raised by this room and by the reader of run folders. They hang on the root that `canon` gives; `domain.errors` draws
the whole tree. What a trace says wrongly is no error but a failure in the report.
"""

from __future__ import annotations

from typing import Final

from readback.canon import ReadbackError
from readback.traces.artifacts import ArtifactTrouble

# Every bound of this room, with its unit last. What is over one is refused, and says so.

TRACE_MAX_BYTES: Final = 2_147_483_648
"""A trace."""
LINE_MAX_BYTES: Final = 8_388_608
"""One line of a trace: it is parsed whole."""
PLAN_MAX_BYTES: Final = 8_388_608
"""A plan."""
RUN_FILE_MAX_BYTES: Final = 8_388_608
"""A run's specification, manifest, description or recorded report; a policy."""
PROVENANCE_MAX_BYTES: Final = 268_435_456
"""One file of documents, of chunks, or of the index."""
EVIDENCE_MAX_BYTES: Final = 4_194_304
"""One piece of a trace's evidence."""
EVIDENCE_KEPT_MAX: Final = 256
"""Files of evidence that are kept at hand between two claims that cite them."""
EVIDENCE_KEPT_MAX_BYTES: Final = 8_388_608
"""What these hold together."""
CITED_MAX_BYTES: Final = 17_179_869_184
"""What is read and hashed again for the supports of all claims; a byte of a trace's own line counts eight times."""
DEPTH_MAX_LEVELS: Final = 64
"""Nesting of the JSON of a run."""
INTEGER_MAX_DIGITS: Final = 19
"""An integer in the JSON of a run."""
FAILURES_KEPT_MAX: Final = 200
"""Failures that a report on a trace lists; the rest is counted."""
TEXT_SHOWN_MAX_CHARACTERS: Final = 200
"""A value of a run in a message."""
FILES_MAX: Final = 200_000
"""Entries of a run's folder."""
EVENTS_MAX: Final = 4_000_000_000
"""Lines of a trace: as many as thirty-two bits can name."""


class TraceError(ReadbackError):
    """A reasoning trace cannot be verified as asked. That is never a pass."""

    code = "trace"
    exit_code = 2


class TraceInputError(TraceError):
    """A file that is no trace, no plan, or not to be had. Nothing of it was used. Codes: trace.input.malformed,
    .duplicate-key, .too-deep, .too-large, .missing, .not-a-file, .symlink, .unreadable.
    """

    code = "trace.input"
    remedy_default = "Name the files that the run wrote; a cut or changed one cannot be verified."


class TracePolicyError(TraceError):
    """The caller's policy cannot be used: not JSON, an unknown key, a bad value, or a file of the run under test."""

    code = "trace.policy"
    exit_code = 5
    remedy_default = "Correct the policy file; `docs/traces.md` has its keys."


class ArtifactError(TraceError):
    """A file of the run folder cannot be had. The report says so as a failure."""

    code = "trace.artifact"
    exit_code = 1
    remedy_default = "Look at the run folder; a complete one holds every file that its manifest names."

    trouble: ArtifactTrouble = ArtifactTrouble.UNREADABLE
    path: str = ""

    @classmethod
    def of(cls, trouble: ArtifactTrouble, path: str) -> ArtifactError:
        """Of this file, for this reason."""
        error = cls(f"{path!r}: {trouble.value}", details={"path": path, "trouble": trouble.name.lower()})
        error.trouble, error.path = trouble, path
        return error
