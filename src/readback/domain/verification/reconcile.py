"""Reconciliation: evaluated readings in, a verdict with its discrepancy and finding out. Pure.

The caller has read and evaluated everything. This module never reads, waits or evaluates expressions. The steps have
numbers here and in the code:

 1. An effect of ours in the wrong place outranks everything else.
 2. More than one effect of ours is a duplicate, even when each is right.
 3. A reader that did not run, or read outside our scope, decides nothing.
 4. Absence is believed only from a strong, complete reading with proof of sight.
 5. Presence is believed only from a reading strong enough for the class, and after the action.
 6. Postconditions: all hold, or some are violated, or some are undetermined.
 7. A fulfilled state must be ours where the kind demands authorship, and a change where it was not fulfilled before.
 8. A violated state is final only after the window closes on a strong reading, or with a terminal failure.

Source: the action verification specification, "State Reconciliation Model".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Final, assert_never

from readback.canon import Json
from readback.domain.contract.contract import Noop
from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.kind import Kind
from readback.domain.predicate import Evaluation, Path, Truth, conjoin, look
from readback.domain.side_effect import Consistency, SideEffect
from readback.domain.verdict import Attribution, Level, Verdict, Why
from readback.domain.verification.attribution import (
    attribute,
    bears_stamp,
    effect_known,
    found_here,
    found_otherwise,
    has_changed,
    is_effect,
    is_on_its_way,
    is_unchanged,
    landed_unseen,
    looked_elsewhere,
    may_have_held,
)
from readback.domain.verification.change import differences, outside, withheld
from readback.domain.verification.observation_signs import ERROR_TEXT_CODE, ObservationStatus
from readback.domain.verification.open_class import BESIDE, UNDECLARED, seen_weakly, unverifiable_result, with_class
from readback.domain.verification.reading import Fault, Presence, TakenReading
from readback.domain.verification.reconciliation import (
    Case,
    EvaluatedReading,
    IdentityMatch,
    Reconciliation,
    no_op,
    refuted,
    success,
    undetermined,
)

# Readings by an undeclared reader: information without a decision. A match is not verified, a difference is not
# refuted, and an empty answer is not absence. Every result is undetermined, so no key is freed and no action is
# reported as done or failed.


def inform(case: Case, judged: EvaluatedReading) -> Reconciliation:
    """Return the undetermined result of a reading by an undeclared reader.

    A matching record ends the check, since no later look can verify the action. Otherwise looks continue until the
    window closes: the system of record may lag behind.
    """
    if judged.in_scope is Truth.VIOLATED:
        detail = "The reading is of another target or tenant, or does not say of which."
        return undetermined(Why.OUT_OF_SCOPE, Finding.VERIFIER_ERROR, detail=detail)
    shown = _shown(judged)
    if shown is not Truth.HOLDS and not case.window_closed:
        return undetermined(Why.PROPAGATING, Finding.AUTHORITY_MISMATCH, Discrepancy.PROPAGATION_DELAY)
    lift = f"Declare the reader with one word: @{case.contract.name}.read(strong=True)."
    detail = f"{UNDECLARED[_word(judged, shown)]} {lift}"
    return undetermined(Why.UNVERIFIABLE, Finding.UNVERIFIABLE, Discrepancy.UNVERIFIABLE_STATE, detail)


def _shown(judged: EvaluatedReading) -> Truth:
    if judged.presence is Presence.ABSENT or judged.in_scope is not Truth.HOLDS:
        return Truth.UNDETERMINED
    return conjoin(map(_TRUTH, judged.ensure))


def _word(judged: EvaluatedReading, shown: Truth) -> str:
    if judged.presence is Presence.ABSENT:
        return "absent"
    return {Truth.HOLDS: "matches", Truth.VIOLATED: "differs", Truth.UNDETERMINED: "open"}[shown]


# Several readers: the combined judgement. Pure.

_VERIFIED: Final = Verdict.VERIFIED


def combine(case: Case, judgements: list[Reconciliation]) -> Reconciliation:
    """The verdict of as many readings as the contract asks for, without a contrary reading."""
    needed = case.contract.quorum
    if len(judgements) == 1 and needed <= 1:
        return judgements[0]
    verified = [r for r in judgements if r.verdict is _VERIFIED]
    against = [r for r in judgements if r.verdict is Verdict.REFUTED]
    violated = [r for r in judgements if r.open and any(e.truth is Truth.VIOLATED for e in r.ensure)]
    if _agreeing(case, verified) >= needed and not against and not violated:
        return verified[0]
    if _agreeing(case, against) >= needed and not verified:
        return against[0]
    if verified and against and not violated and (parts := _in_parts(case, verified, against)) is not None:
        return parts
    if verified and (against or violated) and case.window_closed:
        conflict = undetermined(Why.CONFLICTING, Finding.UNKNOWN, Discrepancy.UNKNOWN_STATE)
        return replace(conflict, ensure=(against or violated)[0].ensure, deciding=(against or violated)[0].deciding)
    undecided = [r for r in judgements if r.open]
    if undecided:
        return _told_apart(case, undecided)
    return undetermined(Why.INCOMPLETE, Finding.UNKNOWN, Discrepancy.UNKNOWN_STATE)


def _told_apart(case: Case, undecided: list[Reconciliation]) -> Reconciliation:
    """The first open judgement. Where readers differ, the detail names each reader's answer."""
    first = undecided[0]
    said = {case.checks[each.deciding].taken.reader: each.detail or str(each.why) for each in undecided}
    if len(set(said.values())) < 2:
        return first
    return replace(first, detail="; ".join(f"{reader}: {what}" for reader, what in said.items()))


def _in_parts(case: Case, verified: list[Reconciliation], against: list[Reconciliation]) -> Reconciliation | None:
    """A partial result, reported by the tool and confirmed by readings of several places.

    Some places show our effect, others show none. Without the tool's report, differing places contradict each other.
    """
    said = case.observation.status is ObservationStatus.PARTIAL
    ours = all(each.attribution is Attribution.OURS for each in verified)
    here = {case.checks[each.deciding].taken.source for each in verified}
    missing = {
        case.checks[each.deciding].taken.source
        for each in against
        if case.checks[each.deciding].taken.believable_absence
    }
    if not (said and ours) or len(missing) < len(against) or here & missing:
        return None
    partial = refuted(Finding.PARTIAL_SUCCESS, Discrepancy.PARTIAL_APPLICATION, Attribution.OURS, True)
    found, first = verified[0], min(against, key=lambda each: each.deciding)
    done, undone = tuple(sorted(here)), tuple(sorted(missing))
    return replace(
        partial,
        parts_done=done,
        parts_open=undone,
        ensure=first.ensure,
        identity=found.identity,
        deciding=first.deciding,
    )


def _agreeing(case: Case, judgements: list[Reconciliation]) -> int:
    """Number of agreeing readings. Where the class asks for several sources, two readings of one source count once."""
    if case.contract.depth.quorum_min <= 1:
        return len(judgements)
    return len({case.checks[each.deciding].taken.source for each in judgements})


# Unfulfilled effect groups of an action: missing, or with another value. Pure.

_ROOT: Final = "authoritative"
_NOTHING: Final = (None, "", False)
"""Values of an absent field."""


def parts_of(case: Case, judged: EvaluatedReading) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fulfilled groups and the others; none where the object is absent."""
    groups = case.contract.groups
    if judged.presence is not Presence.PRESENT:
        return (), ()
    held = {g: conjoin(e.truth for e in judged.ensure if e.group == g) is Truth.HOLDS for g in groups}
    return tuple(g for g in groups if held[g]), tuple(g for g in groups if not held[g])


def wrong_values(case: Case, judged: EvaluatedReading, groups: tuple[str, ...]) -> bool:
    """Whether one of these groups holds a newly written value other than the required value."""
    violated = [each for each in judged.ensure if each.group in groups and each.truth is Truth.VIOLATED]
    return any(_is_written(case, judged, each) for each in violated)


def _is_written(case: Case, judged: EvaluatedReading, evaluation: Evaluation) -> bool:
    before = case.before
    known = before is not None and before.taken.ran
    old = before.taken.reading.value if before is not None and before.presence is Presence.PRESENT else None
    for path, value in _read(judged, evaluation):
        if value in _NOTHING or isinstance(value, dict | list):
            continue
        if known and look(path, {_ROOT: old}) != value:
            return True
    return False


def _read(judged: EvaluatedReading, evaluation: Evaluation) -> Iterator[tuple[Path, Json]]:
    variables = {_ROOT: judged.taken.reading.value}
    for text, _ in evaluation.values:
        if text.startswith(f"{_ROOT}."):
            path = Path.named(text)
            yield path, look(path, variables)


# The frame: the permitted changes of an action, and changes outside. Pure.

NAMED_MAX: Final = 10
_NOT_WHOLE: Final = "Whether anything beside it changed cannot be told: a reading did not show all of it."


def unexpected_changes(case: Case, judged: EvaluatedReading, whose: Attribution) -> Reconciliation | None:
    """The evidence against success outside the frame: a forbidden change, or a change hidden by missing evidence."""
    frame, before = case.contract.may_change, case.before
    if frame is None or before is None or before.taken.believable_absence:
        return None
    if before.presence is not Presence.PRESENT:
        if case.contract.kind in (Kind.CREATE, Kind.SEND):
            return None  # proven ours, and therefore new
        detail = "Whether anything beside it changed cannot be told: what was before could not be seen."
        return undetermined(Why.INCOMPLETE, Finding.VERIFIER_ERROR, detail=detail)
    if not (before.taken.reading.complete and judged.taken.reading.complete):
        return undetermined(Why.INCOMPLETE, Finding.VERIFIER_ERROR, detail=_NOT_WHOLE)
    old = before.taken.reading.value
    beside = outside(frame, differences(old, judged.taken.reading.value))
    if beside:
        named = ", ".join(beside[:NAMED_MAX]) + (
            "" if len(beside) <= NAMED_MAX else f" and {len(beside) - NAMED_MAX} more"
        )
        detail = f"{BESIDE}{named}."
        if whose is Attribution.OURS:
            found = refuted(Finding.HIDDEN_SIDE_EFFECT, Discrepancy.VALUE_MISMATCH, whose, effect_shown=True)
            return replace(found, detail=detail)
        # Other actors write here too, so an unsigned change outside the frame is not proven ours.
        return undetermined(Why.UNATTRIBUTED, Finding.HIDDEN_SIDE_EFFECT, Discrepancy.UNKNOWN_STATE, detail)
    unseen = outside(frame, withheld(old))
    if unseen:
        detail = f"Whether {', '.join(unseen)} changed cannot be told: the record of what was before is redacted there."
        return undetermined(Why.INCOMPLETE, Finding.VERIFIER_ERROR, detail=detail)
    return None


_NO_REASON: Final = Why.NONE
_NOT_VISIBLE: Final = Presence.NOT_VISIBLE
_ABSENT: Final = Presence.ABSENT
_HOLDS: Final = Truth.HOLDS
_VIOLATED: Final = Truth.VIOLATED
_TRUTH: Final = attrgetter("truth")
_READ_KIND: Final = Kind.READ
_CREATE: Final = Kind.CREATE
_ALREADY_SO: Final = Attribution.ALREADY_SO
_FOUND_OTHERWISE: Final = "What bears our stamp is not as required; what is read here does not say that it is ours."
_MIDWAY: Final = "The work was accepted and is in an intermediate state; nothing says that it is over."
_LANDED_UNSEEN: Final = "By the key's record ours has landed; what is read here bears another's mark."


def reconcile(case: Case) -> Reconciliation:
    """Judge a case. Total: in doubt the result is undetermined."""
    misplaced = _misplaced(case)
    if misplaced is not None:
        return misplaced
    duplicate = _duplicate(case)
    if duplicate is not None:
        return duplicate
    if not case.checks or case.contract.unverifiable:
        return unverifiable_result(case)
    judgements = [_judge_one(case, case.checks[0])]
    for place in range(1, len(case.checks)):
        judgements.append(replace(_judge_one(case, case.checks[place]), deciding=place))
    return with_class(case, combine(case, judgements))


# --- 1 and 2: the search by stamp ---


def _misplaced(case: Case) -> Reconciliation | None:
    judged = _elsewhere(case)
    if judged is None:
        return None
    return Reconciliation(
        Verdict.REFUTED,
        _NO_REASON,
        Finding.WRONG_TARGET,
        Discrepancy.WRONG_TARGET_MODIFIED,
        Attribution.OURS,
        effect_shown=True,
        level=Level.VERIFIED,
        identity=judged.identity,
        ensure=judged.ensure,
        detail="An effect bearing our stamp was found outside the target that was meant.",
    )


def _elsewhere(case: Case) -> EvaluatedReading | None:
    """The first effect of ours outside its intended place."""
    for judged in case.found or ():
        if judged.in_scope is _VIOLATED and is_effect(judged):
            return judged
    for judged in case.checks:
        if judged.in_scope is _VIOLATED and is_effect(judged) and bears_stamp(case, judged):
            return judged
    return None


def _duplicate(case: Case) -> Reconciliation | None:
    if case.found is None:
        return None
    effects = [j for j in case.found if is_effect(j)]
    if len(effects) < 2:
        return None
    return Reconciliation(
        Verdict.REFUTED,
        _NO_REASON,
        Finding.DUPLICATE_SIDE_EFFECT,
        Discrepancy.DUPLICATE_SIDE_EFFECT,
        Attribution.OURS,
        effect_shown=True,
        level=Level.VERIFIED,
        ensure=effects[0].ensure,
        identity=effects[0].identity,
        detail=f"{len(effects)} effects bear the stamp of this one operation.",
    )


# --- 3 to 8: one reading ---


def _judge_one(case: Case, judged: EvaluatedReading) -> Reconciliation:
    taken = judged.taken
    if not taken.ran:  # 3
        return _not_run(taken)
    presence = taken.reading.presence
    if presence is _NOT_VISIBLE:
        return undetermined(Why.INCOMPLETE, Finding.AUTHORITY_MISMATCH, detail=taken.reading.detail)
    if taken.independence.rank < case.contract.depth.minimum_independence.rank:  # 5
        if not _is_declared(case, taken):
            return replace(inform(case, judged), ensure=judged.ensure, identity=judged.identity)
        return undetermined(Why.UNVERIFIABLE, Finding.UNVERIFIABLE, Discrepancy.UNVERIFIABLE_STATE)
    if presence is _ABSENT:  # 4
        return _judge_absence(case, judged)
    scope = judged.in_scope  # 3
    if scope is not _HOLDS:
        if scope is not _VIOLATED and (other := judged.other_spelling) is not None:
            return replace(_other_spelling(other), identity=judged.identity)
        why = Why.OUT_OF_SCOPE if scope is _VIOLATED else Why.INCOMPLETE
        detail = "The reading is of another target or tenant, or does not say of which."
        return replace(undetermined(why, Finding.VERIFIER_ERROR, detail=detail), identity=judged.identity)
    weak = _too_weak(case, judged)  # 5
    if weak is not None:
        return replace(weak, ensure=judged.ensure, identity=judged.identity)
    older = _on_older(case, judged)
    if older is not None:
        return replace(older, ensure=judged.ensure, identity=judged.identity)
    failed = _terminally_failed(case, judged) or judged.refused
    truth = _VIOLATED if failed else conjoin(map(_TRUTH, judged.ensure))  # 6
    if truth is _HOLDS:
        result = _judge_holding(case, judged)
    elif truth is _VIOLATED:
        result = _judge_violated(case, judged)
    else:
        result = _judge_untold(judged)
    return _evidenced(result, judged)


def _is_declared(case: Case, taken: TakenReading) -> bool:
    return all(terms.declared for terms in case.contract.readers if terms.name == taken.reader)


def _other_spelling(other: IdentityMatch) -> Reconciliation:
    """A difference of spelling proves nothing, neither against the tool nor against the reader."""
    detail = (
        f"The reading spells its {other.key} in another way than the request, and whether both name one thing is not "
        f"known: say by which rule the system compares them (`identity.{other.key}`, with `as`)."
    )
    return undetermined(Why.INCOMPLETE, Finding.UNKNOWN, Discrepancy.UNKNOWN_STATE, detail)


def _evidenced(r: Reconciliation, judged: EvaluatedReading) -> Reconciliation:
    """Add the judged evidence. Written out, since `replace` is slow and every judgement passes here."""
    return Reconciliation(
        r.verdict,
        r.why,
        r.finding,
        r.discrepancy,
        r.attribution,
        r.effect_shown,
        r.level,
        judged.ensure,
        judged.identity,
        r.maybe_stale,
        r.parts_done,
        r.parts_open,
        r.deciding,
        r.detail,
    )


def _not_run(taken: TakenReading) -> Reconciliation:
    match taken.fault:
        case Fault.TIMEOUT:
            why, finding = Why.TIMEOUT, Finding.PROVIDER_OUTAGE
        case Fault.VERIFIER_ERROR | Fault.IMPOSSIBLE:
            why, finding = Why.VERIFIER_ERROR, Finding.VERIFIER_ERROR
        case Fault.UNREACHABLE | Fault.NONE:
            why, finding = Why.UNREACHABLE, Finding.PROVIDER_OUTAGE
        case _:
            assert_never(taken.fault)
    return undetermined(why, finding, detail=taken.error or taken.reading.detail)


def _judge_absence(case: Case, judged: EvaluatedReading) -> Reconciliation:
    if not judged.taken.believable_absence:
        why = Why.STALE if judged.taken.reading.complete else Why.INCOMPLETE
        return replace(undetermined(why, Finding.AUTHORITY_MISMATCH), maybe_stale=not judged.taken.strong)
    if judged.refused:
        return replace(_judge_violated(case, judged), ensure=judged.ensure, level=Level.VERIFIED)
    # A believed absence leaves only presence to judge: field predicates have no value.
    truths = {e.truth for e in judged.ensure}
    meant = case.contract.kind in (Kind.SET, Kind.DELETE, _READ_KIND) and _HOLDS in truths
    if meant and Truth.VIOLATED not in truths:
        if Truth.UNDETERMINED in truths:
            return replace(_judge_untold(judged), ensure=judged.ensure)
        if case.contract.kind is _READ_KIND:
            lost = unexpected_changes(case, judged, Attribution.UNKNOWN)
            return replace(lost or success(Attribution.UNKNOWN), ensure=judged.ensure)
        return replace(_judge_gone(case, judged), ensure=judged.ensure)
    result = _judge_violated(case, judged)
    return replace(result, ensure=judged.ensure, level=Level.VERIFIED)


def _judge_gone(case: Case, judged: EvaluatedReading) -> Reconciliation:
    """Judge the believed absence of an object required to be absent."""
    before = case.before
    if before is not None and before.taken.believable_absence:
        if case.contract.noop is Noop.ALLOW and not _told_as_error(case):
            return _stays(case, no_op())
        return refuted(Finding.TARGET_MISSING, Discrepancy.TARGET_MISSING, _ALREADY_SO)
    if case.lookup is not None and case.lookup.status == "landed":
        return _settle(case, judged, Attribution.OURS)
    return _settle(case, judged, Attribution.UNKNOWN)


def _too_weak(case: Case, judged: EvaluatedReading) -> Reconciliation | None:
    taken, needed = judged.taken, case.contract.depth
    if taken.consistency.rank >= needed.minimum_consistency.rank:
        if taken.strong or not needed.needs_after_evidence or not case.contract.kind.mutates:
            return None
        if _after_action(case, judged):
            return None
    if _seen_twice(case, judged):
        return None
    weak = replace(undetermined(Why.STALE, Finding.AUTHORITY_MISMATCH), maybe_stale=True)
    return seen_weakly(case.stamp, weak, (judged,))


def _seen_twice(case: Case, judged: EvaluatedReading) -> bool:
    """A declared replica shows the stamp of an ephemeral write in two rounds, the last at the close of the window.

    The object was absent before. A cache never counts: its content may never have been committed.
    """
    contract, before = case.contract, case.before
    if contract.side_effect is not SideEffect.EPHEMERAL_WRITE or judged.taken.consistency is not Consistency.REPLICA:
        return False
    declared = {terms.name: terms.consistency for terms in contract.readers}.get(judged.taken.reader)
    absent = before is not None and before.taken.ran and before.presence is _ABSENT
    twice = case.seen and case.window_closed and bears_stamp(case, judged)
    return declared is Consistency.REPLICA and absent and twice


def _after_action(case: Case, judged: EvaluatedReading) -> bool:
    """The source itself proves that a weak reading is later than the action."""
    reading = judged.taken.reading
    if bears_stamp(case, judged) or reading.commit_token_honoured or reading.created_after_dispatch:
        return True
    old = case.before.version if case.before is not None else None
    new = judged.version
    return isinstance(old, int) and isinstance(new, int) and new > old


def _terminally_failed(case: Case, judged: EvaluatedReading) -> bool:
    """The source reports a final failure, and did not report one of the same state before the action."""
    if not judged.terminal_failure:
        return False
    old = case.before
    return old is None or not (old.taken.ran and old.terminal_failure and not has_changed(old, judged))


def _judge_untold(judged: EvaluatedReading) -> Reconciliation:
    broken = any(e.verifier_fault for e in judged.ensure)
    why = Why.VERIFIER_ERROR if broken else Why.INCOMPLETE
    return undetermined(why, Finding.VERIFIER_ERROR, detail="A postcondition could not be evaluated.")


# --- 7: fulfilled ---


def _judge_holding(case: Case, judged: EvaluatedReading) -> Reconciliation:
    kind = case.contract.kind
    whose = attribute(case, judged)
    if kind is _READ_KIND:
        # A tool published as a read may write, so the contract's frame applies.
        return unexpected_changes(case, judged, whose) or success(whose)
    if kind.needs_ours and found_otherwise(case, judged):
        return undetermined(Why.UNATTRIBUTED, Finding.AUTHORITY_MISMATCH, Discrepancy.UNKNOWN_STATE, _FOUND_OTHERWISE)
    if kind in (_CREATE, Kind.SEND) and landed_unseen(case, judged):
        return undetermined(Why.UNATTRIBUTED, Finding.AUTHORITY_MISMATCH, Discrepancy.UNKNOWN_STATE, _LANDED_UNSEEN)
    if kind.needs_ours and whose is not Attribution.OURS:
        return _not_ours(case, judged, whose)
    if whose is Attribution.UNKNOWN and case.contract.noop is Noop.REFUSE and may_have_held(case, judged):
        return undetermined(Why.UNATTRIBUTED, Finding.AUTHORITY_MISMATCH, Discrepancy.UNKNOWN_STATE)
    if whose is _ALREADY_SO:
        if case.contract.noop is Noop.ALLOW and not _told_as_error(case):
            return unexpected_changes(case, judged, whose) or _stays(case, no_op())
        return _violated_finally(case, judged, _ALREADY_SO)
    return unexpected_changes(case, judged, whose) or _settle(case, judged, whose)


def _told_as_error(case: Case) -> bool:
    """The tool answered with an error text, and nothing changed. The call did nothing, whether the state was right or
    not.
    """
    return case.observation.code == ERROR_TEXT_CODE


def _settle(case: Case, judged: EvaluatedReading, whose: Attribution) -> Reconciliation:
    """A fulfilled state is final once stable and proven single."""
    return _stays(case, success(whose), single=not case.look_due)


def _stays(case: Case, held: Reconciliation, *, single: bool = True) -> Reconciliation:
    """A fulfilled state must stay fulfilled for the contract's stability period."""
    if case.stable and single:
        return held
    return undetermined(Why.SETTLING, Finding.PROPAGATION_DELAY, Discrepancy.PROPAGATION_DELAY)


def _not_ours(case: Case, judged: EvaluatedReading, whose: Attribution) -> Reconciliation:
    """The required object exists without proof of our authorship: an older object, or one by an unknown author."""
    before = case.before
    known_older = whose is Attribution.OTHER_ACTOR or (before is not None and before.presence is Presence.PRESENT)
    if not known_older:
        return undetermined(Why.UNATTRIBUTED, Finding.AUTHORITY_MISMATCH, Discrepancy.UNKNOWN_STATE)
    return _violated_finally(case, judged, whose)


def _on_older(case: Case, judged: EvaluatedReading) -> Reconciliation | None:
    """A create changed an older object instead of making a new one."""
    before = case.before
    if case.contract.kind is not _CREATE or before is None or before.presence is not Presence.PRESENT:
        return None
    if judged.taken.reading.created_after_dispatch:
        return None  # the source states a new object; the earlier object is another
    whose = attribute(case, judged, violated=True)
    if not has_changed(before, judged) or whose is Attribution.OTHER_ACTOR:
        return None
    if whose is not Attribution.OURS and not case.window_closed:
        return None
    ours = whose is Attribution.OURS
    return refuted(Finding.WRONG_TARGET, Discrepancy.WRONG_TARGET_MODIFIED, whose, effect_shown=ours)


# --- 8: violated ---


def _judge_violated(case: Case, judged: EvaluatedReading) -> Reconciliation:
    if not judged.taken.strong and not _terminally_failed(case, judged):
        opened = undetermined(Why.PROPAGATING, Finding.AUTHORITY_MISMATCH, Discrepancy.PROPAGATION_DELAY)
        return replace(opened, maybe_stale=True)
    absent = judged.presence is _ABSENT
    return _violated_finally(case, judged, Attribution.UNKNOWN if absent else attribute(case, judged, violated=True))


def _violated_finally(case: Case, judged: EvaluatedReading, whose: Attribution) -> Reconciliation:
    early = _terminally_failed(case, judged) or _refused(case, judged) or _reported_failure(case, judged)
    if not case.window_closed and not early:
        return undetermined(Why.PROPAGATING, Finding.AUTHORITY_MISMATCH, Discrepancy.PROPAGATION_DELAY)
    done, undone = parts_of(case, judged)
    shown = whose is Attribution.OURS
    if is_on_its_way(case, judged, whose) and not early:
        part = bool(done and undone) and not wrong_values(case, judged, undone)
        named = Discrepancy.PARTIAL_APPLICATION if part else Discrepancy.VALUE_MISMATCH
        return replace(_on_its_way(shown, named), parts_done=done, parts_open=undone)
    if done and undone and wrong_values(case, judged, undone):
        wrong = refuted(Finding.VALUE_MISMATCH, Discrepancy.VALUE_MISMATCH, whose, shown)
        return replace(wrong, parts_done=done, parts_open=undone)
    if done and undone:
        partial = refuted(Finding.PARTIAL_SUCCESS, Discrepancy.PARTIAL_APPLICATION, whose, shown)
        return replace(partial, parts_done=done, parts_open=undone)
    finding, discrepancy = _refuted_as(case, judged, whose)
    searchable = case.contract.has_find
    looked = looked_elsewhere(
        case.observation,
        case.found,
        case.lookup,
        searchable=searchable,
        proven=case.search_proven,
        honours_key=case.contract.execution.honours_key,
    )
    gone = case.dead and not shown and not case.seen and looked
    if gone and discrepancy in (Discrepancy.NO_OP_FAILURE, Discrepancy.TARGET_MISSING):
        finding = Finding.REFUTED_DEAD
    elif finding is Finding.TARGET_MISSING and searchable and not looked:
        finding = Finding.NO_OP_FAILURE  # absent here, and the search gave no answer about other places
    return refuted(finding, discrepancy, whose, shown)


def _on_its_way(shown: bool, named: Discrepancy) -> Reconciliation:
    """Accepted, in a state between the old and the required one: neither fulfilled nor refuted."""
    whose = Attribution.OURS if shown else Attribution.UNKNOWN
    opened = undetermined(Why.PROPAGATING, Finding.VALUE_MISMATCH, named, _MIDWAY)
    return replace(opened, attribution=whose, effect_shown=shown, level=Level.VERIFIED)


def _refused(case: Case, judged: EvaluatedReading) -> bool:
    """The contract names the refusal, nothing changed, and nothing can follow. The window need not close."""
    return _ended_in_vain(case, judged) and judged.refused


def _reported_failure(case: Case, judged: EvaluatedReading) -> bool:
    """A local tool ended with an error, nothing changed, and nothing can follow. One strong reading suffices.

    Late looks continue. A late effect contests the reported outcome.
    """
    local = case.contract.side_effect.rank <= SideEffect.EPHEMERAL_WRITE.rank
    return local and case.observation.status is ObservationStatus.ERROR and _ended_in_vain(case, judged)


def _ended_in_vain(case: Case, judged: EvaluatedReading) -> bool:
    return case.dead and is_unchanged(case.before, judged)


def _refuted_as(case: Case, judged: EvaluatedReading, whose: Attribution) -> tuple[Finding, Discrepancy]:
    before = case.before
    if judged.presence is _ABSENT:
        set_by_key = case.contract.kind is Kind.SET and effect_known(case)
        if case.seen or set_by_key or found_here(case):  # the effect existed, and another actor removed it
            return Finding.STALE_STATE, Discrepancy.STALE_STATE
        if case.contract.kind is Kind.SET:
            return Finding.TARGET_MISSING, Discrepancy.TARGET_MISSING
        return Finding.NO_OP_FAILURE, Discrepancy.NO_OP_FAILURE
    if before is not None and before.taken.ran and not has_changed(before, judged) and whose is not Attribution.OURS:
        return Finding.NO_OP_FAILURE, Discrepancy.NO_OP_FAILURE
    if whose is Attribution.OTHER_ACTOR and not _never_was_ours(case, judged):
        return Finding.STALE_STATE, Discrepancy.STALE_STATE
    if whose is Attribution.OTHER_ACTOR or (case.contract.kind is Kind.DELETE and before is None):
        return Finding.NO_OP_FAILURE, Discrepancy.NO_OP_FAILURE
    return Finding.VALUE_MISMATCH, Discrepancy.VALUE_MISMATCH


def _never_was_ours(case: Case, judged: EvaluatedReading) -> bool:
    """Another's object, and never ours before.

    Three cases count: an object with several writers, an object as required without us, and an object excluded by a
    search. A changed sum with another last writer may include our part; a search or the key's record may decide.
    """
    kind = case.contract.kind
    if not kind.needs_ours or case.seen or effect_known(case):
        return False
    if kind is Kind.ADJUST and case.before is not None and case.before.taken.ran:
        return case.found is not None or (case.lookup is not None and case.lookup.status == "failed")
    if kind in (Kind.APPEND, Kind.ADJUST):
        return True
    return case.found is not None or conjoin(e.truth for e in judged.ensure) is _HOLDS
