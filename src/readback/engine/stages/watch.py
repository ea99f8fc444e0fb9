"""Watch: read again after a verified action, and after a failed action with a possible late effect.

Called by the engine for an ended action with a due time. Watching reads and records. It never dispatches, reverses
nothing, and moves no state. A reading with the known result becomes one small entry. Only a reading strong enough to
refute reports a drift and invalidates the claim; an undetermined result leads to another reading.

Steps of a look:

1. Is there anything left to watch?
2. Take as few readings as the class demands, and use the strongest path if the result differs from the known result.
3. Do the watched postconditions hold? The actor no longer matters.
4. Classify a drift against the last reading with valid postconditions.
5. Record quiet, drifted or restored: the entry, the claims, and the time of the next look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from readback.canon import Json, parse_json, sha256_hex, stored_bytes
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.claim import ClaimChange, ClaimKind, ClaimStatus, Reason, last_event_of
from readback.domain.contract.contract import LATE_POLLS_MAX, Contract, Noop
from readback.domain.contract.limits import Limits
from readback.domain.contract.watch import CHANGES_MAX, NO_LOOK, UNTOLD, WatchEnd, WatchState
from readback.domain.discrepancy import Discrepancy
from readback.domain.events import EventKind
from readback.domain.finding import Finding
from readback.domain.kind import Kind
from readback.domain.people.review import DRIFT
from readback.domain.people.review import Decision as Decided
from readback.domain.recovery.table import RecoveryTable, Reversal, Situation
from readback.domain.side_effect import Consistency
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.attribution import has_changed
from readback.domain.verification.reconcile import reconcile
from readback.domain.verification.reconciliation import Case, EvaluatedReading, Reconciliation
from readback.engine import tenant_limits
from readback.engine.claims import entries as claim
from readback.engine.effects import Commit, Effects, Lease, Load
from readback.engine.entries.reading import taken_as_recorded
from readback.engine.entries.recorder import Recorder
from readback.engine.entries.side_records import incident_data
from readback.engine.run import Run
from readback.engine.run_result import Completed, RunResult, Work
from readback.engine.saga_run import load_saga
from readback.engine.schedule import LATE_POLL_MAX_US, Timing, late_due, watch_next_due
from readback.engine.stages import recover, verify
from readback.engine.stages.escalate import CONTRACT_CHANGED, LEASE_US
from readback.engine.stages.evaluate import judge_reading
from readback.engine.stages.recover import Decision
from readback.engine.values.reader_results import ERROR_TEXT_MAX

Steps = Effects[None]
FALLEN = frozenset({ClaimStatus.CONTESTED, ClaimStatus.RETRACTED})


@dataclass(frozen=True, slots=True)
class WatchContext:
    """The engine's parts for a look: recovery table, limits, and the commit function."""

    table: RecoveryTable
    limits: Limits | None
    commit: Callable[[Run], Effects[RunResult | None]]


def look(run: Run, desk: WatchContext) -> Work:
    """Take one durable look at a verified action."""
    watched, asked = run.action.watch, run.action.decision == Decided.VERIFY_AGAIN
    over = yield from _over(run.action, asked)  # 1
    if watched is None or over:
        run.record(EventKind.WATCHED, run.now_us, (), {"verdict": NO_LOOK, "why": "", "due": None, "over": over})
    else:
        yield from _look(run, watched, desk, asked)
    return (yield from desk.commit(run)) or Completed(run)


def _over(action: Action, asked: bool) -> Effects[str]:
    """Why the watch is over, or "": the action was reversed, or the claim became invalid for another reason than a
    drift.
    """
    if action.decision == Decided.ATTEST_NOT_DONE:
        return WatchEnd.WITHDRAWN
    for kind in ClaimKind:
        said = last_event_of(action.claims, kind)
        if said is not None and said.status in FALLEN and said.reason is not Reason.DRIFTED:
            return WatchEnd.REVERSED if said.reason is Reason.REVERSED else WatchEnd.WITHDRAWN
    named = str(action.context.get("saga", ""))
    saga = (yield from load_saga(named)) if named else None
    if saga is not None and any(s.undo_id and s.action_id == action.id for s in saga.steps.values()):
        return WatchEnd.REVERSED
    changes = action.watch.changes if action.watch is not None else 0
    return WatchEnd.CHANGES if changes >= CHANGES_MAX and not asked else ""


def _look(run: Run, watched: WatchState, desk: WatchContext, asked: bool) -> Steps:
    as_of_us = run.now_us
    yield from verify.take_checks(run, closing=asked)  # 2
    result = holds_now(run)
    if not _as_known(watched, result) and recover.stronger_left(run):
        yield from verify.take_strongest(run)
        result = holds_now(run)
    if result.verdict is Verdict.REFUTED:
        result = classified(run, (yield from _held(run, watched)), result)
    elif result.verdict is Verdict.VERIFIED and watched.drifted and _weaker_than_the_fall(run):
        result = replace(result, verdict=Verdict.UNDETERMINED, why=Why.STALE)
    told = result.verdict is not Verdict.UNDETERMINED  # 5
    due = watch_next_due(run.action, watched, run.now_us, told=told)
    if desk.limits is not None and due is not None:
        due = yield from tenant_limits.schedule_next_read(run, desk.limits, (), due)
    faults = _faults(run, watched, result, desk.table)
    known = _as_known(watched, result) and not (watched.drifted and (asked or _falls_otherwise(run, watched, result)))
    if not told or known:
        over = "" if due is not None else WatchEnd.TIME if told else WatchEnd.UNREAD
        back: dict[str, Json] = {"review": DRIFT} if asked and watched.drifted else {}
        _record_quiet(run, result, due, over, {**faults, **back})
    else:
        yield from _record_change(run, watched, result, desk.table, due, as_of_us)


def _as_known(watched: WatchState, result: Reconciliation) -> bool:
    return result.verdict is (Verdict.REFUTED if watched.drifted else Verdict.VERIFIED)


def _falls_otherwise(run: Run, watched: WatchState, result: Reconciliation) -> bool:
    """The claim was invalid already, and the state differs again."""
    return _digest(run, result) != watched.seen_ref


def _digest(run: Run, result: Reconciliation) -> str:
    """The digest of the judgement as stored."""
    hide = run.secrecy.hide
    shown = hide(recover.judgement_json(result, run.contract.redact), "judgement")
    return sha256_hex(stored_bytes(hide(shown, "judgement")))


def _weaker_than_the_fall(run: Run) -> bool:
    """A strong reading showed the drift, and this reading is weaker: its content may be older than the drift."""
    fell = run.action.reading or {}
    return fell.get("consistency") == Consistency.STRONG.value and not all(j.taken.strong for j in run.checks)


# --- 3 and 4: does it hold, and if not, how did it change? ---


def holds_now(run: Run) -> Reconciliation:
    """Judge the watched postconditions over the current readings: verified if they hold, regardless of the actor."""
    terms, checks = _later(run.contract), tuple(_watched_only(run.contract, each) for each in run.checks)
    # Compared with the state before the action, as after an attempt: the window is closed, so no answer is "pending".
    result = reconcile(_case(run, terms, checks, run.before))
    # Refuted or undetermined: returned as it is. `classified` compares a refuted result with the last valid state.
    if result.verdict is not Verdict.VERIFIED:
        return result
    return replace(result, finding=Finding.VERIFIED, discrepancy=None, effect_shown=run.action.judgement.effect_shown)


def _case(run: Run, terms: Contract, checks: tuple[EvaluatedReading, ...], before: EvaluatedReading | None) -> Case:
    assert run.observation is not None
    return Case(terms, run.action.stamp, run.observation, checks, before, window_closed=True)


def _later(contract: Contract) -> Contract:
    """The contract for a later state: other actors work there too, inside and outside the allowed changes."""
    kind = contract.kind if contract.kind is Kind.DELETE else Kind.SET
    return replace(contract, kind=kind, noop=Noop.ALLOW, may_change=None)


def _watched_only(contract: Contract, judged: EvaluatedReading) -> EvaluatedReading:
    names = contract.watch.ensure if contract.watch is not None else ()
    return replace(judged, ensure=tuple(e for e in judged.ensure if e.name in names)) if names else judged


def classified(run: Run, held: EvaluatedReading | None, result: Reconciliation) -> Reconciliation:
    """Classify a refuted result against the last valid state (`held`), instead of the state before the action."""
    # The reading shows another object: there is no earlier state of that object to compare with.
    if result.finding is Finding.WRONG_TARGET:
        return result
    terms = _later(run.contract)
    checks = tuple(_unsigned(run, held, _watched_only(run.contract, each)) for each in run.checks)
    found = reconcile(_case(run, terms, checks, held))
    # Not refuted against the last valid state: the result against the state before the action stays.
    if found.verdict is not Verdict.REFUTED:
        found = result
    # Equal to the state before the action. The effect was seen in between, so this is a changed value, not a no-op.
    if found.discrepancy is Discrepancy.NO_OP_FAILURE:
        found = replace(found, discrepancy=Discrepancy.VALUE_MISMATCH)
    return replace(found, finding=Finding.DRIFT, effect_shown=run.action.judgement.effect_shown)


def _held(run: Run, watched: WatchState) -> Effects[EvaluatedReading | None]:
    if watched.held is None:
        return None
    value: Json = None
    if watched.held_ref:
        loaded = yield from Load(run.action.tenant, run.action.id, watched.held_ref)
        value = None if loaded is None else parse_json(loaded)
    return held_as_recorded(run, watched.held, value)


def held_as_recorded(run: Run, data: Mapping[str, Json], value: Json) -> EvaluatedReading:
    """The last reading with valid postconditions, from its entry and its evidence."""
    return judge_reading(run.plan, taken_as_recorded(data, value), run.variables(), run.taken_before)


def _unsigned(run: Run, held: EvaluatedReading | None, judged: EvaluatedReading) -> EvaluatedReading:
    """Remove this action's stamp from a changed record: the stamp names the record's creator, no longer the last
    writer.
    """
    if held is None or not has_changed(held, judged):
        return judged
    taken = judged.taken
    if taken.reading.stamp == run.action.stamp:
        taken = replace(taken, reading=replace(taken.reading, stamp=None, created_after_dispatch=False))
    identity = tuple(m for m in judged.identity if m.key != "stamp" or m.actual != run.action.stamp)
    return replace(judged, taken=taken, identity=identity)


# --- 5: record the look ---


def _faults(run: Run, watched: WatchState, result: Reconciliation, table: RecoveryTable) -> dict[str, Json]:
    """Count source faults by action, not by look. Opens an incident for a repeatedly failing source. A reader in need
    of a redacted argument is not at fault.
    """
    if run.blind:
        return {}
    sources = tuple(sorted({f"source:{judged.taken.source}" for judged in run.checks}))
    if watched.failing and watched.why in recover.BROKEN:
        run.faulted_sources.update(sources)
    before = [run.counts.get((each, recover.VERIFIER_FAULT), 0) for each in sources]
    recover.count_sources(run, result)
    after = [run.counts.get((each, recover.VERIFIER_FAULT), 0) for each in sources]
    if result.finding is not Finding.VERIFIER_ERROR:
        return {}
    most = run.contract.depth.repeated_mismatch_limit
    reached = any(was < most <= now for was, now in zip(before, after, strict=True))
    foreign = result.why is Why.OUT_OF_SCOPE and watched.why != Why.OUT_OF_SCOPE
    if not reached and not foreign:
        return {}
    row = table.decide(Finding.VERIFIER_ERROR, situation(run.contract, repeated=True))
    named = tuple(each.removeprefix("source:") for each in sources)
    side_effect = run.contract.side_effect
    return incident_data(Finding.VERIFIER_ERROR, side_effect, run.action.id, named) if row.opens_incident else {}


def situation(contract: Contract, *, repeated: bool = False) -> Situation:
    """The table's input for an ended action: nothing open, nothing repeated, nothing to reverse."""
    return Situation(
        side_effect=contract.side_effect,
        within_window=False,
        maybe_stale=False,
        reversible=Reversal.NONE,
        pivot_passed=False,
        effect_shown=True,
        executed=True,
        key_record=False,
        key_honoured=False,
        dead=True,
        equivalent_duplicate=False,
        repeated=repeated,
        late_open=False,
        searched=True,
    )


def _record_quiet(run: Run, result: Reconciliation, due: int | None, over: str, more: dict[str, Json]) -> None:
    """Record one small entry: the deciding reading and the time of the next."""
    taken = run.checks[result.deciding].taken
    data: dict[str, Json] = {
        "verdict": result.verdict.value,
        "why": result.why.value,
        "due": due,
        "over": over,
        "role": taken.role.value,
        "reader": taken.reader,
        "source": taken.source,
        "consistency": taken.consistency.value,
        "presence": taken.reading.presence.value,
        "complete": taken.reading.complete,
        "started": taken.started_us,
        "finished": taken.finished_us,
        "fault": taken.fault.value,
        "error": taken.error[:ERROR_TEXT_MAX],
        "withheld": result.why is Why.OUT_OF_SCOPE,
        **more,
    }
    run.record(EventKind.WATCHED, run.now_us, (), data)


def _record_change(
    run: Run, watched: WatchState, result: Reconciliation, table: RecoveryTable, due: int | None, as_of_us: int
) -> Steps:
    """Record a drift, another drift or a restoration: the readings, the judgement, and the claim's change."""
    action, now_us = run.action, run.now_us
    fell = result.verdict is Verdict.REFUTED
    row = table.decide(result.finding, situation(run.contract))
    action.judgement.table = table.version
    for judged in (*run.missed, *run.checks):
        verify.record_reading(run, judged)
    review = (action.review or DRIFT) if fell else "" if action.review == DRIFT else action.review
    if fell and watched.changes + 1 >= CHANGES_MAX:
        due = None
    decision = Decision(result, row, None, dead=True, late=False, as_of_us=as_of_us)
    news = fell and not watched.drifted
    recover.record_judgement(run, decision, (), now_us, due_us=due, held_since_us=0, news=news, review=review)
    status, reason = (ClaimStatus.RETRACTED, Reason.DRIFTED) if fell else (ClaimStatus.REINSTATED, Reason.RESTORED)
    said = last_event_of(action.claims, ClaimKind.HOLDS)
    if fell or (said is not None and said.reason is Reason.DRIFTED):
        yield from claim.record_claims(run, (ClaimChange(ClaimKind.HOLDS, status, reason),), now_us)


def defer(action: Action, now_us: int) -> Steps:
    """Defer a look under a changed contract: such a look could not decide.

    Needs no contract and calls nothing. Does nothing if another worker moved the action on meanwhile.
    """
    leased = yield from Lease(action.id, now_us + LEASE_US, action.version)
    if leased.fence is None or leased.version != action.version:
        return
    if action.watch is not None:
        due = watch_next_due(action, action.watch, leased.now_us, told=False)
    else:
        due = leased.now_us + LATE_POLL_MAX_US if action.late_polls < LATE_POLLS_MAX else None
    over = "" if due is not None else WatchEnd.UNREAD
    entries = Recorder(action, action.version)
    data: dict[str, Json] = {"verdict": UNTOLD, "why": Why.UNVERIFIABLE.value, "due": due, "over": over}
    entries.add(EventKind.WATCHED, leased.now_us, (), {**data, "error": CONTRACT_CHANGED})
    yield from Commit(entries.append(leased.fence))


# --- failed actions with a possible late effect ---


def late(run: Run, decision: Decision, when: Timing, desk: WatchContext, now_us: int) -> Effects[RunResult | None]:
    """Look at a failed action: no change, or a late effect. A late effect contests the earlier report."""
    action, news = run.action, recover.contradicts(run.action, decision)
    due = late_due(action, when, now_us) if decision.late and not decision.result.effect_shown else None
    if desk.limits is not None and due is not None:
        due = yield from tenant_limits.schedule_next_read(run, desk.limits, (), due)
    recover.count_sources(run, decision.result)
    if news:
        for judged in (*run.missed, *run.checks):
            verify.record_reading(run, judged)
        recover.record_judgement(run, decision, (), now_us, due_us=due, held_since_us=0, news=True)
        yield from claim.after_judgement(run, decision.result, (), news=True, now_us=now_us)
    else:
        _record_quiet(run, decision.result, due, "" if due is not None else WatchEnd.TIME, {})
    run.missed = ()
    return (yield from desk.commit(run))


def aside(run: Run, decision: Decision, when: Timing, desk: WatchContext, now_us: int) -> Effects[RunResult | None]:
    """A person must decide, or has decided: readings are recorded and change no state."""
    shown, news = decision.result.effect_shown, recover.contradicts(run.action, decision)
    due = late_due(run.action, when, now_us) if decision.late and not shown else None
    if desk.limits is not None and due is not None:
        due = yield from tenant_limits.schedule_next_read(run, desk.limits, (), due)
    recover.record_judgement(run, decision, (), now_us, due_us=due, held_since_us=0, news=news)
    yield from claim.after_judgement(run, decision.result, (), news=news, now_us=now_us)
    return (yield from desk.commit(run))
