"""Reconciliation where two of its steps meet: what a condition adds that the one beside it does not say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from readback.canon import Json
from readback.domain.contract.contract import Noop
from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.kind import Kind
from readback.domain.predicate import Evaluation, Postcondition
from readback.domain.side_effect import Consistency, Independence, SideEffect
from readback.domain.verdict import Attribution, Verdict, Why
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reading import Fault, Presence, Role
from readback.domain.verification.reconciliation import EvaluatedReading
from tests.unit.cases_given import (
    BEFORE,
    BEFORE_GONE,
    BEFORE_SO,
    HOLDS,
    LANDED,
    OLD,
    STAMP,
    STATE,
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


def test_a_search_that_did_not_run_finds_nothing_in_the_wrong_place() -> None:
    failed = judged(HOLDS, role=Role.FIND, stamp=STAMP, scope=VIOLATED, fault=Fault.TIMEOUT)
    assert result(judged(HOLDS), found=(failed,)).finding is not Finding.WRONG_TARGET
    assert result(judged(HOLDS), found=(replace(failed, taken=judged().taken),)).finding is Finding.WRONG_TARGET


def test_a_reading_before_that_did_not_run_does_not_say_that_the_target_was_missing() -> None:
    removed = contract(Kind.DELETE)
    unread = replace(BEFORE_GONE, taken=replace(BEFORE_GONE.taken, fault=Fault.UNREACHABLE))
    assert result(gone(HOLDS, complete=True), of=removed, before=unread).verdict is Verdict.VERIFIED
    missing = result(gone(HOLDS, complete=True), of=removed, before=BEFORE_GONE)
    assert (missing.verdict, missing.finding) == (Verdict.REFUTED, Finding.TARGET_MISSING)


@pytest.mark.parametrize(
    ("kind", "side_effect", "believed"),
    [
        (Kind.SET, SideEffect.READ_ONLY, True),
        (Kind.SET, SideEffect.LOW_RISK_INTERNAL, False),
        (Kind.READ, SideEffect.READ_ONLY, True),
        (Kind.READ, SideEffect.LOW_RISK_INTERNAL, True),
    ],
    ids=["a class that asks for none", "stored", "read", "read of a class that stores"],
)
def test_a_reading_that_may_be_older_is_believed_only_where_nothing_was_to_change_or_little_hangs_on_it(
    kind: Kind, side_effect: SideEffect, believed: bool
) -> None:
    weaker = judged(HOLDS, consistency=Consistency.SESSION)
    seen = result(weaker, of=contract(kind, side_effect))
    assert (seen.verdict is Verdict.VERIFIED) is believed
    assert (seen.why is Why.STALE) is not believed


def test_a_read_has_nothing_to_settle_and_a_write_has() -> None:
    read = contract(Kind.READ, SideEffect.READ_ONLY)
    for unsettled in ({"stable": False}, {"look_due": True}):
        assert result(judged(HOLDS), of=read, **unsettled).verdict is Verdict.VERIFIED
        seen = result(judged(HOLDS, stamp=STAMP), **unsettled)
        assert (seen.verdict, seen.why) == (Verdict.UNDETERMINED, Why.SETTLING)
        assert seen.finding is Finding.PROPAGATION_DELAY


def test_a_refused_no_op_says_that_it_was_so_already() -> None:
    seen = result(judged(HOLDS, version=1), of=contract(noop=Noop.REFUSE), before=BEFORE_SO)
    assert (seen.verdict, seen.attribution) == (Verdict.REFUTED, Attribution.ALREADY_SO)


def test_a_new_object_that_nobody_signed_is_nobodys_where_there_was_none_before() -> None:
    created = contract(Kind.CREATE)
    seen = result(judged(HOLDS), of=created, before=BEFORE_GONE)
    assert (seen.verdict, seen.why) == (Verdict.UNDETERMINED, Why.UNATTRIBUTED)


def test_an_object_of_ours_where_there_was_none_before_is_what_was_to_be_created() -> None:
    seen = result(judged(HOLDS, stamp=STAMP), of=contract(Kind.CREATE), before=BEFORE_GONE)
    assert (seen.verdict, seen.attribution) == (Verdict.VERIFIED, Attribution.OURS)


def test_an_older_object_that_another_changed_is_not_the_one_that_we_created_elsewhere() -> None:
    others = judged(HOLDS, stamp="somebody", version=2)
    seen = result(others, of=contract(Kind.CREATE), before=BEFORE, lookup=LANDED)
    assert seen.finding is not Finding.WRONG_TARGET
    ours = result(judged(HOLDS, stamp=STAMP, version=2), of=contract(Kind.CREATE), before=BEFORE)
    assert ours.finding is Finding.WRONG_TARGET


def test_a_frame_that_the_record_no_longer_shows_is_the_verifiers_fault() -> None:
    hidden: Json = {**OLD, "iban": {"$redacted": "x"}}
    before = judged(VIOLATED, role=Role.BEFORE, value=hidden, version=1)
    after = judged(HOLDS, stamp=STAMP, version=2, value={"id": "o-17", "status": "shipped", "iban": "y"})
    seen = result(after, of=contract(may_change=("status",)), before=before)
    assert (seen.verdict, seen.why, seen.finding) == (Verdict.UNDETERMINED, Why.INCOMPLETE, Finding.VERIFIER_ERROR)
    assert "iban" in seen.detail


@pytest.mark.parametrize("closed", [False, True])
def test_a_strong_violation_is_final_only_when_the_window_has_closed(closed: bool) -> None:
    seen = result(judged(VIOLATED), window_closed=closed)
    assert not seen.maybe_stale
    if closed:
        assert seen.verdict is Verdict.REFUTED
    else:
        assert (seen.verdict, seen.why) == (Verdict.UNDETERMINED, Why.PROPAGATING)
        assert (seen.finding, seen.discrepancy) == (Finding.AUTHORITY_MISMATCH, None)


@pytest.mark.parametrize("closed", [False, True])
def test_a_weak_violation_is_never_final(closed: bool) -> None:
    weak = judged(VIOLATED, consistency=Consistency.SESSION, stamp=STAMP)
    seen = result(weak, window_closed=closed)
    assert (seen.verdict, seen.why, seen.maybe_stale) == (Verdict.UNDETERMINED, Why.PROPAGATING, True)


def test_a_failure_that_the_source_calls_final_needs_no_strong_reading_and_no_closed_window() -> None:
    weak = judged(HOLDS, consistency=Consistency.SESSION, stamp=STAMP, failing=True)
    assert result(weak, window_closed=False).verdict is Verdict.REFUTED


def test_groups_that_are_all_done_beside_a_violation_are_no_partial_success() -> None:
    of = contract(ensure=(*grouped("a", "b"), Postcondition("rest", "false")))
    reading = judged(HOLDS, HOLDS, groups=("a", "b"))
    whole = replace(reading, ensure=(*reading.ensure, Evaluation("rest", VIOLATED, "x")))
    assert result(whole, of=of).finding is Finding.VALUE_MISMATCH
    partly = judged(HOLDS, VIOLATED, groups=("a", "b"))
    seen = result(partly, of=of)
    assert (seen.finding, seen.parts_done, seen.parts_open) == (Finding.PARTIAL_SUCCESS, ("a",), ("b",))


def test_a_value_that_a_reading_before_did_not_show_as_present_is_newly_written() -> None:
    of = contract(ensure=grouped("a", "b"))
    reading = judged(HOLDS, VIOLATED, groups=("a", "b"))
    wrong = replace(reading.ensure[1], values=(("authoritative.status", "shipped"),))
    seen = replace(reading, ensure=(reading.ensure[0], wrong))
    for presence in (Presence.NOT_VISIBLE, Presence.ABSENT):
        hidden = judged(presence=presence, role=Role.BEFORE, value=STATE)
        assert result(seen, of=of, before=hidden).finding is Finding.VALUE_MISMATCH
    shown = judged(VIOLATED, role=Role.BEFORE, value=STATE)
    assert result(seen, of=of, before=shown).finding is Finding.PARTIAL_SUCCESS


@pytest.mark.parametrize("changed", [False, True])
def test_a_local_tool_that_reports_an_error_ends_the_waiting_only_where_nothing_changed(changed: bool) -> None:
    local = contract(side_effect=SideEffect.EPHEMERAL_WRITE)
    reading = judged(VIOLATED, value={**OLD, "status": "packed"} if changed else OLD)
    failed = observed(ObservationStatus.ERROR)
    known: dict[str, Any] = {"before": BEFORE, "observation": failed, "dead": True, "window_closed": False}
    seen = result(reading, of=local, **known)
    assert (seen.verdict is Verdict.REFUTED) is not changed
    assert (seen.why is Why.PROPAGATING) is changed
    assert result(reading, of=contract(), **known).why is Why.PROPAGATING
    assert result(reading, of=local, **{**known, "dead": False}).why is Why.PROPAGATING


def test_one_group_alone_has_no_parts() -> None:
    seen = result(judged(VIOLATED, groups=("a",)), of=contract(ensure=grouped("a")))
    assert (seen.finding, seen.parts_done, seen.parts_open) == (Finding.VALUE_MISMATCH, (), ())


def test_a_value_that_another_wrote_over_is_stale_whether_or_not_anybody_searched() -> None:
    others = judged(VIOLATED, stamp="somebody", version=2)
    for found in (None, ()):
        assert result(others, before=BEFORE, found=found).finding is Finding.STALE_STATE


@pytest.mark.parametrize("theirs", [{"stamp": "rb-other"}, {"marks": (mark("actor", VIOLATED),)}], ids=("it", "who"))
def test_what_is_new_and_bears_anothers_mark_is_not_ours(theirs: dict[str, Any]) -> None:
    made = contract(Kind.CREATE)
    alone = result(judged(HOLDS, created_after_dispatch=True), of=made)
    assert (alone.verdict, alone.attribution) == (Verdict.UNDETERMINED, Attribution.UNKNOWN), "new is not ours"
    named = result(judged(HOLDS, created_after_dispatch=True, marks=(mark("actor", HOLDS),)), of=made)
    assert named.attribution is Attribution.OURS
    seen = result(judged(HOLDS, created_after_dispatch=True, **theirs), of=made)
    assert (seen.verdict, seen.attribution) == (Verdict.REFUTED, Attribution.OTHER_ACTOR)


def test_a_state_that_was_so_already_is_held_to_the_frame_too() -> None:
    framed = contract(may_change=("status",))
    seen = result(judged(HOLDS, version=1, value={**STATE, "limit": 0}), of=framed, before=BEFORE_SO)
    assert (seen.verdict, seen.finding) == (Verdict.UNDETERMINED, Finding.HIDDEN_SIDE_EFFECT)
    assert result(judged(HOLDS, version=1), of=framed, before=BEFORE_SO).finding is Finding.NO_OP_ALLOWED


def test_a_read_after_which_the_object_is_gone_changed_more_than_its_frame_allows() -> None:
    read = contract(Kind.READ, SideEffect.READ_ONLY, may_change=())
    seen = result(gone(HOLDS), of=read, before=BEFORE_SO)
    assert (seen.verdict, seen.finding) == (Verdict.UNDETERMINED, Finding.HIDDEN_SIDE_EFFECT)
    assert result(gone(HOLDS), of=read, before=BEFORE_GONE).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("kind", [Kind.SET, Kind.APPEND, Kind.ADJUST])
@pytest.mark.parametrize(
    "before",
    [judged(presence=Presence.NOT_VISIBLE), gone(consistency=Consistency.SESSION), gone(complete=False)],
    ids=["not visible", "by a weak reading", "by a part"],
)
def test_a_frame_round_what_could_not_be_seen_before_is_not_kept_by_that(kind: Kind, before: EvaluatedReading) -> None:
    framed = contract(kind, may_change=("status",))
    seen = result(judged(HOLDS, stamp=STAMP), of=framed, before=before)
    assert (seen.verdict, seen.why) == (Verdict.UNDETERMINED, Why.INCOMPLETE)
    for known in (BEFORE_GONE, BEFORE_SO):
        assert result(judged(HOLDS, stamp=STAMP), of=framed, before=known).verdict is Verdict.VERIFIED
    assert result(judged(HOLDS, stamp=STAMP), of=contract(kind), before=before).verdict is Verdict.VERIFIED


def test_what_is_made_new_needs_no_sight_of_what_was_before() -> None:
    hidden = judged(presence=Presence.NOT_VISIBLE)
    for kind in (Kind.CREATE, Kind.SEND):
        seen = result(judged(HOLDS, stamp=STAMP), of=contract(kind, may_change=("status",)), before=hidden)
        assert seen.verdict is Verdict.VERIFIED


@pytest.mark.parametrize("weak", [{"consistency": Consistency.SESSION}, {"complete": False}], ids=["weak", "a part"])
def test_only_a_believable_absence_before_says_that_there_was_nothing_to_delete(weak: dict[str, Any]) -> None:
    unsure = result(gone(HOLDS), of=contract(Kind.DELETE), before=gone(**weak))
    assert (unsure.verdict, unsure.attribution) == (Verdict.VERIFIED, Attribution.UNKNOWN)


def test_what_is_ours_and_wrong_is_not_made_right_by_a_reading_that_bears_no_stamp() -> None:
    made = contract(Kind.CREATE)
    wrong = judged(VIOLATED, stamp=STAMP, role=Role.FIND)
    for reading in (judged(HOLDS), judged(HOLDS, stamp="rb-other")):
        seen = result(reading, of=made, found=(wrong,))
        assert (seen.verdict, seen.why) == (Verdict.UNDETERMINED, Why.UNATTRIBUTED)
    for known in (judged(HOLDS, role=Role.FIND), judged(UNTOLD, role=Role.FIND)):
        assert result(judged(HOLDS), of=made, found=(known,)).verdict is Verdict.VERIFIED
    assert result(judged(HOLDS, stamp=STAMP), of=made, found=(wrong,)).verdict is Verdict.VERIFIED


def test_where_nothing_changed_and_nobody_can_say_what_held_before_a_state_that_may_not_have_been_so_is_open() -> None:
    untold = judged(UNTOLD, role=Role.BEFORE)
    seen = result(judged(HOLDS), of=contract(noop=Noop.REFUSE), before=untold)
    assert (seen.verdict, seen.why) == (Verdict.UNDETERMINED, Why.UNATTRIBUTED)
    assert result(judged(HOLDS), of=contract(), before=untold).verdict is Verdict.VERIFIED
    moved = judged(UNTOLD, role=Role.BEFORE, value=OLD)
    assert result(judged(HOLDS), of=contract(noop=Noop.REFUSE), before=moved).verdict is Verdict.VERIFIED


def test_two_looks_at_one_source_are_no_agreement_where_the_class_asks_for_several() -> None:
    critical = contract(side_effect=SideEffect.CRITICAL_MUTATION, quorum=2)
    one, again = (judged(HOLDS, independence=Independence.OTHER_SYSTEM) for _ in range(2))
    other = replace(one, taken=replace(one.taken, source="archive"))
    down = judged(HOLDS, independence=Independence.OTHER_SYSTEM, fault=Fault.TIMEOUT)
    assert result(one, again, down, of=critical).verdict is Verdict.UNDETERMINED
    assert result(one, down, other, of=critical).verdict is Verdict.VERIFIED
    against = tuple(replace(each, ensure=judged(VIOLATED).ensure) for each in (one, again))
    assert result(*against, down, of=critical).verdict is Verdict.UNDETERMINED
    assert result(one, again, of=contract(quorum=2)).verdict is Verdict.VERIFIED


# --- the class of what is left open ---------------------------------------------------------------------------------


def test_a_propagation_delay_is_told_only_where_a_commit_was_seen() -> None:
    for ours in ({"stamp": STAMP}, {"created_after_dispatch": True}):
        seen = result(judged(VIOLATED, **ours), window_closed=False)
        assert (seen.why, seen.discrepancy) == (Why.PROPAGATING, Discrepancy.PROPAGATION_DELAY)
    assert result(judged(VIOLATED), window_closed=False).discrepancy is None
    assert result(judged(VIOLATED), window_closed=False, seen=True).discrepancy is Discrepancy.PROPAGATION_DELAY


@pytest.mark.parametrize("fault", [Fault.UNREACHABLE, Fault.TIMEOUT])
def test_an_outage_past_the_deadline_is_an_unverifiable_state(fault: Fault) -> None:
    down = judged(HOLDS, fault=fault, detail="503")
    assert result(down, window_closed=True).discrepancy is Discrepancy.UNVERIFIABLE_STATE
    assert result(down, window_closed=False).discrepancy is None


def test_a_value_that_cannot_be_compared_has_a_class_past_the_deadline() -> None:
    seen = result(judged(UNTOLD), window_closed=True)
    assert (seen.verdict, seen.discrepancy) == (Verdict.UNDETERMINED, Discrepancy.UNKNOWN_STATE)


def test_a_search_that_failed_is_named_with_its_reason() -> None:
    why = "'order.find' raised verifier.reader-failed: it showed only a part of the list"
    seen = result(judged(HOLDS, stamp=STAMP), window_closed=True, look_due=True, search_failed=why)
    assert (seen.why, seen.discrepancy) == (Why.SETTLING, Discrepancy.UNVERIFIABLE_STATE)
    assert seen.detail == f"The search for what this action left failed: {why}"
    lost = result(judged(HOLDS, fault=Fault.UNREACHABLE, detail="503"), window_closed=True, search_failed=why)
    assert lost.detail.startswith("503 The search")
    assert result(judged(HOLDS, stamp=STAMP), search_failed=why).detail == ""  # verified: nothing hangs on it
