"""Faults before any verdict on a trace: its bytes, the policy, a file beside the trace.

The checker and the reader of run folders raise these errors. A wrong statement inside a trace is no error, but a
failure in the report.
"""

from __future__ import annotations

from typing import Final

from readback.canon import ReadbackError
from readback.traces.artifacts import ArtifactTrouble

# Every bound of this room, with its unit last. What is over one is refused, and says so.

TRACE_MAX_BYTES: Final = 2_147_483_648
"""The size limit of a trace."""
LINE_MAX_BYTES: Final = 8_388_608
"""The size limit of one line, parsed as a whole."""
PLAN_MAX_BYTES: Final = 8_388_608
"""The size limit of a plan."""
RUN_FILE_MAX_BYTES: Final = 8_388_608
"""The size limit of a run's specification, manifest, description, recorded report or policy."""
PROVENANCE_MAX_BYTES: Final = 268_435_456
"""The size limit of one file of documents, of chunks, or of the index."""
EVIDENCE_MAX_BYTES: Final = 4_194_304
"""The size limit of one piece of evidence."""
EVIDENCE_KEPT_MAX: Final = 256
"""The number of evidence files kept between two citing claims."""
EVIDENCE_KEPT_MAX_BYTES: Final = 8_388_608
"""The size limit of all kept evidence files."""
CITED_MAX_BYTES: Final = 17_179_869_184
"""The limit of bytes read and hashed for all supports. A byte of a trace's own line counts eight times."""
DEPTH_MAX_LEVELS: Final = 64
"""The nesting limit of a run's JSON."""
INTEGER_MAX_DIGITS: Final = 19
"""The limit of digits in an integer of a run."""
FAILURES_KEPT_MAX: Final = 200
"""The number of listed failures in a report. Further failures are counted."""
TEXT_SHOWN_MAX_CHARACTERS: Final = 200
"""The length limit of a run's value in a message."""
FILES_MAX: Final = 200_000
"""The limit of entries in a run's folder."""
EVENTS_MAX: Final = 4_000_000_000
"""The limit of lines in a trace, by thirty-two bits."""


class TraceError(ReadbackError):
    """A reasoning trace cannot be verified as requested. The result is never a pass."""

    code = "trace"
    exit_code = 2


class TraceInputError(TraceError):
    """A file is no trace, no plan, or unavailable. Nothing of the file was used.

    Codes: trace.input.malformed, .duplicate-key, .too-deep, .too-large, .missing, .not-a-file, .symlink, .unreadable.
    """

    code = "trace.input"
    remedy_default = "Name the files that the run wrote; a cut or changed one cannot be verified."


class TracePolicyError(TraceError):
    """The caller's policy is unusable: not JSON, an unknown key, a bad value, or a file of the run under test."""

    code = "trace.policy"
    exit_code = 5
    remedy_default = "Correct the policy file; `docs/traces.md` has its keys."


class ArtifactError(TraceError):
    """A file of the run folder is unavailable. The report lists a failure."""

    code = "trace.artifact"
    exit_code = 1
    remedy_default = "Look at the run folder; a complete one holds every file that its manifest names."

    trouble: ArtifactTrouble = ArtifactTrouble.UNREADABLE
    path: str = ""

    @classmethod
    def of(cls, trouble: ArtifactTrouble, path: str) -> ArtifactError:
        """Return the error for this file and reason."""
        error = cls(f"{path!r}: {trouble.value}", details={"path": path, "trouble": trouble.name.lower()})
        error.trouble, error.path = trouble, path
        return error
