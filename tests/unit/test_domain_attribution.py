"""Whose doing a state is, what a single reading says of itself, and what counts as a change: case by case."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from readback.canon import Json
from readback.domain.finding import Finding
from readback.domain.predicate import Truth
from readback.domain.verdict import Attribution, Level, Verdict, Why
from readback.domain.verification.attribution import (
    attribute,
    bears_other_mark,
    bears_stamp,
    effect_known,
    found_here,
    found_otherwise,
    has_changed,
    is_effect,
    landed_unseen,
    looked_elsewhere,
    may_have_held,
)
from readback.domain.verification.change import REDACTED, changed, differences
from readback.domain.verification.observation import ObservationStatus
from readback.domain.verification.reading import Fault, Lookup, Presence, Role
from readback.domain.verification.reconciliation import (
    SCOPE_KEYS,
    Case,
    EvaluatedReading,
    IdentityMatch,
    Reconciliation,
    unexecuted,
)
from tests.unit.cases_given import (
    BEFORE,
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
    judged,
    mark,
    observed,
)

S = ObservationStatus
MARK: Json = {REDACTED: True}


def test_a_reading_bears_our_stamp_by_its_own_word_or_by_a_mapped_field() -> None:
    assert bears_stamp(case(), judged(HOLDS, stamp=STAMP))
    assert bears_stamp(case(), judged(HOLDS, marks=(mark("stamp", HOLDS),)))
    for other in (
        judged(HOLDS),
        judged(HOLDS, stamp="rb-other"),
        judged(HOLDS, marks=(mark("stamp", VIOLATED),)),
        judged(HOLDS, marks=(mark("stamp", UNTOLD),)),
        judged(HOLDS, marks=(mark("actor", HOLDS),)),
    ):
        assert not bears_stamp(case(), other)


def test_an_effect_is_what_a_reader_that_ran_shows() -> None:
    for presence, fault in product(Presence, Fault):
        shown = presence is Presence.PRESENT and fault is Fault.NONE
        assert is_effect(judged(presence=presence, fault=fault)) is shown


def test_another_mark_is_a_stamp_or_an_actor_that_is_not_ours() -> None:
    assert bears_other_mark(judged(HOLDS, stamp="rb-other"))
    assert bears_other_mark(judged(HOLDS, marks=(mark("stamp", VIOLATED, "rb-other"),)))
    assert bears_other_mark(judged(HOLDS, marks=(mark("actor", VIOLATED),)))
    assert not bears_other_mark(judged(HOLDS))
    assert not bears_other_mark(judged(HOLDS, marks=(mark("stamp", UNTOLD, None),)))
    assert not bears_other_mark(judged(HOLDS, marks=(mark("actor", UNTOLD, None),)))
    assert not bears_other_mark(judged(HOLDS, marks=(mark("actor", HOLDS),)))


def test_an_effect_is_known_by_a_search_in_scope_or_by_the_keys_record() -> None:
    assert not effect_known(case())
    assert not effect_known(case(found=()))
    assert not effect_known(case(lookup=PENDING))
    assert effect_known(case(lookup=LANDED))
    assert effect_known(case(found=(judged(HOLDS),)))
    assert found_here(case(found=(gone(), judged(HOLDS))))
    assert not found_here(case(found=(gone(), judged(HOLDS, scope=UNTOLD), judged(HOLDS, scope=VIOLATED))))
    assert not found_here(case(found=(judged(HOLDS, fault=Fault.TIMEOUT),), lookup=LANDED))


@pytest.mark.parametrize(
    ("status", "found", "lookup", "looked"),
    [
        (S.SUCCESS, None, None, False),
        (S.ERROR, None, None, True),
        (S.NOT_DISPATCHED, None, None, True),
        (S.TIMEOUT, None, None, False),
        (S.SUCCESS, (), None, True),
        (S.SUCCESS, (gone(),), None, True),
        (S.ERROR, (judged(HOLDS),), None, False),
        (S.ERROR, (gone(), judged(HOLDS)), Lookup.failed(), False),
        (S.SUCCESS, None, Lookup.failed(), True),
        (S.ERROR, (), Lookup.landed(), False),
        (S.ERROR, None, Lookup.pending(), True),
        (S.SUCCESS, None, Lookup.pending(), False),
        (S.SUCCESS, (), Lookup.unknown_key(), True),
        (S.SUCCESS, None, Lookup.unknown_key(), False),
        (S.TIMEOUT, None, Lookup.unknown_key(), False),
    ],
)
def test_elsewhere_was_looked_where_a_search_a_record_or_the_tool_says_that_there_is_none(
    status: ObservationStatus, found: tuple[EvaluatedReading, ...] | None, lookup: Lookup | None, looked: bool
) -> None:
    assert looked_elsewhere(observed(status), found, lookup, proven=True) is looked


@pytest.mark.requirement("KEY-absence-frees-nothing")
@pytest.mark.parametrize("found", [(), (gone(),)])
def test_an_empty_answer_of_an_unproven_search_looked_nowhere(found: tuple[EvaluatedReading, ...]) -> None:
    for status in S:
        silent = status in (S.ERROR, S.NOT_DISPATCHED)
        assert looked_elsewhere(observed(status), found, None, searchable=True) is silent
        assert looked_elsewhere(observed(status), found, None, searchable=True, proven=True)


def test_what_is_known_of_our_effect_claims_a_violated_state_only_where_nobody_else_signed_it_and_it_moved() -> None:
    ours = case(found=(judged(HOLDS),), before=BEFORE)
    moved = judged(VIOLATED, value={"id": "o-17", "status": "lost"})
    unmoved = judged(VIOLATED, value=OLD)
    theirs = judged(VIOLATED, value={"id": "o-17", "status": "lost"}, stamp="rb-other")
    for reading, violated, whose in (
        (moved, True, Attribution.OURS),
        (moved, False, Attribution.OURS),
        (unmoved, True, Attribution.UNKNOWN),
        (unmoved, False, Attribution.OURS),
        (theirs, True, Attribution.OTHER_ACTOR),
        (theirs, False, Attribution.OURS),
    ):
        assert attribute(ours, reading, violated=violated) is whose
    assert attribute(ours, unmoved) is Attribution.OURS


def test_a_state_was_already_so_only_where_everything_held_before() -> None:
    reading = judged(HOLDS, HOLDS)
    for truths, whose in (
        ((HOLDS, HOLDS), Attribution.ALREADY_SO),
        ((HOLDS, VIOLATED), Attribution.UNKNOWN),
        ((UNTOLD, HOLDS), Attribution.UNKNOWN),
        ((), Attribution.UNKNOWN),
    ):
        assert attribute(case(before=judged(*truths)), reading) is whose
    unread = judged(HOLDS, HOLDS, fault=Fault.TIMEOUT)
    assert attribute(case(before=unread), reading) is Attribution.UNKNOWN


def test_an_actor_of_ours_proves_it_only_against_what_was_before() -> None:
    signed = judged(HOLDS, marks=(mark("actor", HOLDS),))
    assert attribute(case(before=BEFORE), signed) is Attribution.OURS
    assert attribute(case(), signed) is Attribution.UNKNOWN
    assert attribute(case(before=BEFORE), judged(HOLDS, marks=(mark("actor", UNTOLD),))) is Attribution.UNKNOWN


def test_a_change_is_another_presence_another_version_or_another_value() -> None:
    there, absent = judged(value=STATE), gone()
    assert has_changed(there, absent)
    assert has_changed(replace(absent, taken=judged(presence=Presence.NOT_VISIBLE).taken), absent)
    assert has_changed(judged(presence=Presence.NOT_VISIBLE, version=1), gone(version=1))
    assert has_changed(judged(value=STATE, version=1), judged(value=STATE, version=2))
    assert not has_changed(judged(value=STATE, version=1), judged(value=OLD, version=1))
    for one, other in ((None, 2), (1, None), (None, None)):
        assert not has_changed(judged(value=STATE, version=one), judged(value=STATE, version=other))
        assert has_changed(judged(value=OLD, version=one), judged(value=STATE, version=other))


# --- a single reading ---


def test_five_identity_keys_make_the_scope() -> None:
    assert {"target", "tenant", "region", "account", "permission_scope"} == SCOPE_KEYS


@pytest.mark.parametrize("key", ["target", "tenant", "region", "account", "permission_scope", "actor", "stamp"])
def test_a_reading_is_in_scope_where_every_key_of_the_scope_holds(key: str) -> None:
    for truth in Truth:
        one = replace(judged(HOLDS), identity=(mark(key, truth),))
        assert one.in_scope is (truth if key in SCOPE_KEYS else HOLDS)
    both = replace(judged(HOLDS), identity=(mark("target", VIOLATED), mark("tenant", UNTOLD)))
    assert both.in_scope is VIOLATED
    assert replace(judged(HOLDS), identity=()).in_scope is HOLDS


def test_a_version_is_the_readings_own_or_the_mapped_one() -> None:
    mapped = (mark("version", UNTOLD, 7), mark("actor", HOLDS, 9))
    assert judged(HOLDS, version=0, marks=mapped).version == 0
    assert judged(HOLDS, marks=mapped).version == 7
    assert judged(HOLDS).version is None


def test_the_first_match_of_a_key_is_the_one() -> None:
    one, other = mark("actor", HOLDS), mark("actor", VIOLATED)
    assert judged(HOLDS, marks=(one, other)).match("actor") is one
    assert judged(HOLDS).match("actor") is None


def test_nothing_is_known_of_a_case_unless_it_is_said() -> None:
    bare = Case(contract(), STAMP, observed(), ())
    assert (bare.before, bare.found, bare.lookup) == (None, None, None)
    assert (bare.window_closed, bare.stable, bare.dead, bare.look_due) == (False, True, False, False)
    reading = EvaluatedReading(judged(HOLDS).taken)
    assert (reading.identity, reading.ensure, reading.terminal_failure) == ((), (), False)


def test_a_judgement_alleges_nothing_by_itself() -> None:
    bare = Reconciliation(Verdict.UNDETERMINED, Why.STALE, Finding.UNKNOWN)
    assert (bare.discrepancy, bare.attribution, bare.effect_shown) == (None, Attribution.UNKNOWN, False)
    assert (bare.level, bare.maybe_stale, bare.deciding) == (Level.NORMALISED, False, 0)
    for verdict in Verdict:
        assert replace(bare, verdict=verdict).open is (verdict is Verdict.UNDETERMINED)


def test_only_what_was_provably_never_called_is_unexecuted() -> None:
    for status, dispatched in product(ObservationStatus, (False, True)):
        seen = replace(observed(status), dispatched=dispatched)
        assert unexecuted(seen) is (status is S.NOT_DISPATCHED and not dispatched)


# --- a change ---


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([1], [{"b": 1}]),
        ([{"b": 1}], [1]),
        ([{"id": 1}], [{"id": 1, "x": 2}]),
        ([[1]], [1]),
        ([1], [[1]]),
        ([[MARK, MARK]], ["ab"]),
        ([{"a": MARK}], [{"b": 1}]),
        (1, True),
        ([MARK], [1, 2]),
    ],
)
def test_lists_and_numbers_of_another_shape_differ(old: Json, new: Json) -> None:
    assert list(differences({"a": old}, {"a": new})) == [("a",)]
    assert list(differences({"a": old}, {"a": old})) == []


def test_a_mark_is_an_object_with_one_reserved_key() -> None:
    assert REDACTED == "$redacted"
    assert not changed({"a": [{"pin": MARK}, 2]}, {"a": [{"pin": "1"}, 2]})
    assert changed({"a": [{"pin": MARK}, 2]}, {"a": [{"pin": "1"}, 3]})


def test_an_identity_that_is_not_said_is_null() -> None:
    assert IdentityMatch("target", UNTOLD, "o-17", None).actual is None


def test_ours_is_otherwise_where_the_search_shows_it_in_its_place_and_wrong_and_nothing_else_of_ours_right() -> None:
    wrong, right, untold = (judged(truth, stamp=STAMP, role=Role.FIND) for truth in (VIOLATED, HOLDS, UNTOLD))
    seen = judged(HOLDS)
    assert found_otherwise(case(found=(wrong,)), seen)
    assert found_otherwise(case(found=(wrong, untold)), seen)
    for found in (
        (),
        (right,),
        (untold,),
        (wrong, right),
        (replace(wrong, ensure=()),),
        (judged(VIOLATED, scope=VIOLATED, stamp=STAMP, role=Role.FIND),),
        (judged(VIOLATED, fault=Fault.TIMEOUT, stamp=STAMP, role=Role.FIND),),
        (judged(VIOLATED, presence=Presence.ABSENT, stamp=STAMP, role=Role.FIND),),
    ):
        assert not found_otherwise(case(found=found), seen), found
    assert not found_otherwise(case(), seen)
    assert not found_otherwise(case(found=(wrong,)), judged(HOLDS, stamp=STAMP))


def test_what_landed_is_unseen_where_another_mark_is_read_and_nothing_of_ours_was_found() -> None:
    other = judged(HOLDS, stamp="rb-other")
    assert landed_unseen(case(lookup=LANDED), other)
    assert landed_unseen(case(lookup=LANDED, found=()), other)
    for known in (case(), case(lookup=PENDING), case(lookup=LANDED, found=(judged(HOLDS, role=Role.FIND),))):
        assert not landed_unseen(known, other)
    for seen in (judged(HOLDS), judged(HOLDS, stamp=STAMP)):
        assert not landed_unseen(case(lookup=LANDED), seen)
    ours_too = judged(HOLDS, stamp=STAMP, marks=(mark("actor", VIOLATED),))
    assert bears_other_mark(ours_too)
    assert not landed_unseen(case(lookup=LANDED), ours_too)


def test_it_may_have_held_before_where_nothing_moved_and_that_could_not_be_told() -> None:
    now = judged(HOLDS, version=1)
    assert may_have_held(case(before=judged(UNTOLD, version=1)), now)
    assert may_have_held(case(before=judged(UNTOLD, HOLDS, version=1)), now)
    for before in (
        None,
        judged(HOLDS, version=1),
        judged(VIOLATED, UNTOLD, version=1),
        judged(version=1),
        judged(UNTOLD, version=0),
        judged(UNTOLD, version=1, fault=Fault.UNREACHABLE),
    ):
        assert not may_have_held(case(before=before), now)
