"""What it means that a record could not be made: nothing happened, or anything may have.

Called by the engine where an append raised, or an entry could not be written at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from readback.domain.errors import ReadbackError, StoreCorruptError, StoreVersionError, UnknownOutcomeError
from readback.domain.state import State
from readback.domain.verdict import Level, Verdict, Why
from readback.engine.run import Run
from readback.engine.stages.report import outcome_of_run

NEWER_REMEDY: Final = "Do not repeat the action; run `readback resume` of the release that knows the ledger's schema."

LOST: Final = "store.lost"
LOST_REMEDY: Final = (
    "Do not repeat the action: look at its target. Was a backup put back, or did a standby take over that lacked it?"
)


def check_not_rolled_back(run: Run, version: int) -> None:
    """Versions only grow: a ledger that has fewer of this action than it acknowledged has been put back. Nobody else
    goes on with what it forgot, and its effect is on nobody's record. Raises what `unrecorded` says of that.
    """
    if version < run.durable_version:
        error = StoreCorruptError(
            f"The ledger acknowledged version {run.durable_version} of action {run.action.id} and has {version} now.",
            remedy=LOST_REMEDY,
            code=LOST,
        )
        raise unrecorded_outcome(run, error) from error


def unrecorded_outcome(run: Run, error: ReadbackError) -> ReadbackError:
    """Before an attempt is durable nothing happened; after it, nobody may read the error as "nothing was done"."""
    if run.durable_version == 0 or run.action.attempts == 0:
        return error
    outcome = replace(
        outcome_of_run(run),
        state=State.UNKNOWN,
        verdict=Verdict.UNDETERMINED,
        why=Why.INCOMPLETE,
        may_repeat=False,
        level=Level.NORMALISED,
        told={},
        detail=f"What became of it could not be recorded: {error}",
    )
    return UnknownOutcomeError(
        f"Action {run.action.id} ({run.contract.name} on {run.action.target}) was attempted and its record failed.",
        outcome=outcome,
        remedy=_remedy(error),
        details={"action": run.action.id, "cause": error.code},
    )


def _remedy(error: ReadbackError) -> str:
    if isinstance(error, StoreVersionError):
        return NEWER_REMEDY
    return LOST_REMEDY if error.code == LOST else ""
