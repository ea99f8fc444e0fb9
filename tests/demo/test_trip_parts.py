"""The trip's contracts against real providers, step by step; the naive traveller beside them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from readback import Outcome, Proposal, Readback, State
from readback.demo import contracts_trip as trips
from readback.demo.contracts_trip import WANTED
from readback.demo.desk import Desk, desk
from readback.demo.naive import TRIP_STEPS, Claim, NaiveAgent, naive_client
from readback.demo.systems.launch import Systems
from readback.demo.systems.rules import TRADES
from readback.demo.trips import CASES, Case
from readback.domain.side_effect import SideEffect
from readback.domain.verdict import Attribution
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore

BOOKS = tuple(TRADES)


@pytest.fixture(scope="module")
def running() -> Iterator[Systems]:
    with Systems(only=["trip"]) as systems:
        desk.open_trip(systems.trip_url, systems.trip_records_url, systems.trip_db)
        yield systems
        desk.close()


@pytest.fixture
def rb(request: pytest.FixtureRequest) -> Iterator[Readback]:
    """On a clock of its own: nothing here lands late, so that no window has to be waited for. One seed a test, since
    the stamps follow from it.
    """
    runtime = VirtualRuntime(zlib.crc32(request.node.name.encode()))
    with Readback.open(tenant="acme", principal="agent:desk", runtime=runtime, store=MemoryStore()) as opened:
        yield opened


def proposal(book: str, trip: str) -> Proposal:
    match book:
        case "flights":
            return trips.hold_seat(trip=trip, what=WANTED["flights"])
        case "hotel":
            return trips.book_hotel(trip=trip, what=WANTED["hotel"])
        case "car":
            return trips.reserve_car(trip=trip, what=WANTED["car"])
        case "payments":
            return trips.charge_trip(trip=trip, flight_cents=24_000, hotel_cents=31_500, car_cents=9_900)
        case _:
            return trips.issue_tickets(trip=trip, seat="fl-1", charge="pa-1")


def go(systems: Systems, rb: Readback, book: str, fault: str, **params: Any) -> tuple[Outcome, str]:
    trip = f"{fault}-{book}"
    systems.fault(fault, system="trip", match={"book": book, "trip": trip, "op": "make"}, **params)
    return rb.run(proposal(book, trip), operation=trip), trip


def test_there_is_one_step_and_one_way_back_for_each_book_but_the_last() -> None:
    assert tuple(TRADES) == tuple(TRIP_STEPS)
    classes = [action.contract.side_effect for action in trips.BY_STEP.values()]
    medium, high = SideEffect.MEDIUM_RISK_WRITE, SideEffect.HIGH_RISK_EXTERNAL
    assert classes == [medium, medium, medium, high, medium]
    for book, action in zip(TRADES, trips.BY_STEP.values(), strict=True):
        assert action.contract.execution.honours_key is TRADES[book].honours_key, "what is promised is what is so"


@pytest.mark.parametrize("book", BOOKS)
def test_an_effect_whose_reply_was_lost_is_found_by_its_stamp(systems: Systems, rb: Readback, book: str) -> None:
    outcome, trip = go(systems, rb, book, "lost_reply")
    assert (outcome.state, outcome.attribution) == (State.RECONCILED_SUCCESS, Attribution.OURS)
    assert [entry.made_stamp for entry in systems.trip_truth(trip).live(book)] == [outcome.stamp]


@pytest.mark.parametrize("book", ["flights", "hotel", "car"])
@pytest.mark.parametrize("fault", ["refuse", "silent_noop", "lost_before"])
def test_a_hold_that_never_was_is_failed_and_asked_for_once(
    systems: Systems, rb: Readback, book: str, fault: str
) -> None:
    """The search has found an earlier hold by its stamp: that it finds none of this one shows that there is none."""
    assert rb.run(proposal(book, f"before-{fault}"), operation=f"before-{fault}").verified
    outcome, trip = go(systems, rb, book, fault, times=-1)
    assert (outcome.state, outcome.attempts, outcome.may_repeat) == (State.FAILED, 1, True)
    assert systems.trip_truth(trip).clear


@pytest.mark.parametrize("book", ["flights", "hotel", "car"])
def test_a_hold_that_says_it_was_made_is_a_persons_to_judge_while_the_search_has_found_nothing_yet(
    systems: Systems, rb: Readback, book: str
) -> None:
    systems.fault("silent_noop", system="trip", match={"book": book, "trip": f"unproven-{book}", "op": "make"})
    outcome = rb.run(proposal(book, f"unproven-{book}"), operation=f"unproven-{book}")
    assert (outcome.state, outcome.attempts, outcome.may_repeat) == (State.REVIEW_REQUIRED, 1, False)


@pytest.mark.parametrize(("book", "attempts"), [("tickets", 2), ("payments", 2), ("flights", 1)])
def test_a_lost_request_is_sent_again_by_itself_where_the_key_is_honoured(
    systems: Systems, rb: Readback, book: str, attempts: int
) -> None:
    outcome, trip = go(systems, rb, book, "refuse", code=503)
    assert (outcome.verified, outcome.attempts) == (attempts == 2, attempts)
    assert systems.trip_truth(trip).made(book) == attempts - 1


@pytest.mark.parametrize("book", ["flights", "hotel", "car"])
def test_a_hold_of_another_thing_is_taken_back_and_that_is_verified(systems: Systems, rb: Readback, book: str) -> None:
    outcome, trip = go(systems, rb, book, "wrong_value", set={"what": "something else"})
    assert outcome.state is State.COMPENSATED
    truth = systems.trip_truth(trip)
    assert (truth.clear, truth.made(book), truth.undone(book)) == (True, 1, 1)


@pytest.mark.parametrize("times", [1, -1])
def test_a_compensation_that_only_says_that_it_worked_is_not_sent_again_blindly_and_never_told_as_one(
    systems: Systems, rb: Readback, times: int
) -> None:
    match = {"book": "hotel", "trip": f"cupboard{times}", "op": "cancel"}
    systems.fault("silent_noop", system="trip", match=match, times=times)
    systems.fault("wrong_value", system="trip", match={**match, "op": "make"}, set={"what": "a cupboard"})
    outcome = rb.run(proposal("hotel", match["trip"]), operation=match["trip"])
    assert (outcome.state, outcome.review) == (State.REVIEW_REQUIRED, "compensation_failed")
    truth = systems.trip_truth(match["trip"])
    assert (truth.made("hotel"), truth.undone("hotel")) == (1, 0)


@pytest.mark.parametrize("book", BOOKS)
def test_a_second_effect_of_one_step_is_never_told_as_done(systems: Systems, rb: Readback, book: str) -> None:
    outcome, trip = go(systems, rb, book, "duplicate")
    assert (outcome.state, outcome.review) == (State.REVIEW_REQUIRED, "duplicate_side_effect")
    assert systems.trip_truth(trip).repeated == 1


def test_a_wrong_amount_is_not_told_as_charged(systems: Systems, rb: Readback) -> None:
    outcome, _ = go(systems, rb, "payments", "wrong_value", set={"cents": 654_000})
    assert outcome.state is State.REVIEW_REQUIRED


# --- the naive traveller ----------------------------------------------------------------------------------------


def naive_end(systems: Systems, case: Case) -> tuple[Claim, str]:
    for each in case.spoiled:
        each.order(systems, trip=f"n-{case.trip}")
    with naive_client(systems.trip_url) as client:
        told = NaiveAgent(client).book(f"n-{case.trip}", WANTED)
    return told.claim, systems.trip_truth(f"n-{case.trip}").as_text()


ALL = "flights, hotel, car, payments, tickets"


@pytest.mark.parametrize(
    ("trip", "claim", "stands"),
    [
        ("lisbon", Claim.DONE, ALL),
        ("bergen", Claim.FAILED, "nothing"),
        ("graz", Claim.DONE, "flights, car, payments, tickets"),
        ("porto", Claim.DONE, ALL),
        ("turin", Claim.FAILED, "flights, 2 hotel, car"),
        ("malmo", Claim.FAILED, "flights, hotel, car"),
        ("cork", Claim.DONE, "flights, hotel, car, 2 payments, tickets"),
        ("riga", Claim.FAILED, "flights, hotel, car, payments"),
        ("split", Claim.DONE, "flights, hotel, car, payments, 2 tickets"),
    ],
)
def test_the_naive_traveller_believes_replies_and_takes_nothing_back(
    systems: Systems, trip: str, claim: Claim, stands: str
) -> None:
    (case,) = [each for each in CASES if each.trip == trip]
    assert naive_end(systems, case) == (claim, stands)


# --- the desk's notes -------------------------------------------------------------------------------------------


def test_a_desk_that_is_closed_notes_nothing_so_that_no_tool_fails_over_it(tmp_path: Path) -> None:
    """The notes lie beside the systems, and are gone with them."""
    nowhere = ("127.0.0.1", 1)
    desk = Desk()
    desk.open(
        orders_url="http://127.0.0.1:1", orders_db="", smtp=nowhere, imap=nowhere, mailboxes=(), mail_password="",
        work=str(tmp_path), overheard=str(tmp_path / "gone/notes"),
    )  # fmt: skip
    assert desk.overheard == tmp_path / "gone/notes"
    desk.close()
    assert desk.overheard == Path()
