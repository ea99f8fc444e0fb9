"""Claims of a saga's steps: each relies on those before it, and what was taken back holds no more, whoever died."""

from __future__ import annotations

import contextlib

import pytest

from readback.domain.action.claim import ClaimKind, ClaimStatus
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.errors import NOT_STANDING, ClaimError
from readback.testing.driver_virtual import ProcessDied
from tests.lifecycle.claiming import claim, person, said, status
from tests.lifecycle.trip import TENANT, S, Trip

K, C = ClaimKind, ClaimStatus


@pytest.fixture
def trip() -> Trip:
    return Trip()


def step(trip: Trip, saga_id: str, name: str) -> Outcome:
    outcome = trip.get(saga_id).steps[name].outcome
    assert outcome is not None
    return outcome


@pytest.mark.requirement("CLAIM-relied-on")
def test_a_step_is_planned_upon_what_the_steps_before_it_left(trip: Trip) -> None:
    told = trip.run()
    assert told.verified
    car, flight, hotel = (step(trip, told.id, name) for name in ("car", "flight", "hotel"))
    for each in (flight, hotel):
        assert trip.store.dependants(TENANT, f"{each.id}:holds", 9) == [car.id]
    assert trip.store.dependants(TENANT, f"{flight.id}:happened", 9) == []
    trip.check()


@pytest.mark.requirement("CLAIM-dependants")
def test_what_falls_under_a_finished_saga_is_said_of_every_later_step(trip: Trip) -> None:
    told = trip.run()
    flight = step(trip, told.id, "flight")
    person(trip, flight.id, C.RETRACTED, K.HOLDS)
    found = claim(trip, flight.id, K.HOLDS).said
    assert found is not None
    named = {step(trip, told.id, name).id for name in ("car", "charge", "ticket")}
    assert set(found.dependants) == named
    for name in ("car", "charge", "ticket"):
        assert step(trip, told.id, name).fallen == (f"{flight.id}:holds",)
    assert step(trip, told.id, "hotel").fallen == ()
    assert not trip.get(told.id).standing
    trip.check()


@pytest.mark.requirement("CLAIM-relied-on")
def test_a_step_whose_ground_fell_is_refused_and_the_saga_turns_back(trip: Trip) -> None:
    trip.world.faults["hotel"] = "late"
    told = trip.run(wait_s=20)
    flight = step(trip, told.id, "flight")
    assert flight.verified
    person(trip, flight.id, C.RETRACTED, K.HOLDS)
    calls = len(trip.world.calls)
    trip.work()
    ended = trip.get(told.id)
    assert ended.state in (State.COMPENSATED, State.REVIEW_REQUIRED)
    assert "car" not in trip.world.calls[calls:]
    car = ended.steps["car"].outcome
    assert car is None or car.code == NOT_STANDING


@pytest.mark.requirement("CLAIM-reversed")
def test_what_a_saga_took_back_holds_no_more_by_the_steps_own_entries(trip: Trip) -> None:
    trip.world.faults["charge"] = "refused"
    told = trip.run()
    trip.work()
    assert trip.get(told.id).state is State.COMPENSATED
    for name in ("flight", "hotel", "car"):
        each = step(trip, told.id, name)
        assert status(trip, each.id) == (C.STANDING, C.RETRACTED)
        assert said(trip.events(each.id)) == [("holds", "contested", "reversed"), ("holds", "retracted", "reversed")]
        assert trip.outcome(each.id).state is State.COMPENSATED
        assert not trip.outcome(each.id).standing
    assert status(trip, step(trip, told.id, "charge").id) == (C.NONE, C.NONE)
    trip.check()


@pytest.mark.requirement("CLAIM-reversed")
def test_a_reversal_that_failed_retracts_nothing(trip: Trip) -> None:
    trip.world.faults["charge"] = trip.world.undo_faults["hotel"] = "refused"
    told = trip.run()
    trip.work(2 * 86_400)
    hotel = step(trip, told.id, "hotel")
    assert status(trip, hotel.id) == (C.STANDING, C.STANDING)
    assert said(trip.events(hotel.id)) == []


@pytest.mark.requirement("CLAIM-reversed", "CLAIM-person")
def test_what_a_person_retracted_while_it_was_taken_back_is_never_reinstated() -> None:
    """His word came before the reversal was verified; from then on it is taken back, whatever he says."""
    trip = Trip(keyed=True)
    trip.world.faults["charge"] = "refused"
    told = trip.run()
    for life in range(1, 200):
        with contextlib.suppress(ProcessDied):
            trip.work(vanish_at=life)
        trip.die()
        if trip.get(told.id).steps["flight"].compensation is not None:
            break
    flight = step(trip, told.id, "flight")
    assert status(trip, flight.id) == (C.STANDING, C.STANDING), "the reversal has only begun"
    person(trip, flight.id, C.RETRACTED, K.HOLDS)
    trip.work()
    undo = trip.get(told.id).steps["flight"].compensation
    assert undo is not None
    assert undo.verified
    assert said(trip.events(flight.id))[-2:] == [("holds", "contested", "reversed"), ("holds", "retracted", "reversed")]
    with pytest.raises(ClaimError, match="reversal was verified"):
        person(trip, flight.id, C.REINSTATED, K.HOLDS)
    trip.check()


@pytest.mark.requirement("CLAIM-reversed")
@pytest.mark.slow
def test_wherever_the_process_dies_each_reversal_is_said_once_of_the_step_it_took_back() -> None:
    """A crash between the step's retraction and the saga's own entry leaves the reversal as news."""
    seen = 0
    for life in range(3, 400):
        trip = Trip(keyed=True)
        trip.world.faults["charge"] = "refused"
        trip.driver.vanish_at = life
        died = True
        try:
            trip.driver.drive(trip.begin(), trip.runtime.now_us() + 3600 * S)
            died = False
        except ProcessDied:
            trip.die()
        with contextlib.suppress(ProcessDied):
            trip.work()
        for saga_id in trip.saga_ids():
            ended = trip.get(saga_id)
            if ended.state is not State.COMPENSATED:
                continue
            for name in ("flight", "hotel", "car"):
                outcome = ended.steps[name].outcome
                if outcome is not None and ended.steps[name].compensation is not None:
                    entries = said(trip.events(outcome.id))
                    assert entries == [("holds", "contested", "reversed"), ("holds", "retracted", "reversed")], life
                    seen += 1
        trip.check()
        if not died:
            assert seen > life, "reversals were looked at all the way"
            return
    raise AssertionError("it never came to an end")
