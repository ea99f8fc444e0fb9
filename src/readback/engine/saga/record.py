"""A saga's entries: each move as an event, with the recovery row if a row decided.

Called by `saga.engine`, before and after the work. Chooses no move; finds the legal path to the state of a move.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from readback.canon import Json
from readback.domain.action.action import Action
from readback.domain.events import EventKind
from readback.domain.finding import Finding
from readback.domain.recovery.table import RecoveryAction, RecoveryTable, Reversal, Row, Situation
from readback.domain.saga.fold import Direction, Saga
from readback.domain.saga.planner import (
    REVIEW_FIRST_US,
    REVIEW_MAX_US,
    SagaEnd,
    SagaPlan,
    StepStatus,
    has_effect,
    slower_us,
    step_status,
)
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.domain.verification.observation_signs import one_line
from readback.engine.entries.side_records import incident_data
from readback.engine.recovery.transition_paths import path_through
from readback.engine.saga_run import SagaRun
from readback.engine.stages.recover import REVERSALS
from readback.errors import ReadbackError

S = State
DETAIL_MAX = 500
FORWARD_HELD = "forward_held"
ActionsById = Mapping[str, Action]
_PERSONS: Final[Mapping[State, tuple[State, ...]]] = {
    S.REVIEW_REQUIRED: (S.PENDING,),
    S.COMPENSATING: (S.REVIEW_REQUIRED, S.PENDING),
}
"""The path out of a review, and out of an ordered reversal with nothing to reverse."""


# --- steps ---


def news(run: SagaRun, moves: SagaPlan, family: ActionsById) -> None:
    """Record the new states of steps and reversals since the last look."""
    for name in moves.news:
        child = family[run.saga.steps[name].action_id]
        _step(run, "ended", name, {"action": child.id, "state": child.state.value, "head": child.head})
    for name in moves.undone:
        undo = family[run.saga.steps[name].undo_id]
        data: dict[str, Json] = {"action": undo.id, "state": undo.state.value, "head": undo.head, "detail": ""}
        _step(run, "reversed", name, data)


def begins(run: SagaRun, name: str, action_id: str) -> None:
    """Write ahead: the step is about to start as this action."""
    _step(run, "begins", name, {"action": action_id}, _to_work(run.saga))


def reverses(run: SagaRun, name: str, action_id: str) -> None:
    """Write ahead: this action is about to reverse the step's effect."""
    _step(run, "reverses", name, {"action": action_id})


def refused(run: SagaRun, name: str, error: ReadbackError) -> None:
    """The step could not be proposed: it has no effect, now or later."""
    _step(run, "refused", name, {"code": error.code, "detail": one_line(error.message, DETAIL_MAX)})


def unreversed(run: SagaRun, name: str, error: ReadbackError) -> None:
    """The reversal could not be proposed: the effect stays."""
    detail = one_line(f"{error.code}: {error.message}", DETAIL_MAX)
    _step(run, "reversed", name, {"action": "", "state": "refused", "head": "", "detail": detail})


def _step(run: SagaRun, what: str, name: str, data: dict[str, Json], path: tuple[State, ...] = ()) -> None:
    run.record(EventKind.SAGA_STEP, {"what": what, "step": name, **data, "due": run.now_us}, path)


def _to_work(saga: Saga) -> tuple[State, ...]:
    """The state of a saga starting a step."""
    match saga.state:
        case S.VALIDATED:
            return (S.EXECUTING,)
        case S.UNKNOWN | S.REVIEW_REQUIRED if saga.heading is Direction.ONWARD:
            return (S.PENDING,)
        case S.REVIEW_REQUIRED if saga.heading is Direction.FORWARD:
            return (S.FORWARD_RECOVERY,)
        case _:
            return ()


def wait(run: SagaRun, until_us: int, *, quiet: bool, hold: str = "") -> None:
    """Record the time of the next look, and whether an event is expected soon."""
    saga = run.saga
    data: dict[str, Json] = {"what": "waits", "step": "", "quiet": quiet, "hold": hold, "due": until_us}
    run.record(EventKind.SAGA_STEP, data, _to_wait(saga, late=quiet and not hold))


def _to_wait(saga: Saga, *, late: bool) -> tuple[State, ...]:
    if saga.state in (S.EXECUTING, S.PENDING, S.VALIDATED):
        before = (S.EXECUTING,) if saga.state is S.VALIDATED else ()
        if late:
            return (*before, S.UNKNOWN)
        return (*before, S.PENDING) if saga.state is not S.PENDING else ()
    if saga.state is S.UNKNOWN and not late:
        return (S.PENDING,)
    if saga.state is S.REVIEW_REQUIRED:
        return (S.FORWARD_RECOVERY,) if saga.heading is Direction.FORWARD else (S.PENDING,)
    return ()


# --- direction ---


def turn(run: SagaRun, moves: SagaPlan, table: RecoveryTable) -> bool:
    """Record a new direction. Forward recovery is a state of its own; backward becomes a state with the first reversal.

    Returns False if the table does not allow forward recovery: a person decides, and the record says so.
    """
    assert moves.turn is not None
    saga = run.saga
    row, recovery, path = "", "", tuple[State, ...]()
    if moves.turn is Direction.FORWARD:
        chosen = table.decide(Finding.PARTIAL_SUCCESS, _situation(saga.side_effect, pivot_passed=True))
        row, recovery = chosen.id, chosen.action.value
        if chosen.action is not RecoveryAction.FORWARD_RECOVERY:
            _hold_forward(run, moves, chosen, table)
            return False
        if saga.state is not S.FORWARD_RECOVERY:
            path = (*_to_partial(saga), S.FORWARD_RECOVERY)
    elif saga.state is S.REVIEW_REQUIRED:
        path = (S.PENDING,)
    data: dict[str, Json] = {
        "to": moves.turn.value,
        "step": moves.because,
        "reason": moves.reason,
        "row": row,
        "recovery": recovery,
        "table": table.version,
        "due": run.now_us,
    }
    run.record(EventKind.SAGA_TURNED, data, path)
    return True


def _hold_forward(run: SagaRun, moves: SagaPlan, row: Row, table: RecoveryTable) -> None:
    if run.saga.state is S.REVIEW_REQUIRED:
        _wait_for_person(run)
        return
    path = (*_to_partial(run.saga), S.REVIEW_REQUIRED)
    _record_end(run, moves.because, FORWARD_HELD, row, path, table, review=True)


def may_reverse(run: SagaRun, moves: SagaPlan, family: ActionsById, table: RecoveryTable) -> bool:
    """Whether the table allows the reversal; otherwise a person decides, and the record says so."""
    saga = run.saga
    if saga.state is S.COMPENSATING:
        return True
    row = _reversal_row(saga, family, table)
    if row.action not in REVERSALS:
        if saga.state is S.REVIEW_REQUIRED:
            _wait_for_person(run)
            return False
        _record_end(
            run, moves.reverse, "reversal_held", row, (*_to_partial(saga), S.REVIEW_REQUIRED), table, review=True
        )
        return False
    path = (S.COMPENSATING,) if saga.state is S.REVIEW_REQUIRED else (*_to_partial(saga), S.COMPENSATING)
    data: dict[str, Json] = {
        "to": Direction.BACKWARD.value,
        "step": "",
        "reason": "",
        "row": row.id,
        "recovery": row.action.value,
        "table": table.version,
        "due": run.now_us,
    }
    run.record(EventKind.SAGA_TURNED, data, path)
    return True


def _reversal_row(saga: Saga, family: ActionsById, table: RecoveryTable) -> Row:
    shown = [s for s in saga.terms if (c := family.get(saga.steps[s.name].action_id)) is not None and has_effect(c)]
    gravest = max((step.side_effect for step in shown), key=lambda s: s.rank, default=saga.side_effect)
    stopped = saga.cancelled and not saga.because
    finding = Finding.COMPENSATION_REQUIRED if stopped else Finding.PARTIAL_SUCCESS
    return table.decide(finding, _situation(gravest))


def _to_partial(saga: Saga) -> tuple[State, ...]:
    if saga.state in _PERSONS:
        return (*_PERSONS[saga.state], S.COMMITTED, S.PARTIALLY_COMMITTED)
    return () if saga.state is S.PARTIALLY_COMMITTED else path_through(saga.state, S.PARTIALLY_COMMITTED)


# --- the end ---


def end(run: SagaRun, moves: SagaPlan, family: ActionsById, table: RecoveryTable) -> None:
    """Record the end, final or until a person decides. A saga in review is looked at again with growing pauses."""
    assert moves.end is not None
    saga = run.saga
    match moves.end:
        case SagaEnd.DONE:
            row = table.decide(Finding.VERIFIED, _situation(saga.side_effect))
            _record_end(run, "", "", row, _reopened(saga, S.RECONCILED_SUCCESS), table)
        case SagaEnd.FAILED:
            row = table.decide(Finding.REFUTED_DEAD, _situation(saga.side_effect, shown=False))
            _record_end(run, "", "", row, _reopened(saga, S.FAILED), table, free=_is_free(saga, family))
        case SagaEnd.REVERSED:
            row = _reversal_row(saga, family, table)
            back = () if saga.state is S.COMPENSATING else (*_to_partial(saga), S.COMPENSATING)
            _record_end(run, "", "", row, (*back, S.COMPENSATED), table)
        case SagaEnd.REVIEW:
            _to_review(run, moves, table)


def _reopened(saga: Saga, goal: State) -> tuple[State, ...]:
    """The path to an end, also out of a review and out of an order from review."""
    if saga.state not in _PERSONS:
        return path_through(saga.state, goal)
    return (*_PERSONS[saga.state], *path_through(S.PENDING, goal))


def _to_review(run: SagaRun, moves: SagaPlan, table: RecoveryTable) -> None:
    saga = run.saga
    if saga.state is S.REVIEW_REQUIRED:
        _wait_for_person(run)
        return
    failed = moves.reason == "compensation_failed"
    if failed:
        terms = saga.step(moves.because)
        row = table.decide(Finding.COMPENSATION_FAILED, _situation(terms.side_effect))
        before = () if saga.state is S.COMPENSATING else (*_to_partial(saga), S.COMPENSATING)
        path: tuple[State, ...] = (*before, S.COMPENSATION_FAILED, S.REVIEW_REQUIRED)
    else:
        row = table.decide(Finding.VERIFICATION_TIMEOUT, _situation(saga.side_effect, pivot_passed=True))
        path = _stuck_path(saga)
    _record_end(run, moves.because, moves.reason, row, path, table, review=True)


def _wait_for_person(run: SagaRun) -> None:
    until = run.now_us + slower_us(REVIEW_FIRST_US, REVIEW_MAX_US, run.saga.looks)
    run.record(EventKind.SAGA_STEP, {"what": "waits", "step": "", "quiet": True, "hold": "", "due": until})


def _stuck_path(saga: Saga) -> tuple[State, ...]:
    if saga.state in (S.COMPENSATING, S.FORWARD_RECOVERY, S.PARTIALLY_COMMITTED, S.UNKNOWN):
        return (S.REVIEW_REQUIRED,)
    if any(record.state == S.RECONCILED_SUCCESS.value for record in saga.steps.values()):
        return (*_to_partial(saga), S.REVIEW_REQUIRED)
    return (*path_through(saga.state, S.UNKNOWN), S.REVIEW_REQUIRED)


def _record_end(
    run: SagaRun,
    step: str,
    reason: str,
    row: Row,
    path: tuple[State, ...],
    table: RecoveryTable,
    *,
    review: bool = False,
    free: bool = False,
) -> None:
    data: dict[str, Json] = {
        "step": step,
        "reason": reason,
        "detail": "",
        "row": row.id,
        "recovery": row.action.value,
        "table": table.version,
        "review": reason if review else "",
        "incident": "",
        "free": free,
        "due": run.now_us + REVIEW_FIRST_US if review else None,
    }
    if review and row.opens_incident:
        data |= incident_data(row.finding, run.saga.side_effect, run.saga.id)
    run.record(EventKind.SAGA_ENDED, data, path)


def _is_free(saga: Saga, family: ActionsById) -> bool:
    """No effect of the saga exists or can follow, and no step's key is used up."""
    for step in saga.terms:
        child = family.get(saga.steps[step.name].action_id)
        if child is not None and not child.may_repeat:
            return False
        if step_status(saga, step.name, family) not in (StepStatus.WAITING, StepStatus.FAILED):
            return False
    return True


def _situation(side_effect: SideEffect, *, pivot_passed: bool = False, shown: bool = True) -> Situation:
    """The saga as a case of the table: executed, nothing open any more."""
    return Situation(
        side_effect=side_effect,
        within_window=False,
        maybe_stale=False,
        reversible=Reversal.COMPENSABLE,
        pivot_passed=pivot_passed,
        effect_shown=shown,
        executed=True,
        key_record=False,
        key_honoured=False,
        dead=True,
        equivalent_duplicate=False,
        repeated=False,
        late_open=False,
        searched=True,
    )
