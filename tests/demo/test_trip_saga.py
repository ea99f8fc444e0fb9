"""The trip's saga where it does not end by itself, or is stopped: on real providers, on a clock of its own."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from readback import Readback, SagaOutcome, State
from readback.demo.contracts_trip import BY_STEP, SAGA, operation, steps
from readback.demo.desk import desk
from readback.demo.systems.launch import Systems
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore


@pytest.fixture(scope="module")
def running() -> Iterator[Systems]:
    with Systems(only=["trip"]) as systems:
        desk.open_trip(systems.trip_url, systems.trip_records_url, systems.trip_db)
        yield systems
        desk.close()


@pytest.fixture
def rb(request: pytest.FixtureRequest) -> Iterator[Readback]:
    runtime = VirtualRuntime(zlib.crc32(request.node.name.encode()))
    actions = BY_STEP.values()
    store = MemoryStore()
    with Readback.open(tenant="acme", principal="agent:desk", actions=actions, runtime=runtime, store=store) as opened:
        yield opened


def book(rb: Readback, trip: str) -> SagaOutcome:
    return rb.saga(steps(trip), name=SAGA, operation=operation(trip))


def spoil(systems: Systems, trip: str, where: str, fault: str, op: str = "make", **params: Any) -> None:
    systems.fault(fault, system="trip", match={"trip": trip, "book": where, "op": op}, **params)


def words(outcome: SagaOutcome) -> dict[str, str]:
    return {name: step.word.value for name, step in outcome.steps.items()}


def test_tickets_that_never_come_are_asked_for_under_one_key_until_a_person_has_to_look(
    systems: Systems, rb: Readback
) -> None:
    """After the pivot nothing is taken back: what is paid for is a person's to decide on.

    The search has found the tickets of an earlier trip: that it finds none of these shows that there are none.
    """
    assert book(rb, "somewhere").verified
    spoil(systems, "nowhere", "tickets", "refuse", times=-1)
    outcome = book(rb, "nowhere")
    assert (outcome.state, outcome.verified, outcome.because) == (State.REVIEW_REQUIRED, False, "tickets")
    assert outcome.steps["tickets"].tries > 1
    assert systems.trip_truth("nowhere").as_text() == "flights, hotel, car, payments"
    assert "Completed and verified: flight, hotel, car, charge." in outcome.message


@pytest.mark.parametrize("step", ["flights", "hotel", "car"])
def test_a_compensation_that_never_works_is_never_told_as_done(systems: Systems, rb: Readback, step: str) -> None:
    trip = f"stuck-{step}"
    spoil(systems, trip, "payments", "refuse", times=-1, code=402)
    spoil(systems, trip, step, "silent_noop", "release" if step == "flights" else "cancel", times=-1)
    outcome = book(rb, trip)
    assert (outcome.state, outcome.review) == (State.REVIEW_REQUIRED, "compensation_failed")
    assert step in systems.trip_truth(trip).as_text()


UNDOING = (("flights", "release"), ("hotel", "cancel"), ("car", "cancel"))


@pytest.mark.parametrize(
    ("fault", "params"),
    [("refuse", {"code": 409}), ("refuse", {"code": 503}), ("lost_before", {}), ("lost_reply", {})],
)
def test_a_compensation_that_fails_once_or_loses_its_reply_is_verified_all_the_same(
    systems: Systems, rb: Readback, fault: str, params: dict[str, Any]
) -> None:
    """Taking back honours the key: what is lost, or is shown to have done nothing, is sent again under it."""
    trip = f"bumpy-{fault}-{params}"
    spoil(systems, trip, "payments", "refuse", times=-1, code=402)
    for where, undo in UNDOING:
        spoil(systems, trip, where, fault, undo, **params)
    outcome = book(rb, trip)
    assert outcome.state is State.COMPENSATED
    truth = systems.trip_truth(trip)
    assert (truth.clear, [truth.undone(each) for each in ("flights", "hotel", "car")]) == (True, [1, 1, 1])
    assert words(outcome) == {
        "flight": "reversed", "hotel": "reversed", "car": "reversed", "charge": "failed", "tickets": "not_begun"
    }  # fmt: skip


def test_a_wrong_amount_at_the_pivot_is_held_for_a_person_and_nothing_is_guessed(
    systems: Systems, rb: Readback
) -> None:
    spoil(systems, "dear", "payments", "wrong_value", set={"cents": 654_000})
    outcome = book(rb, "dear")
    assert (outcome.state, outcome.because) == (State.REVIEW_REQUIRED, "charge")
    assert systems.trip_truth("dear").as_text() == "flights, hotel, car, payments"


def test_a_second_charge_by_the_provider_is_never_told_as_a_booked_trip(systems: Systems, rb: Readback) -> None:
    spoil(systems, "double", "payments", "duplicate")
    outcome = book(rb, "double")
    assert outcome.state is State.REVIEW_REQUIRED
    assert systems.trip_truth("double").as_text() == "flights, hotel, car, 2 payments"


@pytest.mark.requirement("L08")
def test_a_trip_that_is_asked_for_again_is_answered_with_what_became_of_it(systems: Systems, rb: Readback) -> None:
    first, again = book(rb, "again"), book(rb, "again")
    assert (first.id, again.replayed, again.state) == (again.id, True, State.RECONCILED_SUCCESS)
    assert [systems.trip_truth("again").made(each) for each in ("flights", "payments", "tickets")] == [1, 1, 1]


def test_a_trip_that_is_cancelled_before_the_pivot_is_taken_back(systems: Systems, rb: Readback) -> None:
    spoil(systems, "changed", "hotel", "refuse", times=-1)
    begun = rb.saga(steps("changed"), name=SAGA, operation=operation("changed"), wait=0.0)
    assert not begun.settled
    rb.cancel(begun.id)
    ended = rb.wait(begun.id)
    assert ended.state is State.COMPENSATED
    assert systems.trip_truth("changed").clear
