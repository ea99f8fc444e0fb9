"""The verdict rules, one reading at a time: what is believed, what is refuted, and what stays open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.kind import Kind
from readback.domain.side_effect import Consistency, Independence, SideEffect
from readback.domain.verdict import Attribution, Level, Verdict, Why
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reading import Fault, Presence
from tests.unit.cases_given import (
    BEFORE,
    BEFORE_SO,
    DEAD,
    HOLDS,
    LANDED,
    OLD,
    PENDING,
    STAMP,
    UNTOLD,
    VIOLATED,
    contract,
    gone,
    grouped,
    judged,
    mark,
    observed,
    result,
)

OPEN = Verdict.UNDETERMINED


@pytest.mark.requirement("MODEL-all-predicates", "TRUST-3")
def test_success_means_that_every_postcondition_holds() -> None:
    seen = result(judged(HOLDS, HOLDS), before=BEFORE)
    assert (seen.verdict, seen.finding, seen.discrepancy) == (Verdict.VERIFIED, Finding.VERIFIED, None)
    assert seen.level is Level.RECONCILED
    assert seen.effect_shown
    for truths in ((HOLDS, VIOLATED), (HOLDS, UNTOLD), (UNTOLD, VIOLATED), (VIOLATED,)):
        assert result(judged(*truths), before=BEFORE).verdict is not Verdict.VERIFIED


@pytest.mark.requirement("TRUTH-verdict-1", "L02")
@pytest.mark.parametrize("closed", [False, True])
def test_what_cannot_be_evaluated_is_neither_true_nor_violated(closed: bool) -> None:
    seen = result(judged(HOLDS, UNTOLD), window_closed=closed)
    assert (seen.verdict, seen.why) == (OPEN, Why.INCOMPLETE)
    broken = result(judged(UNTOLD, verifier_fault=True), window_closed=closed)
    assert (broken.verdict, broken.why, broken.finding) == (OPEN, Why.VERIFIER_ERROR, Finding.VERIFIER_ERROR)


@pytest.mark.parametrize(
    ("fault", "why", "finding"),
    [
        (Fault.TIMEOUT, Why.TIMEOUT, Finding.PROVIDER_OUTAGE),
        (Fault.UNREACHABLE, Why.UNREACHABLE, Finding.PROVIDER_OUTAGE),
        (Fault.VERIFIER_ERROR, Why.VERIFIER_ERROR, Finding.VERIFIER_ERROR),
    ],
)
def test_a_reader_that_did_not_run_decides_nothing(fault: Fault, why: Why, finding: Finding) -> None:
    seen = result(judged(HOLDS, fault=fault), dead=True)
    assert (seen.verdict, seen.why, seen.finding) == (OPEN, why, finding)
    silent = result(judged(HOLDS, presence=Presence.UNAVAILABLE), dead=True)
    assert (silent.verdict, silent.why) == (OPEN, Why.UNREACHABLE)


def test_without_a_reading_nothing_is_verified() -> None:
    seen = result(observation=observed(ObservationStatus.SUCCESS))
    assert (seen.verdict, seen.why, seen.finding) == (OPEN, Why.UNVERIFIABLE, Finding.UNVERIFIABLE)
    assert seen.discrepancy is Discrepancy.UNVERIFIABLE_STATE
    assert seen.level is Level.NORMALISED


@pytest.mark.requirement("TRUTH-verdict-2", "L26")
@pytest.mark.parametrize(
    ("reading", "why"),
    [
        (gone(consistency=Consistency.SESSION), Why.STALE),
        (gone(consistency=Consistency.CACHED), Why.STALE),
        (gone(complete=False), Why.INCOMPLETE),
        (judged(UNTOLD, presence=Presence.NOT_VISIBLE), Why.INCOMPLETE),
        (judged(UNTOLD, presence=Presence.UNAVAILABLE), Why.UNREACHABLE),
    ],
)
def test_absence_is_believed_from_a_strong_complete_reading_with_sight_only(reading: object, why: Why) -> None:
    for kind in Kind:
        seen = result(reading, of=contract(kind), dead=True, before=BEFORE)  # type: ignore[arg-type]
        assert (seen.verdict, seen.why) == (OPEN, why), kind


def test_a_weak_miss_may_be_stale_and_a_strong_one_may_not() -> None:
    assert result(gone(consistency=Consistency.SESSION)).maybe_stale
    assert not result(gone(complete=False)).maybe_stale


@pytest.mark.requirement("TRUTH-verdict-2")
def test_on_believed_absence_only_presence_is_judged() -> None:
    create = contract(Kind.CREATE)
    assert result(gone(UNTOLD, UNTOLD), of=create).discrepancy is Discrepancy.NO_OP_FAILURE
    assert result(gone(UNTOLD), of=create).verdict is Verdict.REFUTED
    assert result(gone(UNTOLD), of=create, window_closed=False).verdict is OPEN
    deleted = contract(Kind.DELETE)
    assert result(gone(HOLDS), of=deleted, before=BEFORE).verdict is Verdict.VERIFIED
    mixed = result(gone(HOLDS, UNTOLD), of=deleted, before=BEFORE)
    assert mixed.verdict is OPEN
    assert result(gone(HOLDS, VIOLATED), of=deleted, before=BEFORE).verdict is Verdict.REFUTED


def test_a_set_whose_aim_is_that_nothing_is_there_is_verified_by_absence() -> None:
    assert result(gone(HOLDS), before=BEFORE).verdict is Verdict.VERIFIED
    assert result(gone(HOLDS), of=contract(Kind.READ, SideEffect.READ_ONLY)).verdict is Verdict.VERIFIED
    # What these kinds make has to be there, whatever the predicates say of nothing.
    assert result(gone(HOLDS), of=contract(Kind.CREATE), before=BEFORE).verdict is Verdict.REFUTED


@pytest.mark.requirement("TRUTH-verdict-3", "HS-07", "HS-08")
@pytest.mark.parametrize("truth", [HOLDS, VIOLATED])
@pytest.mark.parametrize("level", [Consistency.CACHED, Consistency.REPLICA])
def test_a_reading_below_the_class_neither_confirms_nor_denies(level: Consistency, truth: object) -> None:
    seen = result(judged(truth, consistency=level, stamp=STAMP), before=BEFORE)  # type: ignore[arg-type]
    assert (seen.verdict, seen.why, seen.maybe_stale) == (OPEN, Why.STALE, True)


@pytest.mark.requirement("TRUTH-verdict-3")
@pytest.mark.parametrize(
    ("later", "believed"),
    [
        ({"stamp": STAMP}, True),
        ({"commit_token_honoured": True}, True),
        ({"version": 2}, True),
        ({"version": 1}, False),
        ({"version": 0}, False),
        ({"version": "2"}, False),
        ({"stamp": "another"}, False),
        ({"as_of_us": 9_999}, False),
        ({}, False),
    ],
)
def test_a_confirmation_that_is_not_strong_needs_evidence_of_being_later(
    later: dict[str, object], believed: bool
) -> None:
    seen = result(judged(HOLDS, consistency=Consistency.SESSION, **later), before=BEFORE)
    assert (seen.verdict is Verdict.VERIFIED) is believed
    if not believed:
        assert (seen.why, seen.maybe_stale) == (Why.STALE, True)


def test_a_strong_reading_needs_no_other_evidence_of_being_later() -> None:
    assert result(judged(HOLDS, version=1), before=BEFORE).verdict is Verdict.VERIFIED


def test_a_class_without_that_demand_believes_its_own_level() -> None:
    read = contract(Kind.READ, SideEffect.READ_ONLY)
    seen = result(judged(HOLDS, consistency=Consistency.REPLICA, independence=Independence.SAME_CLIENT), of=read)
    assert seen.verdict is Verdict.VERIFIED


@pytest.mark.requirement("TRUTH-verdict-11")
def test_a_reading_of_the_call_itself_verifies_nothing() -> None:
    seen = result(judged(HOLDS, independence=Independence.SAME_CALL, stamp=STAMP), before=BEFORE)
    assert (seen.verdict, seen.why, seen.discrepancy) == (OPEN, Why.UNVERIFIABLE, Discrepancy.UNVERIFIABLE_STATE)
    medium = contract(side_effect=SideEffect.MEDIUM_RISK_WRITE)
    near = judged(HOLDS, independence=Independence.SAME_CLIENT)
    assert result(near, before=BEFORE).verdict is Verdict.VERIFIED
    assert result(near, of=medium, before=BEFORE).why is Why.UNVERIFIABLE


@pytest.mark.requirement("TRUTH-verdict-4", "HS-09")
def test_a_violation_is_final_only_when_the_window_has_closed_on_a_strong_reading() -> None:
    early = result(judged(VIOLATED, stamp=STAMP), window_closed=False)
    assert (early.verdict, early.why, early.discrepancy) == (OPEN, Why.PROPAGATING, Discrepancy.PROPAGATION_DELAY)
    weak = result(judged(VIOLATED, consistency=Consistency.SESSION, stamp=STAMP))
    assert (weak.verdict, weak.why, weak.maybe_stale) == (OPEN, Why.PROPAGATING, True)
    final = result(judged(VIOLATED, stamp=STAMP))
    assert (final.verdict, final.discrepancy) == (Verdict.REFUTED, Discrepancy.VALUE_MISMATCH)
    assert final.level is Level.VERIFIED


@pytest.mark.requirement("TRUTH-verdict-4")
def test_a_terminal_failure_is_final_at_once_even_where_every_postcondition_holds() -> None:
    for truth in (HOLDS, VIOLATED, UNTOLD):
        seen = result(judged(truth, failing=True, stamp=STAMP), window_closed=False, before=BEFORE)
        assert (seen.verdict, seen.discrepancy) == (Verdict.REFUTED, Discrepancy.VALUE_MISMATCH), truth


def test_a_terminal_failure_that_was_there_before_is_the_old_one() -> None:
    old = judged(VIOLATED, failing=True, version=1, value=OLD)
    same = result(judged(VIOLATED, failing=True, version=1, value=OLD), before=old, window_closed=False)
    assert (same.verdict, same.why) == (OPEN, Why.PROPAGATING)
    anew = result(judged(VIOLATED, failing=True, version=2, value=OLD), before=old, window_closed=False)
    assert anew.verdict is Verdict.REFUTED


def test_a_failure_is_the_old_one_only_where_the_state_before_was_read_and_had_failed() -> None:
    now = judged(VIOLATED, failing=True, version=1, value=OLD)
    for before in (
        judged(VIOLATED, version=1, value=OLD),
        judged(VIOLATED, failing=True, version=1, value=OLD, fault=Fault.TIMEOUT),
    ):
        assert result(now, before=before, window_closed=False).verdict is Verdict.REFUTED


def test_one_broken_predicate_among_several_is_the_verifiers_fault() -> None:
    seen = judged(UNTOLD, UNTOLD)
    one = replace(seen, ensure=(seen.ensure[0], replace(seen.ensure[1], verifier_fault=True)))
    assert result(one).why is Why.VERIFIER_ERROR


def test_what_a_reader_raised_is_told_before_what_it_said() -> None:
    broken = judged(HOLDS, fault=Fault.UNREACHABLE, detail="said")
    assert result(replace(broken, taken=replace(broken.taken, error="raised"))).detail == "raised"


@pytest.mark.parametrize("weak", [{"consistency": Consistency.REPLICA}, {"independence": Independence.SAME_CALL}])
def test_a_terminal_failure_is_not_believed_from_a_reading_that_is_too_weak(weak: dict[str, object]) -> None:
    assert result(judged(VIOLATED, failing=True, **weak), window_closed=False).verdict is OPEN  # type: ignore[arg-type]


@pytest.mark.requirement("TRUTH-verdict-5", "HS-12")
def test_read_by_target_and_out_of_scope_is_the_readers_fault() -> None:
    seen = result(judged(HOLDS, scope=VIOLATED), before=BEFORE)
    assert (seen.verdict, seen.why, seen.finding) == (OPEN, Why.OUT_OF_SCOPE, Finding.VERIFIER_ERROR)
    assert seen.ensure == ()  # nothing of it is shown
    assert seen.identity
    unsaid = result(judged(HOLDS, scope=UNTOLD), before=BEFORE)
    assert (unsaid.verdict, unsaid.why) == (OPEN, Why.INCOMPLETE)


@pytest.mark.requirement("TRUTH-verdict-5", "HS-12")
@pytest.mark.parametrize("key", ["tenant", "region", "account", "permission_scope", "target"])
def test_found_by_our_stamp_out_of_scope_is_a_wrong_target_whatever_else_holds(key: str) -> None:
    elsewhere = judged(HOLDS, stamp=STAMP, marks=(mark(key, VIOLATED),))
    for seen in (result(elsewhere, before=BEFORE), result(judged(HOLDS, stamp=STAMP), found=(elsewhere,))):
        assert (seen.verdict, seen.finding) == (Verdict.REFUTED, Finding.WRONG_TARGET)
        assert seen.discrepancy is Discrepancy.WRONG_TARGET_MODIFIED
        assert seen.attribution is Attribution.OURS
        assert seen.effect_shown


def test_another_actor_is_no_other_scope() -> None:
    other = judged(HOLDS, stamp=STAMP, marks=(mark("actor", VIOLATED), mark("version", UNTOLD)))
    assert result(other, before=BEFORE).verdict is Verdict.VERIFIED


@pytest.mark.requirement("MODEL-scope-in-predicates")
@pytest.mark.parametrize("key", ["tenant", "target", "region", "account", "permission_scope"])
def test_every_part_of_the_scope_can_withhold_a_success(key: str) -> None:
    assert result(judged(HOLDS, marks=(mark(key, HOLDS),)), before=BEFORE).verdict is Verdict.VERIFIED
    for truth in (VIOLATED, UNTOLD):
        assert result(judged(HOLDS, marks=(mark(key, truth),)), before=BEFORE).verdict is OPEN


@pytest.mark.requirement("TRUTH-verdict-8", "HS-04")
def test_partial_exists_only_between_effect_groups() -> None:
    both = contract(ensure=grouped("shipment", "invoice"))
    half = judged(HOLDS, VIOLATED, groups=("shipment", "invoice"), stamp=STAMP)
    seen = result(half, of=both, before=BEFORE)
    assert (seen.finding, seen.discrepancy) == (Finding.PARTIAL_SUCCESS, Discrepancy.PARTIAL_APPLICATION)
    assert (seen.parts_done, seen.parts_open) == (("shipment",), ("invoice",))
    one = result(judged(HOLDS, VIOLATED, stamp=STAMP), before=BEFORE)
    assert one.discrepancy is Discrepancy.VALUE_MISMATCH
    assert (one.parts_done, one.parts_open) == ((), ())
    neither = judged(VIOLATED, VIOLATED, groups=("shipment", "invoice"), stamp=STAMP)
    assert result(neither, of=both, before=BEFORE).discrepancy is Discrepancy.VALUE_MISMATCH


@pytest.mark.requirement("TRUTH-verdict-13", "MODEL-observed-is-hint")
@pytest.mark.parametrize("status", list(ObservationStatus))
def test_what_the_tool_said_never_verifies_and_never_refutes(status: ObservationStatus) -> None:
    said = observed(status)
    assert result(judged(HOLDS), before=BEFORE, observation=said).verdict is Verdict.VERIFIED
    over = result(judged(VIOLATED, stamp=STAMP), before=BEFORE, observation=said, dead=True)
    assert over.verdict is Verdict.REFUTED
    on_its_way = said.status in (ObservationStatus.ACCEPTED, ObservationStatus.PENDING)
    open_still = result(judged(VIOLATED, stamp=STAMP), before=BEFORE, observation=said)
    assert open_still.verdict is (OPEN if on_its_way else Verdict.REFUTED)
    assert result(judged(HOLDS, fault=Fault.TIMEOUT), observation=said).verdict is OPEN


@pytest.mark.requirement("TRUTH-late-dead", "TRUTH-kind-elsewhere")
@pytest.mark.parametrize(
    ("known", "gone_for_good"),
    [
        ({"dead": True, "observation": observed(ObservationStatus.ERROR)}, True),
        ({"dead": True, "found": (), "search_proven": True}, True),
        ({"dead": True, "found": ()}, False),  # the tool may not leave the mark
        ({"dead": True, "lookup": DEAD}, True),
        ({"dead": True}, False),  # the tool claims an effect, and nobody looked elsewhere
        ({"dead": True, "lookup": LANDED}, False),
        ({"dead": True, "found": (), "lookup": LANDED}, False),
        ({"dead": True, "found": (), "search_proven": True, "lookup": PENDING}, True),
        ({"dead": True, "found": (judged(HOLDS, scope=UNTOLD),)}, False),
        ({"dead": True, "observation": observed(ObservationStatus.TIMEOUT)}, False),
        ({"dead": False, "found": ()}, False),
        ({"dead": False, "observation": observed(ObservationStatus.ERROR)}, False),
    ],
)
def test_no_effect_is_final_only_where_none_can_be_and_none_can_come(
    known: dict[str, object], gone_for_good: bool
) -> None:
    absent = result(gone(), of=contract(Kind.CREATE), **known)
    unchanged = result(judged(VIOLATED, value=OLD, version=1), before=BEFORE, **known)
    for seen in (absent, unchanged):
        assert seen.discrepancy is Discrepancy.NO_OP_FAILURE
        assert (seen.finding is Finding.REFUTED_DEAD) is gone_for_good
        assert seen.effect_shown is False


def test_everything_that_holds_has_still_to_be_stable_and_single() -> None:
    for wait in ({"stable": False}, {"look_due": True}):
        seen = result(judged(HOLDS, stamp=STAMP), before=BEFORE, **wait)
        assert (seen.verdict, seen.why) == (OPEN, Why.SETTLING)
        single = "look_due" in wait  # the window is closed, and the search was not made
        assert seen.discrepancy is (Discrepancy.UNVERIFIABLE_STATE if single else Discrepancy.PROPAGATION_DELAY)
        assert result(judged(HOLDS, stamp=STAMP), before=BEFORE, window_closed=False, **wait).discrepancy is (
            Discrepancy.PROPAGATION_DELAY
        )
        deleted = result(gone(HOLDS), of=contract(Kind.DELETE), before=BEFORE, **wait)
        assert deleted.why is Why.SETTLING


@pytest.mark.requirement("PRINCIPLE-predicates-over-state", "MODEL-not-equality")
def test_fields_that_the_source_adds_do_not_spoil_a_success() -> None:
    more = {"id": "o-17", "status": "shipped", "updated": 1, "etag": "x"}
    assert result(judged(HOLDS, value=more, version=7), before=BEFORE).verdict is Verdict.VERIFIED


@pytest.mark.requirement("TRUST-2")
def test_a_reading_that_shows_an_effect_has_level_two_and_only_success_has_three() -> None:
    assert result(judged(VIOLATED, stamp=STAMP), before=BEFORE).level is Level.VERIFIED
    assert result(judged(HOLDS), before=BEFORE).level is Level.RECONCILED
    assert result(judged(HOLDS, fault=Fault.TIMEOUT)).level is Level.NORMALISED
    assert result(judged(HOLDS), before=BEFORE_SO).level is Level.RECONCILED
