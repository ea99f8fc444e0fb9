"""Readings and look-ups: what authors write down, and what of it may count for anything."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from readback.domain.kind import Kind
from readback.domain.side_effect import Consistency, Independence
from readback.domain.verification.reading import Fault, Lookup, Presence, Reading, Role, TakenReading
from readback.errors import ReadbackError


def taken(reading: Reading, consistency: Consistency = Consistency.STRONG, **more: Any) -> TakenReading:
    return TakenReading(Role.CHECK, "ledger", "bank", consistency, Independence.OTHER_CLIENT, reading, 10, 20, **more)


def test_a_reading_says_no_more_than_it_was_told() -> None:
    reading = Reading.of({"cents": 7})
    assert reading == Reading(Presence.PRESENT, {"cents": 7})
    assert (reading.version, reading.as_of_us, reading.stamp, reading.author) == (None, None, None, None)
    assert reading.created_after_dispatch is False
    assert reading.commit_token_honoured is False
    assert reading.complete is True
    assert reading.consistency is None
    assert reading.detail == ""


def test_everything_that_a_source_says_is_kept_in_its_place() -> None:
    reading = Reading.of(
        {"cents": 7},
        version=3,
        as_of_us=1_000,
        stamp="rb-1",
        author="agent",
        created_after_dispatch=True,
        commit_token_honoured=True,
        complete=False,
        consistency="replica",
    )
    assert (reading.value, reading.version, reading.as_of_us) == ({"cents": 7}, 3, 1_000)
    assert (reading.stamp, reading.author) == ("rb-1", "agent")
    assert reading.created_after_dispatch is True
    assert reading.commit_token_honoured is True
    assert reading.complete is False
    assert reading.consistency is Consistency.REPLICA


def test_absent_hidden_and_unavailable_are_three_things() -> None:
    assert Reading.absent() == Reading(Presence.ABSENT, complete=True)
    assert Reading.absent(complete=False).complete is False
    assert Reading.absent(consistency="cached").consistency is Consistency.CACHED
    assert Reading.not_visible("404") == Reading(Presence.NOT_VISIBLE, detail="404")
    assert Reading.unavailable("503") == Reading(Presence.UNAVAILABLE, detail="503")


def test_a_consistency_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="quite_strong"):
        Reading.of({}, consistency="quite_strong")
    with pytest.raises(ValueError, match="quite_strong"):
        Reading.absent(consistency="quite_strong")


def test_what_cannot_be_written_down_exactly_is_refused() -> None:
    with pytest.raises(ReadbackError):
        Reading.of({"amount": object()})
    with pytest.raises(ReadbackError):
        Lookup.landed(object())


def test_a_reader_that_did_not_run_or_got_no_answer_counts_for_nothing() -> None:
    for fault, presence in product(Fault, Presence):
        ran = taken(Reading(presence), fault=fault).ran
        assert ran == (fault is Fault.NONE and presence is not Presence.UNAVAILABLE)
    assert taken(Reading.of({})).ran is True
    assert taken(Reading.of({})).error == ""


def test_a_reading_is_strong_where_its_source_is_read_strongly() -> None:
    for consistency in Consistency:
        assert taken(Reading.of({}), consistency).strong is (consistency is Consistency.STRONG)


def test_absence_is_believed_only_from_a_strong_and_complete_reading_that_ran() -> None:
    for presence, complete, consistency, fault in product(Presence, (True, False), Consistency, Fault):
        one = taken(Reading(presence, complete=complete), consistency, fault=fault)
        believed = presence is Presence.ABSENT and complete and consistency is Consistency.STRONG
        assert one.believable_absence == (believed and fault is Fault.NONE)


def test_a_look_up_by_key_has_four_answers() -> None:
    assert Lookup.landed({"id": 1}) == Lookup("landed", {"id": 1})
    assert Lookup.landed() == Lookup("landed", None)
    assert Lookup.failed("declined") == Lookup("failed", None, "declined")
    assert Lookup.pending() == Lookup("pending")
    assert Lookup.unknown_key() == Lookup("unknown_key")
    assert Lookup("pending").detail == ""


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.value)
def test_a_kind_decides_what_a_proof_is(kind: Kind) -> None:
    makes_something = kind in (Kind.CREATE, Kind.APPEND, Kind.ADJUST, Kind.SEND)
    assert kind.needs_ours is makes_something
    assert kind.counts_effects is makes_something
    assert kind.mutates is (kind is not Kind.READ)
    assert kind.compares_before is (kind in (Kind.SET, Kind.DELETE))


def test_a_number_that_is_itself_a_final_word_is_not_taken_for_its_digits() -> None:
    assert Lookup.by_word(1, landed=["1"], failed=[1]).status == "failed"
    assert Lookup.by_word(1, landed=["1"], failed=["2"]).status == "landed"
    assert Lookup.by_word(2, landed=[1], failed=["2"]).status == "failed"
    assert Lookup.by_word(True, landed=["True", "1"], failed=["0"]).status == "pending"
