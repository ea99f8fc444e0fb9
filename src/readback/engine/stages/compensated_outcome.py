"""The outcome of a verified saga step after the saga has reversed the step.

Called by the coordinator before a single action is reported. The step's own entries end in success, since a reversal is
an action of its own; the saga's entries record the reversal. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from readback.domain.action.action import Action
from readback.domain.action.claim import holds
from readback.domain.outcome.outcome import Outcome
from readback.domain.saga.fold import StepRecord
from readback.domain.saga.planner import over
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.engine.effects import Effect, EffectResult, Folded, LoadAction
from readback.engine.saga_run import load_saga
from readback.engine.stages.report import outcome_of


def outcome_now(action: Action, *, replayed: bool = False) -> Generator[Effect, EffectResult, Outcome]:
    """The outcome by the ledger alone, with the saga's entries. A reversed step is no success any more, and is not
    reported as reversed once the reversal itself became invalid.
    """
    outcome = yield from outcome_of(action, replayed=replayed)
    if action.state is State.COMPENSATED:
        return (yield from _by_its_reversal(outcome, action.compensation_id))
    named = str(action.context.get("saga", ""))
    if not named or action.state is not State.RECONCILED_SUCCESS:
        return outcome
    saga = yield from load_saga(named)
    records = saga.steps.values() if saga is not None else ()
    record = next((each for each in records if each.action_id == action.id), None)
    if record is None or not (record.undo_id or record.undo_state):
        return outcome
    taken_back = replace(
        outcome,
        state=amounts_to(record),
        verdict=Verdict.REFUTED,
        may_repeat=False,
        compensation=record.undo_id,
        told={},
    )
    return (yield from _by_its_reversal(taken_back, record.undo_id))


def _by_its_reversal(outcome: Outcome, undo_id: str) -> Generator[Effect, EffectResult, Outcome]:
    """Contested if the reversal is contested or was reversed: the effect may exist again. Review if the reversal can no
    longer succeed.
    """
    if outcome.state not in (State.COMPENSATED, State.COMPENSATING) or not undo_id:
        return outcome
    folded = yield LoadAction(undo_id)
    assert isinstance(folded, Folded)
    undo = folded.action
    if outcome.state is State.COMPENSATING:
        return replace(outcome, state=State.REVIEW_REQUIRED) if undo is not None and over(undo) else outcome
    stands = undo is not None and not undo.contested and (not undo.claims or holds(undo.claims))
    return outcome if stands else replace(outcome, contested=True)


def amounts_to(record: StepRecord) -> State:
    """The state of a step with a started reversal: reversed only if the reversal was verified."""
    match record.undo_state:
        case State.RECONCILED_SUCCESS.value:
            return State.COMPENSATED
        case "":
            return State.COMPENSATING
        case _:
            return State.REVIEW_REQUIRED


__all__ = ["amounts_to", "outcome_now"]
