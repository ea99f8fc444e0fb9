"""How the trips are counted: from what stands in the books and from what was told, and from nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readback.demo.contracts_trip import WANTED
from readback.demo.naive import Claim, Told
from readback.demo.systems.rules import TRADES
from readback.demo.systems.truth import Entry, TripBooks
from readback.demo.tally import Ending, Totals, count_trips
from readback.demo.trips import CASES

COST = {"flights": 240, "hotel": 315, "car": 99, "payments": 654, "tickets": 0}


def entry(book: str, **changes: object) -> Entry:
    made = Entry(book, f"{book}-1", WANTED.get(book, ""), COST[book], True, f"s-{book}", ())
    return replace(made, **changes)  # type: ignore[arg-type]


def books(*entries: Entry) -> TripBooks:
    return TripBooks("rome", entries)


WHOLE = books(*(entry(book) for book in TRADES))
EMPTY = books()
UNDONE = books(*(entry(book, live=False, undone_stamps=("u",)) for book in ("flights", "hotel", "car")))
LORRY = books(*(entry(book, **({"what": "a lorry"} if book == "car" else {})) for book in TRADES))
UNPAID = books(*(entry(book) for book in TRADES if book != "payments"))
CHEAP = books(*(entry(book, **({"cents": 1} if book == "payments" else {})) for book in TRADES))
TWICE = books(*WHOLE.entries, entry("payments", id="payments-2"))


@pytest.mark.parametrize(
    ("claim", "found", "false", "missed", "doubled"),
    [
        (Claim.DONE, WHOLE, False, False, 0),
        (Claim.DONE, EMPTY, True, False, 0),
        (Claim.DONE, LORRY, True, False, 0),
        (Claim.DONE, UNPAID, True, False, 0),
        (Claim.DONE, CHEAP, True, False, 0),
        (Claim.DONE, TWICE, True, False, 1),
        (Claim.FAILED, EMPTY, False, False, 0),
        (Claim.FAILED, UNDONE, False, False, 0),
        (Claim.FAILED, WHOLE, True, True, 0),
        (Claim.FAILED, books(entry("flights")), True, False, 0),
        (Claim.REVERSED, UNDONE, False, False, 0),
        (Claim.REVERSED, books(*UNDONE.entries, entry("payments")), True, False, 0),
        (Claim.REVERSED, books(entry("car", live=False, undone_stamps=("u", "v"))), False, False, 1),
        (Claim.OPEN, WHOLE, False, True, 0),
        (Claim.OPEN, UNPAID, False, False, 0),
    ],
)
def test_what_is_told_is_held_against_what_stands(
    claim: Claim, found: TripBooks, false: bool, missed: bool, doubled: int
) -> None:
    ending = Ending(Told(claim, "so it is"), found)
    assert (ending.false, ending.missed, ending.doubled) == (false, missed, doubled)


@pytest.mark.parametrize(
    ("found", "words"),
    [(WHOLE, "all five"), (EMPTY, "nothing"), (UNDONE, "nothing"), (UNPAID, "flights, hotel, car, tickets"),
     (LORRY, "flights, hotel, car, payments, tickets, but a lorry"),
     (TWICE, "flights, hotel, car, 2 payments, tickets")],
)  # fmt: skip
def test_what_stands_is_said_in_a_few_words(found: TripBooks, words: str) -> None:
    assert Ending(Told(Claim.OPEN, ""), found).stands == words


def test_the_totals_are_those_of_the_rows() -> None:
    done, lied = Ending(Told(Claim.DONE, ""), WHOLE), Ending(Told(Claim.DONE, ""), LORRY)
    left = Ending(Told(Claim.OPEN, ""), UNPAID)
    assert count_trips([lied, done, lied], [done, lied, left]) == Totals(
        number=3, naive_false=2, readback_false=1, missed=0, left_standing=2, unsettled=1, naive_min=6
    )


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"naive_false": 5}, False),
        ({"readback_false": 1}, False),
        ({"doubled": 1}, False),
        ({"left_standing": 1}, False),
        ({"missed": 1}, False),
        ({"unsettled": 1}, False),
    ],
)
def test_the_demo_fails_unless_every_count_of_the_trips_is_as_promised(change: dict[str, int], good: bool) -> None:
    assert replace(Totals(10, 7, 0, 0, naive_min=6), **change).good is good


def test_each_step_is_spoiled_and_each_side_of_the_pivot() -> None:
    spoiled = {each.match["book"] for case in CASES for each in case.spoiled}
    assert spoiled == set(TRADES)
    assert {case.where for case in CASES} == {"", "before the pivot", "at the pivot", "after the pivot"}
    assert len({case.trip for case in CASES}) == len(CASES)
