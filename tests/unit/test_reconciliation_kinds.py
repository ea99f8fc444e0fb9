"""What counts as proof for each kind of operation: attribution, no-ops, older objects, deletes, and the frame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from readback.domain.contract.contract import Noop
from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.kind import Kind
from readback.domain.recovery.table import DEFAULT_TABLE, EFFECTS, Reversal, situations_of
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.domain.verdict import Attribution, Verdict, Why
from readback.domain.verification.attribution import attribute, has_changed, looked_elsewhere
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reading import Fault, Lookup, Presence, Role
from readback.domain.verification.reconciliation import EvaluatedReading
from tests.unit.cases_given import (
    BEFORE,
    BEFORE_GONE,
    BEFORE_SO,
    DEAD,
    HOLDS,
    LANDED,
    OLD,
    PENDING,
    STAMP,
    STATE,
    UNTOLD,
    VIOLATED,
    case,
    contract,
    gone,
    grouped,
    judged,
    mark,
    observed,
    result,
)

pytestmark = pytest.mark.slow

OURS, OTHER, SO, WHOSE = (Attribution.OURS, Attribution.OTHER_ACTOR, Attribution.ALREADY_SO, Attribution.UNKNOWN)
OPEN, REFUTED, VERIFIED = Verdict.UNDETERMINED, Verdict.REFUTED, Verdict.VERIFIED
NEEDING = [kind for kind in Kind if kind.needs_ours]
ids = {"ids": lambda kind: kind.value}
EFFECT = judged(HOLDS, role=Role.FIND, stamp=STAMP)


@pytest.mark.requirement("TRUTH-kind-ours", "HS-12")
@pytest.mark.parametrize("kind", NEEDING, **ids)  # type: ignore[arg-type]
@pytest.mark.parametrize(
    ("reading", "known"),
    [
        (judged(HOLDS, stamp=STAMP), {}),
        (judged(HOLDS, marks=(mark("stamp", HOLDS, STAMP),)), {}),
        (judged(HOLDS, created_after_dispatch=True, marks=(mark("actor", HOLDS),)), {}),
        (judged(HOLDS), {"lookup": LANDED}),
        (judged(HOLDS), {"found": (EFFECT,)}),
    ],
    ids=["stamp", "mapped stamp", "newer, and by us", "the key's record", "found by stamp"],
)
def test_what_makes_something_is_verified_only_where_it_is_ours(
    kind: Kind, reading: EvaluatedReading, known: dict[str, object]
) -> None:
    seen = result(reading, of=contract(kind), **known)
    assert (seen.verdict, seen.attribution, seen.effect_shown) == (VERIFIED, OURS, True)


@pytest.mark.requirement("TRUTH-kind-ours")
@pytest.mark.parametrize("kind", NEEDING, **ids)  # type: ignore[arg-type]
@pytest.mark.parametrize(
    "known",
    [
        {},
        {"lookup": PENDING},
        {"lookup": Lookup.unknown_key()},
        {"lookup": DEAD},
        {"found": ()},
        {"found": (judged(HOLDS, scope=UNTOLD),)},
        {"found": (gone(),)},
        {"found": (judged(HOLDS, fault=Fault.UNREACHABLE),)},
    ],
)
def test_a_matching_object_that_nobody_shows_to_be_ours_is_not_ours(kind: Kind, known: dict[str, object]) -> None:
    seen = result(judged(HOLDS), of=contract(kind), **known)
    assert (seen.verdict, seen.why) == (OPEN, Why.UNATTRIBUTED)
    assert seen.discrepancy is Discrepancy.UNKNOWN_STATE


@pytest.mark.requirement("TRUTH-kind-older-object")
def test_a_create_that_lands_on_an_older_object_is_a_wrong_target_if_that_changed() -> None:
    create = contract(Kind.CREATE)
    older = replace(BEFORE, taken=replace(BEFORE.taken, role=Role.BEFORE))
    for reading in (judged(HOLDS, version=2, stamp=STAMP), judged(VIOLATED, version=2, stamp=STAMP)):
        for closed in (True, False):
            seen = result(reading, of=create, before=older, window_closed=closed)
            assert (seen.finding, seen.attribution) == (Finding.WRONG_TARGET, OURS)
            assert seen.discrepancy is Discrepancy.WRONG_TARGET_MODIFIED
            assert seen.effect_shown
    unsigned = result(judged(HOLDS, version=2), of=create, before=older)
    assert (unsigned.discrepancy, unsigned.effect_shown) == (Discrepancy.WRONG_TARGET_MODIFIED, False)
    assert result(judged(HOLDS, version=2), of=create, before=older, window_closed=False).verdict is OPEN


@pytest.mark.requirement("TRUTH-kind-older-object")
def test_a_create_that_left_an_older_object_as_it_was_is_a_failed_no_op() -> None:
    create = contract(Kind.CREATE)
    for truth in (HOLDS, VIOLATED):
        seen = result(judged(truth, version=1), of=create, before=BEFORE)
        assert (seen.verdict, seen.discrepancy) == (REFUTED, Discrepancy.NO_OP_FAILURE)
        assert not seen.effect_shown
    another = result(judged(HOLDS, stamp="older"), of=create)
    assert (another.verdict, another.discrepancy) == (REFUTED, Discrepancy.NO_OP_FAILURE)
    assert another.attribution is OTHER


def test_what_several_write_to_is_nobodys_older_object() -> None:
    for kind in (Kind.APPEND, Kind.ADJUST):
        seen = result(judged(HOLDS, version=2), of=contract(kind), before=BEFORE, found=(EFFECT,))
        assert (seen.verdict, seen.attribution) == (VERIFIED, OURS)


@pytest.mark.requirement("TRUTH-kind-noop", "DISC-no-op-success")
def test_a_set_that_found_its_state_already_there_is_a_no_op_which_the_contract_allows_or_not() -> None:
    seen = result(judged(HOLDS, version=1), before=BEFORE_SO)
    assert (seen.verdict, seen.finding) == (VERIFIED, Finding.NO_OP_ALLOWED)
    assert (seen.discrepancy, seen.attribution, seen.effect_shown) == (Discrepancy.NO_OP_SUCCESS, SO, False)
    refused = contract(noop=Noop.REFUSE)
    closed = result(judged(HOLDS, version=1), of=refused, before=BEFORE_SO)
    assert (closed.verdict, closed.discrepancy) == (REFUTED, Discrepancy.NO_OP_FAILURE)
    assert result(judged(HOLDS, version=1), of=refused, before=BEFORE_SO, window_closed=False).verdict is OPEN


def test_a_state_that_held_before_and_was_written_again_is_no_no_op() -> None:
    seen = result(judged(HOLDS, version=2, stamp=STAMP), before=BEFORE_SO)
    assert (seen.finding, seen.attribution) == (Finding.VERIFIED, OURS)


@pytest.mark.requirement("DISC-no-op-failure")
def test_what_is_known_of_our_effect_makes_a_state_that_holds_ours_whoever_signed_it_last() -> None:
    for known in ({"found": (EFFECT,)}, {"lookup": LANDED}):
        signed = judged(HOLDS, version=2, stamp="another")
        assert attribute(case(signed, before=BEFORE, **known), signed) is OURS
        unchanged = judged(HOLDS, version=1)
        assert attribute(case(unchanged, before=BEFORE_SO, **known), unchanged) is OURS


def test_a_set_that_changed_nothing_is_a_failed_no_op() -> None:
    seen = result(judged(VIOLATED, value=OLD, version=1), before=BEFORE)
    assert (seen.verdict, seen.discrepancy) == (REFUTED, Discrepancy.NO_OP_FAILURE)
    unversioned = replace(BEFORE, taken=replace(BEFORE.taken, reading=replace(BEFORE.taken.reading, version=None)))
    assert result(judged(VIOLATED, value=OLD), before=unversioned).discrepancy is Discrepancy.NO_OP_FAILURE
    assert result(judged(VIOLATED, value=STATE), before=unversioned).discrepancy is Discrepancy.VALUE_MISMATCH


@pytest.mark.requirement("TRUTH-kind-attribution-unknown")
def test_a_set_without_evidence_of_change_is_verified_with_attribution_unknown() -> None:
    for before in (None, BEFORE):
        seen = result(judged(HOLDS, version=2), before=before)
        assert (seen.verdict, seen.attribution) == (VERIFIED, WHOSE)


@pytest.mark.parametrize(
    ("reading", "before", "whose"),
    [
        (judged(HOLDS, marks=(mark("actor", HOLDS),), version=2), BEFORE, OURS),
        (judged(HOLDS, marks=(mark("actor", HOLDS),), version=2), None, WHOSE),
        (judged(HOLDS, marks=(mark("actor", VIOLATED),), version=2), BEFORE, OTHER),
        (judged(HOLDS, marks=(mark("actor", UNTOLD),), version=2), BEFORE, WHOSE),
        (judged(HOLDS, stamp="another", version=2), BEFORE, OTHER),
        (judged(HOLDS, marks=(mark("stamp", VIOLATED, "another"),), version=2), BEFORE, OTHER),
        (judged(HOLDS, marks=(mark("stamp", UNTOLD, None),), version=2), BEFORE, WHOSE),
        (judged(HOLDS, version=1), BEFORE_SO, SO),
        (judged(HOLDS, version=1), BEFORE, WHOSE),
        (judged(HOLDS, stamp="another", version=1), BEFORE_SO, SO),
        (gone(HOLDS), BEFORE_GONE, WHOSE),
        (judged(HOLDS, version=1), judged(version=1), WHOSE),
        (judged(HOLDS, version=1), judged(HOLDS, version=1, fault=Fault.TIMEOUT), WHOSE),
        (judged(HOLDS, stamp="another", version=1), judged(HOLDS, version=1, fault=Fault.TIMEOUT), OTHER),
    ],
)
def test_whose_doing_a_state_is(reading: EvaluatedReading, before: EvaluatedReading | None, whose: Attribution) -> None:
    assert attribute(case(reading, before=before), reading) is whose


@pytest.mark.requirement("TRUTH-verdict-7", "DISC-stale-state")
@pytest.mark.parametrize(
    "theirs", [{"stamp": "another"}, {"marks": (mark("actor", VIOLATED),)}, {"marks": (mark("stamp", VIOLATED),)}]
)
def test_another_actors_violating_value_is_stale_state(theirs: dict[str, object]) -> None:
    reading = judged(VIOLATED, version=2, **theirs)  # type: ignore[arg-type]
    for known in ({}, {"lookup": LANDED}, {"found": (EFFECT,)}):
        seen = result(reading, before=BEFORE, **known)
        assert (seen.verdict, seen.finding, seen.attribution) == (REFUTED, Finding.STALE_STATE, OTHER)
        assert not seen.effect_shown


@pytest.mark.requirement("TRUTH-verdict-7")
def test_stale_state_is_never_compensated_and_never_repeated_and_an_unknown_author_is_held() -> None:
    rows = [row for row in DEFAULT_TABLE.rows if row.finding is Finding.STALE_STATE]
    assert {EFFECTS[row.action].target_state for row in rows} == {State.FAILED}
    seen = result(judged(VIOLATED, version=2), before=BEFORE)
    assert (seen.finding, seen.effect_shown) == (Finding.VALUE_MISMATCH, False)
    for situation in situations_of(tuple(r for r in DEFAULT_TABLE.rows if r.finding is Finding.VALUE_MISMATCH)):
        settled = not situation.within_window and not situation.maybe_stale
        over = not situation.in_progress or (situation.dead and not situation.late_open)
        if settled and over and not situation.effect_shown:
            row = DEFAULT_TABLE.decide(Finding.VALUE_MISMATCH, replace(situation, reversible=Reversal.COMPENSABLE))
            assert row.target_state is State.REVIEW_REQUIRED


def test_what_we_made_and_another_changed_is_stale_and_not_an_effect_to_reverse() -> None:
    create = contract(Kind.CREATE)
    theirs = judged(VIOLATED, stamp="another")
    for known in ({}, {"found": (EFFECT,)}, {"lookup": LANDED}):
        assert result(theirs, of=create, **known).finding is Finding.STALE_STATE
    assert result(theirs, of=create, found=()).discrepancy is Discrepancy.NO_OP_FAILURE
    assert result(gone(), of=create, found=(EFFECT,)).finding is Finding.STALE_STATE
    # What several write to bears another's mark by nature.
    assert result(theirs, of=contract(Kind.ADJUST)).discrepancy is Discrepancy.NO_OP_FAILURE


@pytest.mark.requirement("DISC-stale-state")
def test_a_sum_that_another_changed_last_does_not_deny_that_ours_is_in_it() -> None:
    adjust, theirs = contract(Kind.ADJUST), judged(VIOLATED, version=3, stamp="another")
    failed: dict[str, Any] = {"observation": observed(ObservationStatus.ERROR), "dead": True}
    seen = result(theirs, of=adjust, before=BEFORE, **failed)
    assert (seen.finding, seen.discrepancy) == (Finding.STALE_STATE, Discrepancy.STALE_STATE)
    for known in ({"found": ()}, {"lookup": DEAD}):
        denied = result(theirs, of=adjust, before=BEFORE, **{**failed, **known})
        assert denied.finding is Finding.REFUTED_DEAD
    unchanged = result(judged(VIOLATED, version=1, stamp="another"), of=adjust, before=BEFORE, **failed)
    assert unchanged.finding is Finding.REFUTED_DEAD


@pytest.mark.requirement("TRUTH-kind-delete-absent", "DISC-target-missing")
def test_a_delete_of_what_was_absent_before_is_target_missing_unless_allowed() -> None:
    seen = result(gone(HOLDS), of=contract(Kind.DELETE), before=BEFORE_GONE)
    assert (seen.verdict, seen.discrepancy, seen.attribution) == (REFUTED, Discrepancy.TARGET_MISSING, SO)
    allowed = result(gone(HOLDS), of=contract(Kind.DELETE, noop=Noop.ALLOW), before=BEFORE_GONE)
    assert (allowed.verdict, allowed.discrepancy) == (VERIFIED, Discrepancy.NO_OP_SUCCESS)


def test_a_delete_is_ours_by_the_keys_record_and_else_nobodys_we_can_name() -> None:
    delete = contract(Kind.DELETE)
    assert result(gone(HOLDS), of=delete, before=BEFORE).attribution is WHOSE
    assert result(gone(HOLDS), of=delete, before=BEFORE, lookup=LANDED).attribution is OURS
    assert result(gone(HOLDS), of=delete, before=BEFORE, lookup=DEAD).attribution is WHOSE
    changed = result(judged(VIOLATED, version=2), of=delete, before=BEFORE)
    assert changed.discrepancy is Discrepancy.VALUE_MISMATCH  # something happened to it, and not what was asked


@pytest.mark.requirement("DISC-target-missing")
def test_a_set_on_what_is_not_there_is_target_missing() -> None:
    assert result(gone(), before=BEFORE).discrepancy is Discrepancy.TARGET_MISSING
    assert result(gone(), of=contract(Kind.ADJUST), before=BEFORE).discrepancy is Discrepancy.NO_OP_FAILURE


@pytest.mark.requirement("TRUTH-kind-before-proves-change")
def test_a_predicate_over_before_that_cannot_be_told_leaves_the_verdict_open() -> None:
    assert result(judged(HOLDS, UNTOLD), before=None).verdict is OPEN
    assert result(judged(HOLDS, HOLDS), before=BEFORE).verdict is VERIFIED
    # A broken before-image says nothing about change: the state is verified, and whose it is stays unknown.
    broken = judged(UNTOLD, presence=Presence.UNAVAILABLE, role=Role.BEFORE)
    seen = result(judged(HOLDS), before=broken)
    assert (seen.verdict, seen.attribution) == (VERIFIED, WHOSE)


# --- the frame ----------------------------------------------------------------------------------------------------

FRAMED = contract(may_change=("status", "log.last"))


@pytest.mark.requirement("TRUTH-kind-frame", "L33")
@pytest.mark.parametrize(
    ("after", "hidden"),
    [
        ({"id": "o-17", "status": "shipped"}, False),
        ({"id": "o-17", "status": {"now": "shipped"}}, False),
        ({"id": "o-17", "status": "shipped", "owner": "eve"}, True),
        ({"id": "o-18", "status": "shipped"}, True),
        ({"status": "shipped"}, True),
        ({"id": "o-17", "status": "shipped", "log": {"last": 1}}, True),
        ({"id": "o-17", "status": "shipped", "statusbar": 1}, True),
    ],
)
def test_a_difference_outside_the_frame_is_a_hidden_side_effect(after: dict[str, object], hidden: bool) -> None:
    ours = result(judged(HOLDS, value=after, version=2, stamp=STAMP), of=FRAMED, before=BEFORE)  # type: ignore[arg-type]
    unsigned = result(judged(HOLDS, value=after, version=2), of=FRAMED, before=BEFORE)  # type: ignore[arg-type]
    if not hidden:
        assert ours.verdict is unsigned.verdict is VERIFIED
        return
    assert (ours.verdict, ours.finding, ours.effect_shown) == (REFUTED, Finding.HIDDEN_SIDE_EFFECT, True)
    assert (unsigned.verdict, unsigned.finding) == (OPEN, Finding.HIDDEN_SIDE_EFFECT)
    assert unsigned.why is Why.UNATTRIBUTED


def test_without_a_frame_or_a_before_nothing_is_hidden() -> None:
    wide = judged(HOLDS, value={**STATE, "owner": "eve"}, version=2, stamp=STAMP)
    assert result(wide, before=BEFORE).verdict is VERIFIED
    assert result(wide, of=FRAMED).verdict is VERIFIED
    assert result(wide, of=FRAMED, before=BEFORE_GONE).verdict is VERIFIED
    assert result(wide, of=contract(may_change=()), before=BEFORE).finding is Finding.HIDDEN_SIDE_EFFECT


# --- duplicates ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TRUTH-verdict-6", "DISC-duplicate-side-effect")
def test_more_than_one_effect_is_a_duplicate_even_when_each_is_right() -> None:
    seen = result(judged(HOLDS, stamp=STAMP), of=contract(Kind.CREATE), found=(EFFECT, EFFECT))
    assert (seen.verdict, seen.finding, seen.effect_shown) == (REFUTED, Finding.DUPLICATE_SIDE_EFFECT, True)
    assert seen.discrepancy is Discrepancy.DUPLICATE_SIDE_EFFECT
    early = result(judged(VIOLATED), of=contract(Kind.CREATE), found=(EFFECT, EFFECT), window_closed=False)
    assert early.finding is Finding.DUPLICATE_SIDE_EFFECT
    assert result(judged(HOLDS, stamp=STAMP), of=contract(Kind.CREATE), found=(EFFECT, gone())).verdict is VERIFIED


def test_a_wrong_target_outranks_a_duplicate() -> None:
    stray = judged(HOLDS, scope=VIOLATED, role=Role.FIND, stamp=STAMP)
    seen = result(judged(HOLDS, stamp=STAMP), of=contract(Kind.CREATE), found=(EFFECT, stray))
    assert seen.finding is Finding.WRONG_TARGET


def test_a_lost_reply_changes_nothing_about_what_is_read() -> None:
    for status in (ObservationStatus.TIMEOUT, ObservationStatus.NONE, ObservationStatus.CANCELLED):
        seen = result(judged(HOLDS, stamp=STAMP), of=contract(Kind.CREATE), observation=observed(status))
        assert seen.verdict is VERIFIED


def test_a_version_counts_as_change_only_where_both_readings_have_one() -> None:
    same, other = judged(HOLDS, value=OLD), judged(HOLDS, value=STATE)
    old, new = judged(HOLDS, value=OLD, version=1), judged(HOLDS, value=OLD, version=2)
    assert has_changed(old, new)
    assert not has_changed(new, judged(HOLDS, value=STATE, version=2))
    for one, two in ((same, old), (old, same), (same, same)):
        assert not has_changed(one, two)
    for one, two in ((old, other), (other, old), (old, gone())):
        assert has_changed(one, two)


@pytest.mark.parametrize("status", list(ObservationStatus))
def test_only_a_tool_that_says_so_spares_the_search_elsewhere(status: ObservationStatus) -> None:
    silent = status in (ObservationStatus.ERROR, ObservationStatus.NOT_DISPATCHED)
    assert looked_elsewhere(observed(status), None, None) is silent
    assert looked_elsewhere(observed(status), (), None, proven=True)
    assert looked_elsewhere(observed(status), (), None) is silent
    assert not looked_elsewhere(observed(status), (EFFECT,), DEAD)
    assert looked_elsewhere(observed(status), None, DEAD)
    assert not looked_elsewhere(observed(status), (), LANDED)
    assert looked_elsewhere(observed(status), None, PENDING) is silent


def test_a_set_that_is_meant_to_leave_nothing_has_still_to_be_stable() -> None:
    assert result(gone(HOLDS), before=BEFORE, stable=False).why is Why.SETTLING
    read = result(gone(HOLDS), of=contract(Kind.READ, SideEffect.READ_ONLY), stable=False)
    assert (read.verdict, read.attribution) == (VERIFIED, WHOSE)


def test_a_read_that_writes_beside_its_frame_is_no_success() -> None:
    read = contract(Kind.READ, SideEffect.READ_ONLY, may_change=())
    assert result(judged(HOLDS, value=OLD, version=1), of=read, before=BEFORE).verdict is VERIFIED
    assert result(judged(HOLDS, version=2), of=read, before=BEFORE).finding is Finding.HIDDEN_SIDE_EFFECT


def test_an_object_that_the_sources_own_clock_calls_newer_is_no_older_one() -> None:
    create = contract(Kind.CREATE)
    newer = result(judged(HOLDS, version=2, created_after_dispatch=True, stamp=STAMP), of=create, before=BEFORE)
    assert (newer.verdict, newer.attribution) == (VERIFIED, OURS)
    theirs = result(judged(VIOLATED, version=2, stamp="another"), of=create, before=BEFORE)
    assert theirs.discrepancy is not Discrepancy.WRONG_TARGET_MODIFIED


def test_what_was_redacted_before_cannot_be_shown_to_be_unchanged() -> None:
    hidden = replace(BEFORE.taken.reading, value={**OLD, "card": {"$redacted": True}})
    before = replace(BEFORE, taken=replace(BEFORE.taken, reading=hidden))
    now = judged(HOLDS, value={**STATE, "card": "4111"}, version=2, stamp=STAMP)
    seen = result(now, of=contract(may_change=("status",)), before=before)
    assert (seen.verdict, seen.why) == (OPEN, Why.INCOMPLETE)
    assert "card" in seen.detail
    assert result(now, of=contract(may_change=("status", "card")), before=before).verdict is VERIFIED


FAULTY_BEFORE = judged(VIOLATED, role=Role.BEFORE, value=OLD, version=1, fault=Fault.TIMEOUT)
DEAD_CHANGED: dict[str, object] = {"before": BEFORE, "dead": True, "found": ()}
SEARCHED: dict[str, object] = {"dead": True, "found": (), "search_proven": True}
BOTH, ONE_GROUP = contract(ensure=grouped("a", "b")), contract(ensure=grouped("a"))


@pytest.mark.parametrize(
    ("reading", "kind", "known", "finding", "discrepancy"),
    [
        (gone(), Kind.SET, {}, "target_missing", "target_missing"),
        (gone(), Kind.SET, SEARCHED, "refuted_dead", "target_missing"),
        (gone(), Kind.CREATE, {"found": (EFFECT,)}, "stale_state", "stale_state"),
        (gone(), Kind.CREATE, {"lookup": LANDED}, "no_op_failure", "no_op_failure"),
        (judged(VIOLATED, version=2), Kind.SET, DEAD_CHANGED, "value_mismatch", "value_mismatch"),
        (judged(VIOLATED, version=1, stamp=STAMP), Kind.SET, {"before": BEFORE}, "value_mismatch", "value_mismatch"),
        (judged(VIOLATED, version=1), Kind.SET, {"before": BEFORE}, "no_op_failure", "no_op_failure"),
        (judged(VIOLATED, version=1), Kind.SET, {"before": FAULTY_BEFORE}, "value_mismatch", "value_mismatch"),
        (judged(VIOLATED, version=1, stamp="x"), Kind.SET, {"before": BEFORE}, "no_op_failure", "no_op_failure"),
        (judged(VIOLATED), Kind.DELETE, {}, "no_op_failure", "no_op_failure"),
        (judged(VIOLATED, stamp="x"), Kind.DELETE, {}, "stale_state", "stale_state"),
        (judged(VIOLATED, stamp="x"), Kind.APPEND, {}, "no_op_failure", "no_op_failure"),
        (judged(VIOLATED, stamp="x"), Kind.ADJUST, {}, "no_op_failure", "no_op_failure"),
        (judged(VIOLATED, stamp="x"), Kind.SEND, {}, "stale_state", "stale_state"),
        (judged(VIOLATED, stamp="x"), Kind.APPEND, {"found": (EFFECT,)}, "stale_state", "stale_state"),
    ],
)  # fmt: skip
def test_what_is_violated_has_its_finding_and_class(
    reading: EvaluatedReading, kind: Kind, known: dict[str, object], finding: str, discrepancy: str
) -> None:
    seen = result(reading, of=contract(kind), **known)  # type: ignore[arg-type]
    assert seen.verdict is REFUTED
    assert (seen.finding.value, seen.discrepancy.value if seen.discrepancy else "") == (finding, discrepancy)
    assert seen.effect_shown is (reading.taken.reading.stamp == STAMP)


def test_what_is_known_elsewhere_does_not_make_an_absent_object_ours() -> None:
    for known in ({"lookup": LANDED}, {"found": (EFFECT,)}):
        seen = result(gone(), of=contract(Kind.CREATE), **known)
        assert (seen.attribution, seen.effect_shown) == (WHOSE, False)


def test_parts_are_those_of_a_present_object_with_several_groups() -> None:
    half = judged(HOLDS, VIOLATED, groups=("a", "b"), stamp=STAMP)
    assert result(half, of=BOTH).parts_done == ("a",)
    assert result(judged(HOLDS, VIOLATED, groups=("a", "a"), stamp=STAMP), of=ONE_GROUP).parts_open == ()
    missing = gone(HOLDS, VIOLATED, groups=("a", "b"))
    seen = result(missing, of=BOTH)
    assert (seen.parts_done, seen.parts_open, seen.finding) == ((), (), Finding.TARGET_MISSING)
