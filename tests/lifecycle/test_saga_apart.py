"""Sagas and several processes: one that slept through everything, one without the contracts, one with others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from readback.canon.frozen import dataclass
from readback.domain.saga.outcome import StepWord
from readback.domain.state import State
from readback.engine.effects import Effect
from readback.engine.saga import attend as saga_attend
from readback.errors import NotFoundError, StoreError
from readback.testing.driver_virtual import Parked, VirtualDriver
from tests.lifecycle.trip import DAY, S, Trip

FAULTS = [("", ""), ("car", "refused"), ("hotel", "wrong"), ("charge", "refused"), ("ticket", "once")]


@dataclass(slots=True)
class Sleeper(VirtualDriver):
    """A process that falls asleep before one of its steps, while the world goes on without it."""

    at_step: int = -1
    meanwhile: Callable[[], None] = lambda: None

    def _count(self, step: Effect) -> None:
        if len(self.done) == self.at_step:
            self.at_step = -1
            self.meanwhile()
        VirtualDriver._count(self, step)


def _another(trip: Trip) -> Trip:
    """A second process on the same machine, which nobody declared dead."""
    other = Trip(store=trip.store, runtime=trip.runtime.sibling("other"), keyed=trip.keyed)
    other.world = trip.world
    for plan in trip.session.plans.values():
        other.session.know(plan)
    return other


@pytest.mark.requirement("SAGA-processes", "L19", "L07")
@pytest.mark.parametrize(("name", "fault"), FAULTS)
@pytest.mark.slow
def test_a_process_that_slept_through_everything_does_nothing_twice(name: str, fault: str) -> None:
    whole = Trip(keyed=True)
    if fault:
        whole.world.faults[name] = fault
    end = whole.run().id
    whole.work(2 * DAY)
    wanted, steps = whole.get(end).state, len(whole.driver.done)
    for at in range(4, steps, 7):
        trip = Trip(keyed=True)
        if fault:
            trip.world.faults[name] = fault
        steps_given = trip.steps()
        other = _another(trip)
        trip.driver = Sleeper(trip.store, trip.runtime, at_step=at, meanwhile=lambda other=other: other.work(2 * DAY))
        with suppress(StoreError):  # its append came too late
            trip.run(steps_given, wait_s=10 * DAY)
        other.work(2 * DAY)
        # A reversal that was announced and never called is nobody's to repeat without end: then a person has to look.
        assert trip.get(trip.saga_ids()[0]).state in (wanted, State.REVIEW_REQUIRED), at
        trip.check()


@pytest.mark.requirement("SAGA-data")
def test_who_lacks_a_contract_leaves_it_to_those_who_have_it() -> None:
    trip = Trip()
    trip.world.faults["car"] = "late"
    assert isinstance(trip.driver.drive(trip.begin(), trip.runtime.now_us() + 5 * S), Parked)
    saga_id = trip.saga_ids()[0]
    other = _another(trip)
    del other.session.plans["ticket"]
    trip.runtime.advance(3_600)
    assert saga_id not in list(other.session.each_due())
    with pytest.raises(NotFoundError, match="not loaded here"):
        other.driver.drive(other.session.advance(saga_id, trip.scope.tenant))
    trip.work()
    assert trip.get(saga_id).verified
    trip.check()


def test_a_contract_that_is_another_one_by_now_goes_to_a_person() -> None:
    trip = Trip()
    trip.world.faults["car"] = "late"
    assert isinstance(trip.driver.drive(trip.begin(), trip.runtime.now_us() + 5 * S), Parked)
    saga_id = trip.saga_ids()[0]
    other = _another(trip)
    other.load("ticket", undo={}, version="2")
    trip.runtime.advance(3_600)
    other.driver.drive(other.session.advance(saga_id, trip.scope.tenant))
    told = other.get(saga_id)
    assert (told.state, told.review) == (State.REVIEW_REQUIRED, "contract.changed")
    assert "ticket" not in trip.world.calls
    trip.check()


def _parked() -> tuple[Trip, str]:
    """A saga whose car is not there yet."""
    trip = Trip()
    trip.world.faults["car"] = "late"
    assert isinstance(trip.driver.drive(trip.begin(), trip.runtime.now_us() + 5 * S), Parked)
    return trip, trip.saga_ids()[0]


def test_a_compensation_that_is_another_one_by_now_goes_to_a_person() -> None:
    trip, saga_id = _parked()
    other = _another(trip)
    other.load("hotel", undo={"within": "77s"})
    trip.runtime.advance(3_600)
    other.driver.drive(other.session.advance(saga_id, trip.scope.tenant))
    told = other.get(saga_id)
    assert (told.state, told.review) == (State.REVIEW_REQUIRED, "contract.changed")
    assert "charge" not in trip.world.calls


def test_who_lacks_a_compensation_leaves_the_saga_to_those_who_have_it() -> None:
    trip, saga_id = _parked()
    other = _another(trip)
    other.load("hotel", undo={})
    trip.runtime.advance(3_600)
    with pytest.raises(NotFoundError, match="not loaded here"):
        other.driver.drive(other.session.advance(saga_id, trip.scope.tenant))
    assert trip.saga(saga_id).review == ""
    trip.work()
    assert trip.get(saga_id).verified


@pytest.mark.requirement("SAGA-data")
def test_another_tenant_neither_sees_nor_moves_nor_cancels_a_saga() -> None:
    trip, saga_id = _parked()
    engine, plans = trip.session.engine, trip.session.plan_of
    for work in (
        saga_attend.current_outcome(saga_id, "globex"),
        saga_attend.wait_until_settled(engine, saga_id, "globex", plans),
        saga_attend.advance(engine, saga_id, "globex", plans),
        saga_attend.cancel(engine, saga_id, "globex", plans),
    ):
        with pytest.raises(NotFoundError):
            trip.driver.drive(work)
    assert not trip.saga(saga_id).cancelled
    trip.work()
    assert trip.get(saga_id).verified


def test_the_caller_may_leave_and_ask_again_under_the_same_operation() -> None:
    trip = Trip()
    trip.world.faults["car"] = "late"
    assert isinstance(trip.driver.drive(trip.begin(), trip.runtime.now_us()), Parked)
    told = trip.get(trip.saga_ids()[0])
    assert told.state is State.PENDING
    assert told.steps["car"].word is StepWord.PENDING
    again = trip.run()
    assert again.replayed
    trip.work()
    assert trip.get(again.id).verified
    trip.check()


@pytest.mark.requirement("SAGA-operation")
def test_two_callers_of_one_operation_begin_one_saga() -> None:
    trip = Trip(keyed=True)
    steps = trip.steps()
    other = _another(trip)
    other.contracts = trip.contracts
    told = []
    trip.driver = Sleeper(trip.store, trip.runtime, at_step=2, meanwhile=lambda: told.append(other.run(other.steps())))
    mine = trip.run(steps)
    assert mine.id == told[0].id
    assert len(trip.saga_ids()) == 1
    assert mine.verified
    trip.check()
