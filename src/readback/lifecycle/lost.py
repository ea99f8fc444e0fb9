"""What it means that a record could not be made: nothing happened, or anything may have.

Called by the engine where an append raised, or an entry could not be written at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from readback.domain.errors import ReadbackError, StoreVersionError, UnknownOutcomeError
from readback.domain.state import State
from readback.domain.verdict import Level, Verdict, Why
from readback.lifecycle.report import outcome_of_run
from readback.lifecycle.run import Run

NEWER_REMEDY: Final = "Do not repeat the action; run `readback resume` of the release that knows the ledger's schema."


def unrecorded(run: Run, error: ReadbackError) -> ReadbackError:
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
        remedy=NEWER_REMEDY if isinstance(error, StoreVersionError) else "",
        details={"action": run.action.id, "cause": error.code},
    )
