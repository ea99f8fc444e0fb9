"""Reversal: a staged transaction, a rollback within a local boundary, and compensation.

Called by the engine when the table says so. A reading verifies each: ROLLED_BACK means a reading showed the target as
before, COMPENSATED means the compensating action itself was verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from readback.canon import Json, parse_json
from readback.domain.action.action import Action
from readback.domain.action.claim import holds
from readback.domain.action.key_release import KeyRelease
from readback.domain.discrepancy import Discrepancy
from readback.domain.events import EventKind
from readback.domain.finding import Finding
from readback.domain.idempotency import key_hash
from readback.domain.outcome.outcome import Outcome
from readback.domain.people.review import COMPENSATION_FAILED, Decision
from readback.domain.predicate import Truth, conjoin
from readback.domain.recovery.table import RecoveryTable, Reversal, Situation
from readback.domain.saga.fold import StepRecord
from readback.domain.saga.planner import has_ended
from readback.domain.side_effect import SideEffect
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Attribution, Level, Verdict, Why
from readback.domain.verification.change import alike, differences, is_withheld, outside
from readback.domain.verification.observation_signs import one_line
from readback.domain.verification.reading import Presence, Role
from readback.domain.verification.reconciliation import EvaluatedReading, Reconciliation
from readback.engine.compiled_contract import Request
from readback.engine.effects import (
    Called,
    CallReader,
    Effects,
    Ending,
    Load,
    LoadAction,
    LoadKey,
    ReadKind,
    Settle,
)
from readback.engine.entries.side_records import freeze_data, incident_data
from readback.engine.run import Run
from readback.engine.run_result import Completed, RunResult
from readback.engine.saga_run import load_saga
from readback.engine.schedule import LEASE_MARGIN_US, lease_until
from readback.engine.stages.evaluate import judge_reading
from readback.engine.stages.report import outcome_of
from readback.engine.stages.verify import (
    describe_error,
    record_reading,
    search,
    take_before,
    take_strongest,
    taken_of,
)
from readback.engine.values.reader_results import ERROR_TEXT_MAX
from readback.errors import ArgumentError, NotDispatchedError

# A compensation's arguments: the action's own, or built by the contract from the reading.

Given = tuple[Mapping[str, object], Mapping[str, Json]]


def given_to_reversal(run: Run) -> Effects[Given]:
    """The arguments of the reversal in both notations. Raises InputError if they cannot be built."""
    made = run.plan.reversing
    if made is None or run.blind or run.action.compensation_id:  # follow the existing compensation
        return run.arguments, run.requested
    before = run.before.taken.reading.value if run.before is not None else None
    shown = yield from _shown(run)
    roots = {**run.variables(), "before": run.secrecy.hide(before, "before"), "authoritative": shown}
    arguments, requested = made(roots)
    if any(map(_hides, requested.values())):
        raise ArgumentError(f"The arguments for reversing {run.contract.name!r} are recorded as redacted only.")
    return arguments, requested


def _shown(run: Run) -> Effects[Json]:
    """The last reading of the action's target."""
    if run.checks:
        return run.secrecy.hide(run.checks[-1].taken.reading.value, "authoritative")
    if not run.action.reading_ref:
        return None
    loaded = yield from Load(run.action.tenant, run.action.id, run.action.reading_ref)
    return None if loaded is None else parse_json(loaded)


def _hides(value: Json) -> bool:
    if is_withheld(value):
        return True
    if isinstance(value, dict):
        return any(map(_hides, value.values()))
    return isinstance(value, list) and any(map(_hides, value))


CHILD_LOOK_AGAIN_US = 1_000_000


# --- staged transaction ---


def settle_staged(run: Run) -> Effects[Reconciliation | None]:
    """Verify inside the open boundary. Commit if the postconditions hold, otherwise abandon.

    Nothing is committed once another process may hold the attempt's lease: that process judged without this commit.
    Returns None if the transaction was committed, or may have been; the action is then verified from outside like any
    other.
    """
    inside = yield from _read_inside(run)
    against = _against_commit(run, inside)
    if against and run.before is None and run.contract.readers and not run.contract.kind.needs_ours:
        # While the boundary is open, a reading from outside shows the state before.
        run.before = yield from take_before(run)
        record_reading(run, run.before)
    timeout = run.contract.execution.timeout_us
    called = yield from Settle(run.plan, run.call_context(), run.given, run.staged, not against, timeout)
    run.passed(called.finished_us)
    worked = called.ending is Ending.RETURNED
    how = ("abandoned" if worked else "abandon_failed") if against else ("committed" if worked else "commit_open")
    refused = not against and isinstance(called.error, NotDispatchedError)
    if refused:
        how, against = "abandoned", f"The commit was refused: {_error(called)}"
    settled: dict[str, Json] = {"how": how, "error": _error(called), "ended": called.finished_us}
    run.record(EventKind.STAGED_SETTLED, called.finished_us, (), settled)
    if how != "abandoned":
        return None
    return (yield from _unchanged(run, inside, against, refused))


def _against_commit(run: Run, inside: EvaluatedReading) -> str:
    """Why the staged transaction is abandoned; empty to commit."""
    if inside.taken.finished_us >= lease_until(run.contract, run.action.executed_us) - LEASE_MARGIN_US:
        return "It was verified too late to be committed."
    if not inside.ensure or conjoin(e.truth for e in inside.ensure) is not Truth.HOLDS:
        return "The postconditions did not hold inside the transaction."
    if inside.terminal_failure:
        return "What was staged is a terminal failure."
    if inside.in_scope is Truth.VIOLATED:
        return "What was staged is of another target or tenant."
    if _beside(run, inside):
        return "Inside the transaction something changed that may not change."
    return ""


def _beside(run: Run, inside: EvaluatedReading) -> bool:
    """Whether a field outside the allowed changes differs, among the fields in both readings: a reading inside may show
    fewer.
    """
    frame, before = run.contract.may_change, run.before
    if frame is None or before is None or before.presence is not inside.presence:
        return False
    old, new = _both(before.taken.reading.value, inside.taken.reading.value)
    return bool(outside(frame, differences(old, new)))


def _both(old: Json, new: Json) -> tuple[Json, Json]:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old, new
    pairs = {key: _both(old[key], new[key]) for key in old.keys() & new.keys()}
    return {key: pair[0] for key, pair in pairs.items()}, {key: pair[1] for key, pair in pairs.items()}


def _read_inside(run: Run) -> Effects[EvaluatedReading]:
    timeout = run.contract.execution.timeout_us
    called = yield from CallReader(run.plan, ReadKind.STAGED, 0, run.call_context(), run.given, timeout, run.staged)
    judged = judge_reading(run.plan, taken_of(run, Role.STAGED, called), run.variables(), run.taken_before)
    return judged


def _unchanged(run: Run, inside: EvaluatedReading, against: str, refused: bool) -> Effects[Reconciliation | None]:
    """After abandoning: a reading from outside must show the target as before, and a search must find no effect of this
    action.
    """
    yield from take_strongest(run)
    record_reading(run, run.checks[0])
    if not same_as_before(run, run.checks[0]) or not (yield from _nothing_found(run)):
        return None
    return Reconciliation(
        Verdict.REFUTED,
        Why.NONE,
        Finding.FAILED_BEFORE_EFFECT,
        None if refused or not inside.taken.ran else Discrepancy.VALUE_MISMATCH,
        Attribution.UNKNOWN,
        level=Level.VERIFIED,
        ensure=inside.ensure,
        detail=f"{against} So it was dropped; nothing is visible.",
    )


def _nothing_found(run: Run) -> Effects[bool]:
    """Whether a complete search by the stamp found nothing. True for a contract without a search."""
    if not run.contract.has_find:
        return True
    yield from search(run)
    return run.found == ()


def same_as_before(run: Run, now: EvaluatedReading) -> bool:
    """Whether the strong reading shows the same as the reading before execution."""
    before = run.before
    if before is None and run.contract.kind.needs_ours:
        return now.taken.believable_absence  # these kinds create: the target was absent, or belongs to another actor
    if before is None or not before.taken.ran or not now.taken.ran or not now.taken.strong:
        return False
    if before.presence is not now.presence or now.presence not in (Presence.PRESENT, Presence.ABSENT):
        return False
    if now.taken.reading.stamp == run.action.stamp != before.taken.reading.stamp:
        return False
    return alike(before.taken.reading.value, now.taken.reading.value)


# --- rollback ---

CommitStep = Callable[[Run], Effects[RunResult | None]]


def roll_back(run: Run, commit: CommitStep) -> Effects[RunResult | None]:
    """Roll the local boundary back, once, and read whether the target is as before."""
    if not run.action.rollback_done:
        now_us = run.now_us
        run.record(EventKind.STAGED_SETTLED, now_us, (), {"how": "abandoned", "error": ""})
        ended = yield from commit(run)
        if ended is not None:
            return ended
        # Durable: after a crash the rollback is not repeated; the reading below decides. With redacted arguments the
        # rollback is not called at all: it would restore a wrong state.
        if not run.blind:
            yield from _put_back(run)
    yield from take_strongest(run)
    record_reading(run, run.checks[0])
    undone = same_as_before(run, run.checks[0]) and (yield from _nothing_found(run))
    now_us = run.now_us
    goal = State.ROLLED_BACK if undone else State.REVIEW_REQUIRED
    _record_end(run, now_us, (goal,), "" if undone else "rollback", "")
    return None


def _put_back(run: Run) -> Effects[None]:
    timeout = run.contract.execution.timeout_us
    called = yield from Settle(run.plan, run.call_context(), run.given, None, False, timeout)
    run.passed(called.finished_us)


def _record_end(run: Run, now_us: int, path: tuple[State, ...], review: str, incident: str) -> None:
    data: dict[str, Json] = {"action": "", "how": "rollback", "due": None, "review": review, "incident": incident}
    if path[-1] is State.ROLLED_BACK:
        data["release"] = KeyRelease.NONE.value  # the attempt left, and its effect was undone
    run.record(EventKind.COMPENSATION, now_us, path, data)


# --- compensation ---


def compensation_of(run: Run) -> Effects[Request]:
    """The compensating action of an effect. The key derives from the effect, so the compensation runs only once. Raises
    InputError if the arguments cannot be built.
    """
    assert run.plan.compensation is not None
    arguments, requested = yield from given_to_reversal(run)
    return Request(
        run.plan.compensation,
        arguments,
        requested,
        operation=f"compensate {run.action.id}",
        intended=None,
        step=f"compensation of {run.action.id}",
        reverses=run.action.stamp,
        ordered=run.action.decision == Decision.COMPENSATE,
    )


def follow_begun(run: Run, request: Request, table: RecoveryTable) -> Effects[None]:
    """Follow an existing compensation and start none: the compensation already runs, or its arguments are redacted."""
    if run.action.compensation_id:
        begun = yield from LoadAction(run.action.compensation_id)
        record_compensation(run, begun, table, run.now_us)
        return
    hashed = key_hash(run.action.tenant, request.plan.contract.name, request.operation)
    found = yield from LoadKey(run.action.tenant, hashed)
    if found is None:
        detail = "It is not reversed: its arguments are recorded as redacted only."
        record_uncompensated(run, detail, table, run.now_us)
        return
    folded = yield from LoadAction(found.action_id)
    record_compensation(run, folded, table, run.now_us)


def child_of(ended: RunResult) -> Effects[Action | None]:
    """The compensating action in its current state, regardless of the executing process."""
    if isinstance(ended, Completed):
        return ended.run.action
    folded = yield from LoadAction(ended.action_id)
    return folded


def record_compensation(run: Run, child: Action | None, table: RecoveryTable, now_us: int) -> None:
    """Record COMPENSATED only if the child was verified. A failed, held or refuted child means COMPENSATION_FAILED,
    then review.

    An unknown child without a further reading, for example after an attestation, counts as failed: a wait would never
    end.
    """
    data: dict[str, Json] = {"action": child.id if child else "", "how": "compensation"}
    if child is None or (child.state not in TERMINAL and not (child.state is State.UNKNOWN and child.due_us is None)):
        waits_until = child.due_us if child is not None and child.due_us is not None else 0
        data["due"] = max(waits_until, now_us + CHILD_LOOK_AGAIN_US)
        run.record(EventKind.COMPENSATION, now_us, (), data)
        return
    if child.state is State.RECONCILED_SUCCESS:
        run.record(EventKind.COMPENSATION, now_us, (State.COMPENSATED,), {**data, "state": child.state.value})
        return
    record_uncompensated(run, "", table, now_us, {**data, "state": child.state.value})


def record_uncompensated(
    run: Run, detail: str, table: RecoveryTable, now_us: int, data: dict[str, Json] | None = None
) -> None:
    """The reversal failed, or could not be proposed: a person must review the action."""
    row = table.decide(Finding.COMPENSATION_FAILED, uncompensated(run.contract.side_effect))
    failed: dict[str, Json] = {
        **(data or {"action": "", "how": "compensation", "detail": one_line(detail, ERROR_TEXT_MAX)}),
        "row": row.id,
        "review": COMPENSATION_FAILED,
        "incident": "",
    }
    path = (State.COMPENSATION_FAILED, State.REVIEW_REQUIRED)
    if row.opens_incident:
        failed |= incident_data(Finding.COMPENSATION_FAILED, run.contract.side_effect, run.action.id)
    failed |= freeze_data(
        run.contract,
        run.action,
        path[-1],
        reason=COMPENSATION_FAILED,
        by_row=row.freezes,
        executed=True,
        places=partial(run.places, freezes=True),
    )
    run.record(EventKind.COMPENSATION, now_us, path, failed)


def uncompensated(side_effect: SideEffect) -> Situation:
    """The situation of an action with a failed or impossible reversal."""
    return Situation(
        side_effect=side_effect,
        within_window=False,
        maybe_stale=False,
        reversible=Reversal.NONE,
        pivot_passed=False,
        effect_shown=True,
        executed=True,
        key_record=False,
        key_honoured=False,
        dead=False,
        equivalent_duplicate=False,
        repeated=False,
        late_open=False,
    )


def _error(called: Called) -> str:
    return "" if called.error is None else describe_error(called.error)


# --- the outcome after a saga reversed a step ---
#
# Called by the coordinator before a single action is reported. The step's own entries end in success, since a reversal
# is an action of its own; the saga's entries record the reversal.


def outcome_with_reversals(action: Action, *, replayed: bool = False) -> Effects[Outcome]:
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
        state=reversal_state(record),
        verdict=Verdict.REFUTED,
        may_repeat=False,
        compensation=record.undo_id,
        told={},
    )
    return (yield from _by_its_reversal(taken_back, record.undo_id))


def _by_its_reversal(outcome: Outcome, undo_id: str) -> Effects[Outcome]:
    """Contested if the reversal is contested or was reversed: the effect may exist again. Review if the reversal can no
    longer succeed.
    """
    if outcome.state not in (State.COMPENSATED, State.COMPENSATING) or not undo_id:
        return outcome
    folded = yield from LoadAction(undo_id)
    undo = folded
    if outcome.state is State.COMPENSATING:
        return replace(outcome, state=State.REVIEW_REQUIRED) if undo is not None and has_ended(undo) else outcome
    stands = undo is not None and not undo.contested and (not undo.claims or holds(undo.claims))
    return outcome if stands else replace(outcome, contested=True)


def reversal_state(record: StepRecord) -> State:
    """The state of a step with a started reversal: reversed only if the reversal was verified."""
    match record.undo_state:
        case State.RECONCILED_SUCCESS.value:
            return State.COMPENSATED
        case "":
            return State.COMPENSATING
        case _:
            return State.REVIEW_REQUIRED
