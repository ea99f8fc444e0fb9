"""What can be wrong with a trace before it can be judged: its bytes, the policy, a file beside it.

Raised by this room and by the reader of run folders. They hang on the root that `canon` gives; `domain.errors` draws
the whole tree. What a trace says wrongly is no error but a failure in the report.
"""

from __future__ import annotations

from readback.canon import ReadbackError
from readback.traces.artifacts import ArtifactTrouble


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
