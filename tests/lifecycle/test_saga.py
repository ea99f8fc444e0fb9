"""Sagas from end to end under virtual time: each step failing in each way, cancelled, held, retried, crashed."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from readback.domain.events import EventKind
from readback.domain.saga.outcome import StepWord
from readback.domain.state import State
from readback.errors import PayloadConflictError
from readback.testing.driver_virtual import Parked, ProcessDied
from tests.lifecycle.trip import DAY, S, Trip

pytestmark = pytest.mark.slow

BEFORE = ("flight", "hotel", "car")


@pytest.fixture
def trip() -> Trip:
    return Trip()


@pytest.mark.requirement("SAGA-references")
def test_every_step_is_verified_and_the_references_are_what_was_read(trip: Trip) -> None:
    told = trip.run()
    assert told.state is State.RECONCILED_SUCCESS
    assert told.verified
    assert trip.world.rows["car", "t-1"]["price"] == 50
    assert trip.world.calls == ["flight", "hotel", "car", "charge", "ticket"]
    trip.check()


@pytest.mark.requirement("STRATEGY-before-pivot", "SAGA-reverse-order", "REC-09")
@pytest.mark.parametrize("fault", ["refused", "vanished", "wrong"])
@pytest.mark.parametrize("name", BEFORE)
def test_a_failure_before_the_pivot_reverses_what_has_an_effect_the_last_first(
    trip: Trip, name: str, fault: str
) -> None:
    trip.world.faults[name] = fault
    told = trip.run()
    trip.work()
    told = trip.get(told.id)
    assert told.state in (State.COMPENSATED, State.FAILED)
    committed = [each for each in trip.world.landed if each != name]
    assert [each for each in trip.world.undone if each != name] == committed[::-1]
    assert "charge" not in trip.world.calls
    trip.check()


@pytest.mark.requirement("L07")
@pytest.mark.parametrize("name", [*BEFORE, "charge", "ticket"])
def test_a_reply_that_was_lost_after_the_effect_is_no_failure(trip: Trip, name: str) -> None:
    trip.world.faults[name] = "lost"
    told = trip.run()
    assert told.verified, told.message
    assert trip.world.calls.count(name) == 1
    trip.check()


@pytest.mark.parametrize("name", [*BEFORE, "charge", "ticket"])
def test_an_effect_that_lands_late_is_found(trip: Trip, name: str) -> None:
    trip.world.faults[name] = "late"
    told = trip.run()
    trip.work()
    assert trip.get(told.id).state is State.RECONCILED_SUCCESS
    trip.check()


@pytest.mark.requirement("STRATEGY-before-pivot")
@pytest.mark.parametrize("fault", ["refused", "vanished"])
def test_a_pivot_that_is_refuted_and_dead_turns_it_back(trip: Trip, fault: str) -> None:
    trip.world.faults["charge"] = fault
    told = trip.run()
    trip.work()
    told = trip.get(told.id)
    assert told.state is State.COMPENSATED
    assert sorted(trip.world.undone) == ["car", "flight", "hotel"]
    assert trip.world.undone[0] == "car"
    assert [told.steps[n].word for n in ("flight", "charge", "ticket")] == [
        StepWord.REVERSED,
        StepWord.FAILED,
        StepWord.NOT_BEGUN,
    ]
    trip.check()


@pytest.mark.requirement("STRATEGY-after-pivot", "STRATEGY-forward-recovery", "L06")
def test_after_the_pivot_a_step_is_tried_again_under_its_one_key(trip: Trip) -> None:
    trip.world.faults["ticket"] = "once"
    told = trip.run()
    trip.work()
    told = trip.get(told.id)
    assert told.state is State.RECONCILED_SUCCESS
    assert State.FORWARD_RECOVERY in trip.states(told.id) or trip.world.calls.count("ticket") == 2
    assert len(trip.world.keys["ticket"]) == 1
    assert trip.world.undone == []
    trip.check()


@pytest.mark.requirement("STRATEGY-forward-recovery", "SAGA-words", "REC-10")
def test_forward_recovery_ends_with_a_person_and_is_told_as_partial(trip: Trip) -> None:
    trip.world.faults["ticket"] = "refused"
    told = trip.run()
    trip.work(2 * DAY)
    told = trip.get(told.id)
    assert told.state is State.REVIEW_REQUIRED
    assert told.review
    assert trip.world.undone == []
    assert "partially completed; these parts remain unresolved: ticket." in told.message
    assert "Completed and verified: flight, hotel, car, charge." in told.message
    assert told.exit_code == 4


@pytest.mark.requirement("SAGA-operation")
def test_the_same_operation_is_answered_and_another_definition_refused(trip: Trip) -> None:
    first = trip.run()
    again = trip.run()
    assert (again.id, again.replayed) == (first.id, True)
    assert len(trip.world.calls) == 5
    with pytest.raises(PayloadConflictError):
        trip.run(trip.steps("t-2"))


@pytest.mark.requirement("SAGA-operation")
def test_another_pivot_is_another_definition_under_the_same_operation(trip: Trip) -> None:
    trip.load("charge")  # one that can be taken back, and so may stand before the pivot
    first = trip.run()
    moved = [replace(step, pivot=step.name == "ticket") for step in trip.steps()]
    with pytest.raises(PayloadConflictError):
        trip.run(moved)
    assert trip.saga_ids() == [first.id]


@pytest.mark.requirement("SAGA-cancel")
def test_a_saga_that_is_cancelled_before_the_pivot_is_reversed(trip: Trip) -> None:
    trip.world.faults["car"] = "late"
    parked = trip.driver.drive(trip.begin(), trip.runtime.now_us() + 5 * S)
    assert isinstance(parked, Parked)
    saga_id = trip.saga_ids()[0]
    trip.stop(saga_id)
    trip.stop(saga_id)
    assert [event.kind for event in trip.events(saga_id)].count(EventKind.CANCELLED) == 1
    trip.work()
    assert trip.get(saga_id).state is State.COMPENSATED
    assert trip.world.undone[0] == "car"
    trip.check()


@pytest.mark.requirement("REC-17", "L19")
@pytest.mark.parametrize("fault", ["lies", "refused"])
def test_a_compensation_that_is_refuted_is_a_failed_one_and_goes_to_a_person(trip: Trip, fault: str) -> None:
    trip.world.faults["car"] = "refused"
    trip.world.undo_faults["hotel"] = fault
    told = trip.run()
    trip.work(2 * DAY)
    told = trip.get(told.id)
    assert (told.state, told.review) == (State.REVIEW_REQUIRED, "compensation_failed")
    assert told.incident.endswith("compensation_failed")
    assert State.COMPENSATION_FAILED in trip.states(told.id)
    assert told.steps["hotel"].word is StepWord.NOT_REVERSED


FAULTS = [
    ("", ""),
    ("flight", "refused"),
    ("hotel", "wrong"),
    ("car", "refused"),
    ("car", "late"),
    ("charge", "refused"),
    ("charge", "lost"),
    ("ticket", "once"),
]


@pytest.mark.requirement("SAGA-data", "SAGA-processes")
@pytest.mark.parametrize(("name", "fault"), FAULTS)
@pytest.mark.slow
def test_it_ends_the_same_wherever_a_process_dies(name: str, fault: str) -> None:
    whole = Trip(keyed=True)
    if fault:
        whole.world.faults[name] = fault
    end = whole.run().id
    whole.work(2 * DAY)
    wanted, steps = whole.get(end).state, len(whole.driver.done)
    assert steps < 600
    for at in range(0, steps, 5):
        trip = Trip(keyed=True)
        if fault:
            trip.world.faults[name] = fault
        trip.driver.vanish_at = at
        with contextlib.suppress(ProcessDied):
            trip.run()
        trip.die()
        trip.work(2 * DAY)
        if trip.saga_ids():
            assert trip.get(trip.saga_ids()[0]).state is wanted, at
        trip.check()
