"""From a reconciliation to what is done about it: the situation, the table's row, and the record of both.

Called by the engine. The table decides; here its words are turned into states. No row is skipped, and none invented.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.key_release import KeyRelease
from readback.domain.contract.contract import ATTEMPTS_MAX, Noop
from readback.domain.contract.watch import begun_data
from readback.domain.discrepancy import Discrepancy
from readback.domain.events import EventKind
from readback.domain.finding import Finding
from readback.domain.idempotency import Resolution
from readback.domain.people.review import Ending, in_queue
from readback.domain.predicate import Truth, conjoin
from readback.domain.recovery.table import RecoveryAction, RecoveryTable, Reversal, Row, Situation, review_trigger
from readback.domain.side_effect import ReviewTrigger
from readback.domain.state import State
from readback.domain.verdict import Attribution, Verdict, Why
from readback.domain.verification.attribution import bears_other_mark, is_effect, stamp_matches
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reconciliation import Judged, Reconciliation
from readback.engine.entries.side_records import freeze_data, incident_data
from readback.engine.recovery import resend
from readback.engine.recovery.resend import release, searched
from readback.engine.run import REDACTED, Run
from readback.engine.schedule import Timing, late_open
from readback.engine.stages.evaluate import as_json
from readback.engine.stages.verify import is_dead, judge

_COMPENSATION_REQUIRED: Final = Finding.COMPENSATION_REQUIRED
_DUPLICATE_SIDE_EFFECT: Final = Finding.DUPLICATE_SIDE_EFFECT
_RECORD_IDEMPOTENT_REPLAY: Final = RecoveryAction.RECORD_IDEMPOTENT_REPLAY
_VERIFIED: Final = Verdict.VERIFIED
_REFUTED: Final = Verdict.REFUTED
_UNDETERMINED: Final = Verdict.UNDETERMINED
_VERIFIER_ERROR: Final = Why.VERIFIER_ERROR
_NO_REVERSAL: Final = Reversal.NONE
_ATTESTED_DONE: Final = Resolution.ATTESTED_DONE
_REVIEW_REQUIRED: Final = State.REVIEW_REQUIRED
_UNKNOWN: Final = State.UNKNOWN
_RECONCILED_SUCCESS: Final = State.RECONCILED_SUCCESS
_JUDGED: Final = EventKind.JUDGED

MISMATCH = "mismatch"
UNKNOWN_KEY = "unknown_key"
_ENDS_ATTEMPT: Final = frozenset({State.FAILED, State.ROLLED_BACK, State.VALIDATED})
VERIFIER_FAULT = "verifier_error"
NOT_STRUCK = (0, 0)
BROKEN = frozenset({Why.VERIFIER_ERROR, Why.UNREACHABLE, Why.TIMEOUT})


@dataclass(frozen=True, slots=True)
class Decision:
    """What was found and the row it led to. `as_of_us`: when the round of readings began that it stands on.

    Window and deadline are held against that moment: a reading that began before the close is followed by one after it,
    however long it took.
    """

    result: Reconciliation
    row: Row
    trigger: ReviewTrigger | None
    dead: bool
    late: bool
    as_of_us: int
    release: KeyRelease = KeyRelease.NONE
    """Why the key is free, should this end the action."""
    struck: tuple[int, int] = NOT_STRUCK
    """How often in a row the contract was refuted before, and its sources failed by now."""


def decide(run: Run, table: RecoveryTable, timing: Timing, result: Reconciliation, as_of_us: int) -> Decision:
    """Looks the row up. An open verdict of readings that began past the deadline is found to have timed out."""
    dead = is_dead(run, timing, run.read_from(as_of_us))
    alone = _as_if_alone(run, timing, as_of_us, dead) if equals_one(run, result) else None
    if alone is not None and alone.why is Why.SETTLING:  # one alone would have to prove that it stays so
        result = alone
    late = not dead and late_open(run.action, timing, as_of_us)
    finding = _finding(run, timing, result, as_of_us)
    if run.doubt is not None and run.doubt.severity > finding.severity:
        finding = run.doubt
    if finding is not result.finding:
        seen = result.effect_shown or (finding is Finding.VERIFICATION_TIMEOUT and _stamp_seen(run))
        result = replace(result, finding=finding, effect_shown=seen)
        if finding is run.doubt and run.doubt_said:
            result = replace(result, detail=run.doubt_said)
    if finding is _COMPENSATION_REQUIRED:
        result = replace(result, discrepancy=Discrepancy.COMPENSATION_REQUIRED)
    if alone is not None and alone.verdict is not _VERIFIED:
        alone = None
    struck = _struck(run, result)
    repeated = _repeated(run, result, struck)
    situation = _situation(run, timing, result, as_of_us, dead, late, equivalent=alone is not None, repeated=repeated)
    row = table.decide(finding, situation)
    if row.action is _RECORD_IDEMPOTENT_REPLAY and alone is not None:
        result = replace(alone, finding=finding, detail=f"{result.detail} It left what one alone would have left.")
    trigger = review_trigger(finding, situation)
    return Decision(result, row, trigger, dead, late, as_of_us, release(run, result, dead=dead and not late), struck)


def dropped(run: Run, decision: Decision) -> Decision:
    """The decision of what stayed in a transaction that was dropped: that attempt never left."""
    never = KeyRelease.NONE if run.action.left_before else KeyRelease.NEVER_LEFT
    return replace(decision, dead=True, release=never)


def equals_one(run: Run, result: Reconciliation) -> bool:
    """There are several effects, the contract calls that equivalent to one, and each of them is as required."""
    if result.finding is not _DUPLICATE_SIDE_EFFECT or run.contract.noop is not Noop.EQUIVALENT:
        return False
    return all(each.in_scope is Truth.HOLDS and _as_required(each) for each in run.found or ())


def _as_if_alone(run: Run, timing: Timing, as_of_us: int, dead: bool) -> Reconciliation:
    """What would be found had it been executed once."""
    found = run.found or ()
    run.found = found[:1]
    alone = judge(run, timing, as_of_us, dead=dead)
    run.found = found
    return alone


def _as_required(judged: Judged) -> bool:
    return bool(judged.ensure) and conjoin(e.truth for e in judged.ensure) is Truth.HOLDS


def _finding(run: Run, timing: Timing, result: Reconciliation, as_of_us: int) -> Finding:
    contract, finding = run.contract, result.finding
    cancelled = run.action.cancelled and contract.has_compensation
    if result.verdict is _VERIFIED and cancelled and result.effect_shown and not _anothers(result):
        return _COMPENSATION_REQUIRED
    if result.verdict is _REFUTED:
        return Finding.AUTHORITY_MISMATCH if _claimed_otherwise(run, result) else finding
    if result.verdict is not _UNDETERMINED or finding is Finding.UNVERIFIABLE or as_of_us < timing.deadline_us:
        return finding
    if result.why in (_VERIFIER_ERROR, Why.OUT_OF_SCOPE) and finding is Finding.VERIFIER_ERROR:
        return finding
    if finding is Finding.VALUE_MISMATCH:  # accepted, and on its way
        return finding
    if finding is Finding.HIDDEN_SIDE_EFFECT or result.why in (Why.CONFLICTING, Why.UNATTRIBUTED):
        return Finding.UNKNOWN if finding is not Finding.HIDDEN_SIDE_EFFECT else finding
    if _still_out(run) and late_open(run.action, timing, as_of_us) and not _stamp_seen(run):
        return Finding.PENDING_TIMEOUT
    return Finding.VERIFICATION_TIMEOUT


def _anothers(result: Reconciliation) -> bool:
    """It is as it was wanted, and another actor has made it so: that is not ours to take back."""
    return result.attribution is Attribution.OTHER_ACTOR


def _claimed_otherwise(run: Run, result: Reconciliation) -> bool:
    """The tool said that it was done, and the system of record denies it: nothing changed, or ours is not as wanted."""
    if run.observation is None or run.observation.status is not ObservationStatus.SUCCESS:
        return False
    wrong = result.finding is Finding.VALUE_MISMATCH and result.effect_shown
    return wrong or result.finding is Finding.NO_OP_FAILURE


def _still_out(run: Run) -> bool:
    """The execution itself got no answer, and no durable record says what became of it: it is pending there, the key
    is not known there, or nobody keeps such a record. (A record that could not be reached says nothing either way.)
    """
    lost = (ObservationStatus.TIMEOUT, ObservationStatus.NONE, ObservationStatus.CANCELLED)
    if run.observation is None or run.observation.status not in lost:
        return False
    if run.lookup is None:
        return not run.contract.has_lookup
    return run.lookup.status in ("pending", UNKNOWN_KEY)


def _stamp_seen(run: Run) -> bool:
    """A reading in scope bears our stamp: the effect is there, whatever else could not be told of it. Left alone where
    a local boundary is still open, which is settled before anything times out; and where a reading, however weak,
    shows another's mark: what would be taken back may be his by now.
    """
    stamp = run.action.stamp
    others = (j for j in run.checks if is_effect(j) and bears_other_mark(j) and not stamp_matches(stamp, j))
    if run.contract.has_rollback or any(others):
        return False
    seen = (j for j in (*run.checks, *(run.found or ())) if is_effect(j) and j.in_scope is Truth.HOLDS)
    return any(stamp_matches(stamp, each) for each in seen)


def _situation(
    run: Run,
    timing: Timing,
    result: Reconciliation,
    as_of_us: int,
    dead: bool,
    late: bool,
    *,
    equivalent: bool,
    repeated: bool,
) -> Situation:
    contract = run.contract
    if contract.has_rollback and not run.action.rollback_done:
        reversal = Reversal.ROLLBACK_OPEN
    elif contract.has_compensation and contract.execution.reversible:
        reversal = Reversal.COMPENSABLE
    else:
        reversal = _NO_REVERSAL
    open_ = result.verdict is _UNDETERMINED
    return Situation(
        side_effect=contract.side_effect,
        within_window=open_ and as_of_us < timing.deadline_us and not (result.maybe_stale and stronger_left(run)),
        maybe_stale=result.maybe_stale and stronger_left(run),
        reversible=reversal,
        pivot_passed=_pivot_passed(run, result),
        effect_shown=result.effect_shown,
        executed=run.action.attempts > 0,
        key_record=contract.has_lookup and not _key_unknown(run, result),
        key_honoured=contract.execution.honours_key and _may_attempt(run),
        resend_due=resend.is_due(run, result),
        in_progress=result.finding is Finding.VALUE_MISMATCH and open_,
        dead=dead,
        equivalent_duplicate=equivalent,
        repeated=repeated,
        late_open=late,
        searched=searched(run),
    )


def _pivot_passed(run: Run, result: Reconciliation) -> bool:
    """The action stands after its saga's pivot, or is the pivot itself and shows an effect."""
    region = run.action.context.get("region")
    return region == "after" or (region == "pivot" and result.effect_shown)


def _key_unknown(run: Run, result: Reconciliation) -> bool:
    timed_out = result.finding is Finding.PENDING_TIMEOUT
    return timed_out and run.lookup is not None and run.lookup.status == UNKNOWN_KEY


def _may_attempt(run: Run) -> bool:
    able = run.action.attempts < ATTEMPTS_MAX and not run.blind and not run.outside and not run.action.cancelled
    return able and resend.knows_key(run)


def _repeated(run: Run, result: Reconciliation, struck: tuple[int, int]) -> bool:
    """The counter of this fault is at its limit, this time included. A reader that shows another's record is no reader
    to go on with, the first time already.
    """
    limit = run.contract.depth.repeated_mismatch_limit
    if result.verdict is _REFUTED:
        return struck[0] + 1 >= limit
    if result.verdict is _UNDETERMINED:
        return result.why is Why.OUT_OF_SCOPE or (result.why in BROKEN and struck[1] >= limit)
    return False


def _struck(run: Run, result: Reconciliation) -> tuple[int, int]:
    """The two counters that matter here; see `Decision.struck`."""
    if run.struck is not None:
        return run.struck
    counts, faults = run.counts, 0
    if result.verdict is _UNDETERMINED and result.why in BROKEN:
        sources = {f"source:{j.taken.source}" for j in run.checks}
        due = ((s, 0 if _counted(run, s) else 1) for s in sources)
        faults = max((counts.get((s, VERIFIER_FAULT), 0) + more for s, more in due), default=0)
    return (counts.get((f"contract:{run.contract.name}", MISMATCH), 0) if counts else 0), faults


def _counted(run: Run, source: str, *, deciding: bool = True) -> bool:
    """The fault goes on from the last look at this action: faults are counted over actions, not over looks."""
    before = deciding and run.action.polls > 0 and run.action.judgement.why in BROKEN
    return source in run.blamed or before


def decided(action: Action, result: Reconciliation) -> bool:
    """A person's word stands: no state follows from a reading any more, unless it verifies what he attested."""
    return bool(action.resolution) and not (action.attested is _ATTESTED_DONE and result.verdict is _VERIFIED)


def contradicts(action: Action, decision: Decision) -> bool:
    """Whether a reading says something else than what is on record, or than what a person attested. What was not done
    yet may still be done: only once nothing can follow any more a reading denies the word that it was.
    """
    result = decision.result
    if action.attested is _ATTESTED_DONE:
        return result.verdict is _REFUTED and decision.dead
    return result.effect_shown and not action.judgement.effect_shown


def stronger_left(run: Run) -> bool:
    """A reading by a stronger path can still be taken now."""
    if not run.checks:
        return False
    used = run.checks[0].taken
    rest = [terms for terms in run.contract.readers if terms.name != used.reader]
    return len(run.checks) == 1 and any(terms.consistency.rank > used.consistency.rank for terms in rest)


def record_judgement(
    run: Run,
    decision: Decision,
    path: tuple[State, ...],
    now_us: int,
    *,
    due_us: int | None,
    held_since_us: int,
    news: bool = False,
    review: str | None = None,
) -> None:
    """The judgement with its row becomes a ledger entry; the postconditions with their values become evidence.

    What it freezes and whom it calls goes with it, where it changed the state or is `news` to a state that stays.
    `review`: why a person has to look at it, where the caller knows better than the state does.
    """
    result, row = decision.result, decision.row
    a = run.action
    news = news or bool(path)
    data: dict[str, Json] = {
        "verdict": result.verdict._value_,
        "why": result.why._value_,
        "finding": result.finding._value_,
        "discrepancy": result.discrepancy._value_ if result.discrepancy else "",
        "attribution": result.attribution._value_,
        "row": row.id,
        "table": a.judgement.table,
        "recovery": row.action._value_,
        "level": int(result.level),
        "effect_shown": result.effect_shown,
        "dead": decision.dead,
        "done": list(result.parts_done),
        "undone": list(result.parts_open),
        "detail": result.detail,
        "engine": run.plan.predicates.name,
        "due": due_us,
        "polls": a.polls + 1,
        "late_polls": a.late_polls + (1 if a.state in (_UNKNOWN, _REVIEW_REQUIRED) else 0),
        "held_since": held_since_us,
        "review": _review(run, decision, path) if review is None else review,
        "incident": "",
        **_stood_on(run, decision),
        **(_beside(run, decision, path) if news else {}),
    }
    if path and path[-1] in _ENDS_ATTEMPT:
        data["release"] = decision.release.value
    watch = run.contract.watch
    if watch is not None and due_us is not None and path and path[-1] is _RECONCILED_SUCCESS:
        data["watch"] = begun_data(watch, now_us)
    judgement = run.secrecy.hide(judgement_json(result, run.contract.redact), "judgement")
    run.judged = result.ensure
    if run.contract.redact:
        run.shown = judgement["ensure"] if isinstance(judgement, dict) else None
    ref = run.keep("judgement", judgement)
    run.record(_JUDGED, now_us, path, data, {"judgement": ref})


def _stood_on(run: Run, decision: Decision) -> dict[str, Json]:
    """What else the decision stood on and no other entry tells, so that it can be made again of the record alone: what
    is not as in most is left out.
    """
    said: dict[str, Json] = {"as_of": decision.as_of_us}
    if len(run.checks) != 1:
        said["checks"] = len(run.checks)
    if run.found is not None:
        said["found"] = len(run.found)
        if run.search_proven:
            said["proven"] = True
    if run.doubt is not None:
        said["doubt"] = run.doubt.value
        said |= {"doubt_said": run.doubt_said} if run.doubt_said else {}
    if run.blind:
        said["blind"] = True
    if decision.row.action is RecoveryAction.DISPATCH_AGAIN:
        said["resend"] = True
    struck = decision.struck
    if struck != NOT_STRUCK:
        said["struck"] = [*struck]
    return said


def _review(run: Run, decision: Decision, path: tuple[State, ...]) -> str:
    """Why a person has to look at it; empty where nobody has to. What waits for one, or was decided, stays so."""
    a, result = run.action, decision.result
    if not path and (a.state is _REVIEW_REQUIRED or a.resolution):
        return a.review
    state = path[-1] if path else a.state
    found = (result.discrepancy or result.finding).value
    unapproved = bool(a.break_glass) and run.contract.approval is not None
    return in_queue(
        Ending(state, decision.row.action, found, decision.trigger, break_glass=unapproved, contested=a.contested)
    )


def _beside(run: Run, decision: Decision, path: tuple[State, ...]) -> dict[str, Json]:
    """What the judgement freezes, and the incident that it opens."""
    a, result = run.action, decision.result
    said: dict[str, Json] = {}
    if decision.row.opens_incident:
        sources = tuple(sorted({j.taken.source for j in run.checks}))
        said = incident_data(result.finding, run.contract.side_effect, a.id, sources)
    return said | freeze_data(
        run.contract,
        a,
        path[-1] if path else a.state,
        reason=(result.discrepancy or result.finding).value,
        by_row=decision.row.freezes,
        executed=a.attempts > 0 and (run.observation is None or run.observation.dispatched),
        places=partial(run.places, freezes=True),
    )


def judgement_json(result: Reconciliation, redact: tuple[str, ...] = ()) -> dict[str, Json]:
    """Each postcondition with its values, and each identity key: what `show` draws, less what is redacted."""
    return {
        "ensure": [
            {
                "name": e.name,
                "group": e.group,
                "truth": e.truth._value_,
                "source": e.source,
                "reason": e.reason,
                "values": [[path, _shown(path, value, redact)] for path, value in e.values],
            }
            for e in result.ensure
        ],
        "identity": [
            {"key": m.key, "truth": m.truth._value_, "expected": as_json(m.expected), "actual": as_json(m.actual)}
            for m in result.identity
        ],
        "detail": result.detail,
    }


def _shown(path: str, value: Json, redact: tuple[str, ...]) -> Json:
    if redact and any(path == r or path.startswith(r + ".") or r.startswith(path + ".") for r in redact):
        return {REDACTED: True}
    return as_json(value)


def count_faults(run: Run, result: Reconciliation) -> None:
    """Counters of consecutive faults: mismatches by contract, verifier errors and outages by source."""
    subject = f"contract:{run.contract.name}"
    if result.verdict is _REFUTED:
        run.count(subject, MISMATCH, 1)
    elif result.verdict is _VERIFIED:
        run.count(subject, MISMATCH, None)
    count_sources(run, result)


def count_sources(run: Run, result: Reconciliation) -> None:
    """Those by source alone: what a later look shows is no fault of the tool."""
    for judged in (*run.missed, *run.checks):
        source = f"source:{judged.taken.source}"
        deciding = judged in run.checks
        if judged.taken.ran and not (deciding and result.why is _VERIFIER_ERROR):
            run.blamed.discard(source)
            run.count(source, VERIFIER_FAULT, None)
        elif not _counted(run, source, deciding=deciding):
            run.blamed.add(source)
            run.count(source, VERIFIER_FAULT, 1)


SUCCESSES = frozenset({RecoveryAction.ACCEPT, RecoveryAction.RECORD_NO_OP, RecoveryAction.RECORD_IDEMPOTENT_REPLAY})
LOOK_AGAIN = frozenset(
    {
        RecoveryAction.RETRY_VERIFICATION,
        RecoveryAction.FORCE_STRONG_READ,
        RecoveryAction.HOLD_PENDING,
        RecoveryAction.POLL_IDEMPOTENCY_RECORD,
    }
)
REVERSALS = frozenset(
    {
        RecoveryAction.COMPENSATE_OR_ROLL_BACK,
        RecoveryAction.COMPENSATE_AND_STOP,
        RecoveryAction.BACKWARD_COMPENSATION,
    }
)
FAILURES = frozenset(
    {
        RecoveryAction.FAIL,
        RecoveryAction.FAIL_CLOSED,
        RecoveryAction.REFRESH_AND_REPLAN,
        RecoveryAction.DEFER_OR_FAIL,
    }
)

NO_EFFECT = frozenset({Discrepancy.NO_OP_FAILURE, Discrepancy.TARGET_MISSING})
