"""Several readers that have to agree; and every small case there is, held against what a verdict may never do."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.kind import Kind
from readback.domain.predicate import Truth
from readback.domain.side_effect import Consistency, Independence, SideEffect
from readback.domain.verdict import Attribution, Verdict, Why
from readback.domain.verification.attribution import effect_known, looked_elsewhere
from readback.domain.verification.reading import Fault, Presence
from readback.domain.verification.reconcile import reconcile
from readback.domain.verification.reconciliation import Case, EvaluatedReading, Reconciliation
from tests.unit.cases_given import (
    BEFORE,
    BEFORE_GONE,
    BEFORE_SO,
    DEAD,
    HOLDS,
    LANDED,
    STAMP,
    UNTOLD,
    VIOLATED,
    case,
    contract,
    gone,
    judged,
    observed,
    result,
)

TWO = contract(quorum=2)
THREE_OF = contract(quorum=2)
YES, NO = judged(HOLDS, version=2, stamp=STAMP), judged(VIOLATED, version=2, stamp=STAMP)
DOWN, WEAK = judged(HOLDS, fault=Fault.UNREACHABLE), judged(HOLDS, consistency=Consistency.REPLICA)


@pytest.mark.requirement("TRUTH-verdict-12", "L30")
@pytest.mark.parametrize(
    ("readings", "verdict"),
    [
        ((YES, YES), Verdict.VERIFIED),
        ((YES, YES, DOWN), Verdict.VERIFIED),
        ((YES, YES, WEAK), Verdict.VERIFIED),
        ((NO, NO), Verdict.REFUTED),
        ((NO, NO, DOWN), Verdict.REFUTED),
        ((YES,), Verdict.UNDETERMINED),
        ((NO,), Verdict.UNDETERMINED),
        ((YES, DOWN), Verdict.UNDETERMINED),
        ((DOWN, DOWN), Verdict.UNDETERMINED),
        ((YES, WEAK), Verdict.UNDETERMINED),
        ((YES, NO), Verdict.UNDETERMINED),
        ((YES, YES, NO), Verdict.UNDETERMINED),
        ((NO, NO, YES), Verdict.UNDETERMINED),
        ((YES, judged(UNTOLD, verifier_fault=True)), Verdict.UNDETERMINED),
    ],
)
def test_in_a_quorum_only_readers_that_really_ran_count(
    readings: tuple[EvaluatedReading, ...], verdict: Verdict
) -> None:
    assert result(*readings, of=TWO, before=BEFORE).verdict is verdict


@pytest.mark.requirement("TRUTH-verdict-12")
@pytest.mark.parametrize("readings", [(YES, NO), (NO, YES), (YES, YES, NO), (YES, NO, NO)])
def test_disagreement_is_undetermined_and_conflicting_once_the_window_has_closed(
    readings: tuple[EvaluatedReading, ...],
) -> None:
    seen = result(*readings, of=TWO, before=BEFORE)
    assert (seen.verdict, seen.why, seen.finding) == (Verdict.UNDETERMINED, Why.CONFLICTING, Finding.UNKNOWN)
    assert readings[seen.deciding] is NO
    early = result(*readings, of=TWO, before=BEFORE, window_closed=False)
    assert (early.verdict, early.why) == (Verdict.UNDETERMINED, Why.PROPAGATING)


def test_the_reading_that_decides_is_named() -> None:
    assert result(DOWN, YES, YES, of=TWO, before=BEFORE).deciding == 1
    assert result(DOWN, NO, NO, of=TWO, before=BEFORE).deciding == 1
    assert result(YES, DOWN, of=TWO, before=BEFORE).deciding == 1
    assert result(YES, before=BEFORE).deciding == 0


# --- every small case ---------------------------------------------------------------------------------------------

SCOPES = (
    (HOLDS, True, 2),
    (HOLDS, False, 1),
    (HOLDS, False, 2),
    (VIOLATED, True, 2),
    (VIOLATED, False, 2),
    (UNTOLD, False, 2),
)
"""Is it in scope, does it bear our stamp, and its version (before, it was 1)."""
READINGS = tuple(
    judged(
        truth,
        presence=presence,
        scope=scope,
        consistency=level,
        independence=path,
        fault=fault,
        failing=failing,
        **({"stamp": STAMP} if ours else {}),
        version=version,
    )
    for truth, presence, (scope, ours, version), (level, path), (fault, failing) in product(
        Truth,
        (Presence.PRESENT, Presence.ABSENT, Presence.NOT_VISIBLE),
        SCOPES,
        (
            (Consistency.STRONG, Independence.OTHER_CLIENT),
            (Consistency.SESSION, Independence.OTHER_CLIENT),
            (Consistency.REPLICA, Independence.OTHER_CLIENT),
            (Consistency.STRONG, Independence.SAME_CALL),
        ),
        ((Fault.NONE, False), (Fault.NONE, True), (Fault.UNREACHABLE, False)),
    )
)  # fmt: skip
EFFECT = judged(HOLDS, stamp=STAMP)
STRAY = judged(HOLDS, stamp=STAMP, scope=VIOLATED)
FOUND: tuple[tuple[EvaluatedReading, ...] | None, ...] = (None, (), (EFFECT,), (EFFECT, EFFECT), (STRAY,))
KNOWN = tuple(product((None, BEFORE, BEFORE_SO, BEFORE_GONE), FOUND, (None, LANDED, DEAD)))
MOMENTS = ((True, True, False), (True, False, False), (False, False, False), (True, True, True))
"""Window closed, dead, something still to be seen."""
KINDS = (
    (Kind.SET, SideEffect.LOW_RISK_INTERNAL),
    (Kind.CREATE, SideEffect.HIGH_RISK_EXTERNAL),
    (Kind.DELETE, SideEffect.LOW_RISK_INTERNAL),
    (Kind.ADJUST, SideEffect.LOW_RISK_INTERNAL),
    (Kind.READ, SideEffect.READ_ONLY),
)


def _every_case(kind: Kind, side_effect: SideEffect) -> list[Case]:
    of, said = contract(kind, side_effect), observed()
    return [
        case(
            reading,
            of=of,
            observation=said,
            before=before,
            found=found,
            lookup=lookup,
            window_closed=closed,
            dead=dead,
            look_due=due,
        )
        for place, ((before, found, lookup), reading) in enumerate(product(KNOWN, READINGS))
        for closed, dead, due in (MOMENTS[place % len(MOMENTS)],)
    ]


def _wrong(given: Case, seen: Reconciliation) -> str:
    """What no judgement may do, said once more and apart from how it is done."""
    reading = given.checks[0]
    taken, depth = reading.taken, given.contract.depth
    effects = [e for e in given.found or () if e.presence is Presence.PRESENT]
    strays = [e for e in effects if e.in_scope is VIOLATED]
    by_search = bool(strays) or len(effects) > 1 or (taken.ran and _stamped_elsewhere(reading))
    if seen.verdict is Verdict.VERIFIED:
        checks = {
            "not read": taken.ran,
            "too near": taken.independence.rank >= depth.minimum_independence.rank,
            "too weak": taken.consistency.rank >= depth.minimum_consistency.rank,
            "out of scope": reading.presence is not Presence.PRESENT or reading.in_scope is HOLDS,
            "not all hold": all(e.truth is HOLDS for e in reading.ensure),
            "hidden": reading.presence in (Presence.PRESENT, Presence.ABSENT),
            "absent and weak": reading.presence is Presence.PRESENT or taken.strong,
            "strays or duplicates": not by_search,
            "not ours": not given.contract.kind.needs_ours or seen.attribution is Attribution.OURS,
            "unsettled": not given.look_due or seen.finding is Finding.NO_OP_ALLOWED or not given.contract.kind.mutates,
        }
        return next((name for name, held in checks.items() if not held), "")
    if seen.verdict is Verdict.REFUTED and not by_search:
        older = seen.finding is Finding.WRONG_TARGET and given.contract.kind is Kind.CREATE
        gone_before = seen.discrepancy is Discrepancy.TARGET_MISSING and given.contract.kind is Kind.DELETE
        if not (given.window_closed or reading.terminal_failure or older or gone_before):
            return "refuted too early"
        believed = taken.strong or not given.contract.kind.mutates or _later(given, reading)
        if not (taken.ran and believed):
            return "refuted by a weak reading"
    if seen.finding is Finding.REFUTED_DEAD:
        elsewhere = looked_elsewhere(given.observation, given.found, given.lookup)
        if not (given.dead and elsewhere) or effect_known(given) or seen.effect_shown:
            return "called dead, and is not"
    if seen.effect_shown and seen.attribution is Attribution.ALREADY_SO:
        return "shows an effect that was there before"
    return ""


def reading_of(given: Case) -> str:
    """What matters of a case, on one line."""
    taken = given.checks[0].taken
    return f"{taken}, before {given.before}, found {given.found}, lookup {given.lookup}, dead {given.dead}"


def _stamped_elsewhere(reading: EvaluatedReading) -> bool:
    stamped = reading.taken.reading.stamp == STAMP
    return stamped and reading.presence is Presence.PRESENT and reading.in_scope is VIOLATED


def _later(given: Case, reading: EvaluatedReading) -> bool:
    newer = given.before is not None and given.before.version == 1 and reading.version == 2
    return reading.taken.reading.stamp == STAMP or newer


@pytest.mark.requirement("TRUTH-verdict-3", "TRUTH-verdict-4", "DT-inconclusive")
@pytest.mark.parametrize(("kind", "side_effect"), KINDS, ids=lambda value: value.value)
@pytest.mark.slow
def test_no_case_is_judged_against_the_rules(kind: Kind, side_effect: SideEffect) -> None:
    counted: Counter[Verdict] = Counter()
    for given in _every_case(kind, side_effect):
        seen = reconcile(given)
        counted[seen.verdict] += 1
        wrong = _wrong(given, seen)
        assert not wrong, f"{wrong}: {reading_of(given)} gave {seen}"
        if seen.verdict is Verdict.UNDETERMINED:
            assert seen.why is not Why.NONE
    assert min(counted[verdict] for verdict in (Verdict.VERIFIED, Verdict.REFUTED, Verdict.UNDETERMINED)) > 20


@pytest.mark.slow
def test_more_knowledge_never_makes_a_success_of_a_case_that_somebody_contradicts() -> None:
    for given in _every_case(Kind.CREATE, SideEffect.LOW_RISK_INTERNAL)[::7]:
        worse = replace(given, found=(EFFECT, STRAY))
        assert reconcile(worse).finding is Finding.WRONG_TARGET


def test_a_case_of_nothing_at_all_is_undetermined() -> None:
    assert result(gone(UNTOLD, fault=Fault.TIMEOUT), window_closed=True, dead=True).verdict is Verdict.UNDETERMINED


def test_a_quorum_of_one_takes_its_one_reading_and_counts_several() -> None:
    one = contract()
    for reading in (YES, NO, DOWN, WEAK):
        assert result(reading, of=one, before=BEFORE) == replace(result(reading, of=one, before=BEFORE), deciding=0)
    assert result(YES, DOWN, of=one, before=BEFORE).verdict is Verdict.VERIFIED
    assert result(YES, NO, of=one, before=BEFORE).why is Why.CONFLICTING
    assert result(NO, DOWN, of=one, before=BEFORE).verdict is Verdict.REFUTED


def test_a_weak_denial_stands_against_a_quorum_until_it_is_settled() -> None:
    denies = judged(VIOLATED, consistency=Consistency.SESSION, version=2, stamp=STAMP)
    for closed in (True, False):
        assert result(YES, YES, denies, of=TWO, before=BEFORE, window_closed=closed).verdict is Verdict.UNDETERMINED
    assert result(YES, YES, denies, of=TWO, before=BEFORE).why is Why.CONFLICTING
    assert result(NO, denies, of=TWO, before=BEFORE).why is Why.PROPAGATING  # nobody says that it holds
