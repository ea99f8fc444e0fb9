"""From a reconciliation to recovery: the situation, the table's row, and the record of both.

Called by the engine. The table decides, and this module translates the words into states. No row is skipped, and no row
is added.
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
from readback.domain.contract.watch import watch_start_data
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
from readback.domain.verification.reconciliation import EvaluatedReading, Reconciliation
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
    """The finding and its recovery row. `as_of_us`: the start of the round of readings behind the decision.

    Window and deadline are compared with this moment. A reading started before the close is followed by a reading after
    it, regardless of duration.
    """

    result: Reconciliation
    row: Row
    trigger: ReviewTrigger | None
    dead: bool
    late: bool
    as_of_us: int
    release: KeyRelease = KeyRelease.NONE
    """Why the key is free, if this ends the action."""
    prior_fault_counts: tuple[int, int] = NOT_STRUCK
    """Consecutive earlier refutations of the contract, and current consecutive failures of its sources."""


def decide(run: Run, table: RecoveryTable, timing: Timing, result: Reconciliation, as_of_us: int) -> Decision:
    """Look up the recovery row. An undetermined verdict from readings after the deadline counts as a timeout."""
    dead = is_dead(run, timing, run.read_from(as_of_us))
    # Equivalent duplicates: judge the first effect as if it were alone. A single effect within its stability period is
    # undetermined, so the duplicates are undetermined, too.
    alone = _as_if_alone(run, timing, as_of_us, dead) if duplicates_are_equivalent(run, result) else None
    if alone is not None and alone.why is Why.SETTLING:
        result = alone
    late = not dead and late_open(run.action, timing, as_of_us)
    # A doubt from before this round (an approval or an engine that no longer counts) wins only if it is more severe.
    finding = _finding(run, timing, result, as_of_us)
    if run.doubt is not None and run.doubt.severity > finding.severity:
        finding = run.doubt
    # A timeout with the stamp in a reading: something was executed, so the row for a visible effect applies.
    if finding is not result.finding:
        seen = result.effect_shown or (finding is Finding.VERIFICATION_TIMEOUT and _stamp_seen(run))
        result = replace(result, finding=finding, effect_shown=seen)
        if finding is run.doubt and run.doubt_said:
            result = replace(result, detail=run.doubt_said)
    # Cancelled after a verified effect: the outcome names the required compensation as its discrepancy.
    if finding is _COMPENSATION_REQUIRED:
        result = replace(result, discrepancy=Discrepancy.COMPENSATION_REQUIRED)
    # Only a verified first effect makes the duplicates equivalent to one execution.
    if alone is not None and alone.verdict is not _VERIFIED:
        alone = None
    prior_fault_counts = _prior_fault_counts(run, result)
    repeated = _repeated(run, result, prior_fault_counts)
    situation = _situation(run, timing, result, as_of_us, dead, late, equivalent=alone is not None, repeated=repeated)
    # The row accepts the duplicates as a replay: report the judgement of the first effect.
    row = table.decide(finding, situation)
    if row.action is _RECORD_IDEMPOTENT_REPLAY and alone is not None:
        result = replace(alone, finding=finding, detail=f"{result.detail} It left what one alone would have left.")
    trigger = review_trigger(finding, situation)
    return Decision(
        result, row, trigger, dead, late, as_of_us, release(run, result, dead=dead and not late), prior_fault_counts
    )


def dropped(run: Run, decision: Decision) -> Decision:
    """The decision for an abandoned transaction: the attempt never left."""
    never = KeyRelease.NONE if run.action.left_before else KeyRelease.NEVER_LEFT
    return replace(decision, dead=True, release=never)


def duplicates_are_equivalent(run: Run, result: Reconciliation) -> bool:
    """There are several effects, the contract declares duplicates equivalent, and each effect is as required."""
    if result.finding is not _DUPLICATE_SIDE_EFFECT or run.contract.noop is not Noop.EQUIVALENT:
        return False
    return all(each.in_scope is Truth.HOLDS and _as_required(each) for each in run.found or ())


def _as_if_alone(run: Run, timing: Timing, as_of_us: int, dead: bool) -> Reconciliation:
    """The judgement of the first effect alone, as after a single execution."""
    found = run.found or ()
    run.found = found[:1]
    alone = judge(run, timing, as_of_us, dead=dead)
    run.found = found
    return alone


def _as_required(judged: EvaluatedReading) -> bool:
    return bool(judged.ensure) and conjoin(e.truth for e in judged.ensure) is Truth.HOLDS


def _finding(run: Run, timing: Timing, result: Reconciliation, as_of_us: int) -> Finding:
    contract, finding = run.contract, result.finding
    # The caller cancelled, and this action's effect is there: reverse it. Another actor's effect stays.
    cancelled = run.action.cancelled and contract.has_compensation
    if result.verdict is _VERIFIED and cancelled and result.effect_shown and not _anothers(result):
        return _COMPENSATION_REQUIRED
    # Refuted, although the tool reported success: the authority contradicts the tool.
    if result.verdict is _REFUTED:
        return Finding.AUTHORITY_MISMATCH if _claimed_otherwise(run, result) else finding
    # Verified, not checked, unverifiable by its contract, or still before the deadline: the finding stays.
    if result.verdict is not _UNDETERMINED or finding is Finding.UNVERIFIABLE or as_of_us < timing.deadline_us:
        return finding
    # Past the deadline with a faulty verifier or a foreign record: the fault is the finding, not the lapse of time.
    if result.why in (_VERIFIER_ERROR, Why.OUT_OF_SCOPE) and finding is Finding.VERIFIER_ERROR:
        return finding
    # The target passes through a declared intermediate state: the request was accepted and is in progress.
    if finding is Finding.VALUE_MISMATCH:
        return finding
    # Readings exist, but contradict each other or name no actor: unknown, rather than a timeout.
    if finding is Finding.HIDDEN_SIDE_EFFECT or result.why in (Why.CONFLICTING, Why.UNATTRIBUTED):
        return Finding.UNKNOWN if finding is not Finding.HIDDEN_SIDE_EFFECT else finding
    # The tool never answered and an effect may still land: pending. Otherwise the verification timed out.
    if _still_out(run) and late_open(run.action, timing, as_of_us) and not _stamp_seen(run):
        return Finding.PENDING_TIMEOUT
    return Finding.VERIFICATION_TIMEOUT


def _anothers(result: Reconciliation) -> bool:
    """The state is as intended, and another actor caused it, so this action must not reverse it."""
    return result.attribution is Attribution.OTHER_ACTOR


def _claimed_otherwise(run: Run, result: Reconciliation) -> bool:
    """The tool reported success, but a reading shows no change, or this action's effect with wrong values."""
    if run.observation is None or run.observation.status is not ObservationStatus.SUCCESS:
        return False
    wrong = result.finding is Finding.VALUE_MISMATCH and result.effect_shown
    return wrong or result.finding is Finding.NO_OP_FAILURE


def _still_out(run: Run) -> bool:
    """The execution got no answer, and no durable record settles the attempt: the record is pending, the key is unknown
    there, or no record exists. An unreachable record is no evidence either way.
    """
    lost = (ObservationStatus.TIMEOUT, ObservationStatus.NONE, ObservationStatus.CANCELLED)
    if run.observation is None or run.observation.status not in lost:
        return False
    if run.lookup is None:
        return not run.contract.has_lookup
    return run.lookup.status in ("pending", UNKNOWN_KEY)


def _stamp_seen(run: Run) -> bool:
    """Whether a reading in scope bears this action's stamp: the effect exists, regardless of other open questions.

    False with an open local boundary, to be settled before any timeout. False also if any reading, however weak, shows
    another actor's mark: a reversal could hit the other actor's effect.
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
    """The action follows its saga's pivot, or is the pivot itself with a visible effect."""
    region = run.action.context.get("region")
    return region == "after" or (region == "pivot" and result.effect_shown)


def _key_unknown(run: Run, result: Reconciliation) -> bool:
    timed_out = result.finding is Finding.PENDING_TIMEOUT
    return timed_out and run.lookup is not None and run.lookup.status == UNKNOWN_KEY


def _may_attempt(run: Run) -> bool:
    able = run.action.attempts < ATTEMPTS_MAX and not run.blind and not run.outside and not run.action.cancelled
    return able and resend.knows_key(run)


def _repeated(run: Run, result: Reconciliation, prior_fault_counts: tuple[int, int]) -> bool:
    """Whether this fault's counter reaches its limit, this time included. A reader with another object's record is
    unusable from the first time.
    """
    limit = run.contract.depth.repeated_mismatch_limit
    if result.verdict is _REFUTED:
        return prior_fault_counts[0] + 1 >= limit
    if result.verdict is _UNDETERMINED:
        return result.why is Why.OUT_OF_SCOPE or (result.why in BROKEN and prior_fault_counts[1] >= limit)
    return False


def _prior_fault_counts(run: Run, result: Reconciliation) -> tuple[int, int]:
    """The two relevant counters; see `Decision.struck`."""
    if run.prior_fault_counts is not None:
        return run.prior_fault_counts
    counts, faults = run.counts, 0
    if result.verdict is _UNDETERMINED and result.why in BROKEN:
        sources = {f"source:{j.taken.source}" for j in run.checks}
        due = ((s, 0 if _counted(run, s) else 1) for s in sources)
        faults = max((counts.get((s, VERIFIER_FAULT), 0) + more for s, more in due), default=0)
    return (counts.get((f"contract:{run.contract.name}", MISMATCH), 0) if counts else 0), faults


def _counted(run: Run, source: str, *, deciding: bool = True) -> bool:
    """Whether the fault continues from this action's last reading. Faults are counted by action, not by reading."""
    before = deciding and run.action.polls > 0 and run.action.judgement.why in BROKEN
    return source in run.faulted_sources or before


def decided(action: Action, result: Reconciliation) -> bool:
    """A person's decision stands: a reading changes no state, unless it verifies the attested effect."""
    return bool(action.resolution) and not (action.attested is _ATTESTED_DONE and result.verdict is _VERIFIED)


def contradicts(action: Action, decision: Decision) -> bool:
    """Whether a reading contradicts the record or a person's attestation. A pending effect may still land, so a reading
    refutes an attested effect only once no effect can follow.
    """
    result = decision.result
    if action.attested is _ATTESTED_DONE:
        return result.verdict is _REFUTED and decision.dead
    return result.effect_shown and not action.judgement.effect_shown


def stronger_left(run: Run) -> bool:
    """Whether a reading by a stronger path is still available."""
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
    shadow: dict[str, Json] | None = None,
) -> None:
    """Record the judgement with its row as a ledger entry, and the postconditions with their values as evidence.

    Freezes and incidents are added if the state changed, or if the judgement is `news` for an unchanged state.
    `review`: the caller's more precise reason for a review. `shadow`: the judgement of a shadow action, beside an
    undetermined one; such an entry freezes nothing and opens no incident.
    """
    result, row = decision.result, decision.row
    a = run.action
    news = (news or bool(path)) and shadow is None
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
    if shadow is not None:
        data["shadow"] = shadow
    watch = run.contract.watch
    if watch is not None and due_us is not None and path and path[-1] is _RECONCILED_SUCCESS:
        data["watch"] = watch_start_data(watch, now_us)
    judgement = run.secrecy.hide(judgement_json(result, run.contract.redact), "judgement")
    run.judged = result.ensure
    if run.contract.redact:
        run.shown = judgement["ensure"] if isinstance(judgement, dict) else None
    ref = run.keep("judgement", judgement)
    run.record(_JUDGED, now_us, path, data, {"judgement": ref})


def _stood_on(run: Run, decision: Decision) -> dict[str, Json]:
    """Further grounds of the decision, absent from other entries, so that the record alone can repeat it. Usual values
    are omitted.
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
    prior_fault_counts = decision.prior_fault_counts
    if prior_fault_counts != NOT_STRUCK:
        said["struck"] = [*prior_fault_counts]
    return said


def _review(run: Run, decision: Decision, path: tuple[State, ...]) -> str:
    """Why a person must review the action; empty if no review is due. A waiting or decided review stays."""
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
    """The freezes and the incident of the judgement."""
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
    """Each postcondition with its values, and each identity key, for `show`, without redacted values."""
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
    """Count consecutive faults: mismatches by contract, verifier errors and outages by source."""
    subject = f"contract:{run.contract.name}"
    if result.verdict is _REFUTED:
        run.count(subject, MISMATCH, 1)
    elif result.verdict is _VERIFIED:
        run.count(subject, MISMATCH, None)
    count_sources(run, result)


def count_sources(run: Run, result: Reconciliation) -> None:
    """Count faults by source alone: the result of a later reading is no fault of the tool."""
    for judged in (*run.missed, *run.checks):
        source = f"source:{judged.taken.source}"
        deciding = judged in run.checks
        if judged.taken.ran and not (deciding and result.why is _VERIFIER_ERROR):
            run.faulted_sources.discard(source)
            run.count(source, VERIFIER_FAULT, None)
        elif not _counted(run, source, deciding=deciding):
            run.faulted_sources.add(source)
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
