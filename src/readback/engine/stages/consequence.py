"""The consequence of a decision: states to pass through, the next reading, and whether to attempt again. Pure.

The engine executes the consequence, and replay asks whether the same would follow today. This module translates the
recovery table's words into states and decides nothing of its own.
"""

from __future__ import annotations

from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.recovery.table import RecoveryAction
from readback.domain.state import State
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reconciliation import Reconciliation
from readback.engine.recovery.transition_paths import path_through
from readback.engine.run import Run
from readback.engine.schedule import Timing, late_due, late_open, poll_due, settle_due, watch_due
from readback.engine.stages import recover
from readback.engine.stages.recover import Decision

S, R = State, RecoveryAction
_REVIEW_REQUIRED: Final = S.REVIEW_REQUIRED
_RECONCILED_SUCCESS: Final = S.RECONCILED_SUCCESS


@dataclass(frozen=True, slots=True)
class Consequence:
    """`again`: make another attempt under the same key at once."""

    path: tuple[State, ...]
    due_us: int | None = None
    again: bool = False


def is_observation_only(action: Action, result: Reconciliation) -> bool:
    """A person must decide, or has decided: readings are recorded and change no state."""
    return action.state is _REVIEW_REQUIRED or recover.decided(action, result)


def consequence(run: Run, when: Timing, decision: Decision, now_us: int) -> Consequence:
    """The consequence of the chosen row in the action's state. `now_us`: the time after the readings."""
    action, result, chosen = run.action, decision.result, decision.row.action
    if chosen in recover.SUCCESSES:
        return Consequence(
            path_through(action.state, _RECONCILED_SUCCESS), watch_due(run.contract, action.stamp, now_us)
        )
    out = decision.late and not result.effect_shown and bool(run.contract.readers)  # a late effect is possible
    match chosen:
        case _ if chosen in recover.LOOK_AGAIN:
            return Consequence(*_later(run, when, decision, now_us))
        case R.KEEP_UNKNOWN | R.REPORT_UNVERIFIED:
            return Consequence(*_unknown(run, when, decision, now_us))
        case _ if chosen in recover.REVERSALS:
            path = (*_to_failed_reconciliation(run, decision), *_reversal_path(run))
            return Consequence(path, now_us)
        case _ if chosen in recover.FAILURES and action.restored and not decision.dead:
            return Consequence(_to_review(run, decision, when))  # after a restore only a person can confirm the failure
        case _ if chosen in recover.FAILURES:
            return Consequence(
                _to_failure(run, decision), late_due(action, when, now_us) if out else _close(run, when, decision)
            )
        case R.DISPATCH_AGAIN:
            return Consequence(path_through(action.state, S.PENDING), now_us, again=True)
        case R.RETRY_SAME_KEY:
            path = (*path_through(action.state, S.RECONCILIATION_FAILED), S.FAILED, S.VALIDATED)
            return Consequence(path, now_us, again=True)
        case _:
            return Consequence(_to_review(run, decision, when), late_due(action, when, now_us) if out else None)


def _close(run: Run, when: Timing, decision: Decision) -> int | None:
    """The close of a still open window: a reported failure is read once more then."""
    looks = decision.as_of_us < when.close_us and bool(run.contract.readers) and not decision.result.effect_shown
    return when.close_us if looks and run.action.attempts else None


def _later(run: Run, when: Timing, decision: Decision, now_us: int) -> tuple[tuple[State, ...], int]:
    action = run.action
    if action.state is S.UNKNOWN and decision.as_of_us >= when.deadline_us:
        return (), late_due(action, when, now_us)
    if decision.as_of_us < when.deadline_us:  # a lost attempt is verified within its window, too
        if decision.result.why is Why.SETTLING:
            return _waiting_path(run), settle_due(run.contract, action, when, now_us)
        return _waiting_path(run), poll_due(run.contract, action, when, now_us)
    if not decision.late:
        return _to_review(run, decision, when), late_due(action, when, now_us)
    return path_through(action.state, S.VERIFICATION_TIMEOUT, S.UNKNOWN), late_due(action, when, now_us)


def _waiting_path(run: Run) -> tuple[State, ...]:
    action, observation = run.action, run.observation
    assert observation is not None
    queued = observation.status in (ObservationStatus.ACCEPTED, ObservationStatus.PENDING)
    if action.state is S.EXECUTING and queued:
        return path_through(action.state, S.ACCEPTED, S.PENDING)
    return path_through(action.state, S.PENDING)


def _unknown(run: Run, when: Timing, decision: Decision, now_us: int) -> tuple[tuple[State, ...], int | None]:
    action = run.action
    timed_out = action.state is not S.UNKNOWN and decision.as_of_us >= when.deadline_us
    goals = (S.VERIFICATION_TIMEOUT, S.UNKNOWN) if timed_out else (S.UNKNOWN,)
    path = path_through(action.state, *goals) if action.state is not S.UNKNOWN else ()
    if decision.row.action is R.REPORT_UNVERIFIED and not (run.contract.readers and run.contract.kind.mutates):
        return path, None
    if late_open(action, when, now_us) and not decision.dead:
        return path, late_due(action, when, now_us)
    if decision.row.action is R.REPORT_UNVERIFIED:
        return path, None
    return (*path, S.REVIEW_REQUIRED), None


def _to_failed_reconciliation(run: Run, decision: Decision) -> tuple[State, ...]:
    state, shown = run.action.state, decision.result.effect_shown
    if decision.result.parts_done and not _rolls_back(run):
        before = path_through(state, S.PENDING) if state is S.UNKNOWN else ()
        return (*before, *path_through(before[-1] if before else state, S.PARTIALLY_COMMITTED))
    if decision.result.verdict is Verdict.UNDETERMINED:
        return path_through(state, S.VERIFICATION_TIMEOUT)
    return path_through(state, S.RECONCILIATION_FAILED, effect_shown=shown)


def _reversal_path(run: Run) -> tuple[State, ...]:
    return () if _rolls_back(run) else (S.COMPENSATING,)  # a rollback is not a compensation


def _rolls_back(run: Run) -> bool:
    return run.contract.has_rollback and not run.action.rollback_done


def _to_failure(run: Run, decision: Decision) -> tuple[State, ...]:
    state = run.action.state
    if decision.result.effect_shown or decision.row.action is R.REFRESH_AND_REPLAN:
        return path_through(state, S.RECONCILIATION_FAILED, S.FAILED, effect_shown=decision.result.effect_shown)
    if state is S.UNKNOWN:
        return path_through(state, S.RECONCILIATION_FAILED, S.FAILED)
    return path_through(state, S.FAILED)


def _to_review(run: Run, decision: Decision, when: Timing) -> tuple[State, ...]:
    state, result = run.action.state, decision.result
    if result.verdict is Verdict.REFUTED:
        return (*_to_failed_reconciliation(run, decision), S.REVIEW_REQUIRED)
    if state is S.UNKNOWN:
        return (S.REVIEW_REQUIRED,)
    if decision.as_of_us >= when.deadline_us:
        return path_through(state, S.VERIFICATION_TIMEOUT, S.REVIEW_REQUIRED)
    return (*path_through(state, S.UNKNOWN), S.REVIEW_REQUIRED)
