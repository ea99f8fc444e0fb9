"""A person decides about a saga: gone on with, reversed or abandoned; of its steps he decides one by one."""

from __future__ import annotations

from typing import Any

import pytest

from readback.client.operations import reviewing
from readback.domain.saga.outcome import SagaOutcome, StepWord
from readback.domain.state import State
from readback.engine.saga import review as saga_review
from readback.errors import NotFoundError, ReviewError
from readback.ports.storage.store import Freeze
from readback.testing.store_memory import MemoryStore
from tests.lifecycle.trip import TENANT, Trip

pytestmark = pytest.mark.slow


@pytest.fixture
def trip() -> Trip:
    return Trip()


def resolve(trip: Trip, any_id: str, decision: str) -> Any:
    packet = reviewing.review_packet(trip.session, any_id)
    order = reviewing.resolution(
        trip.session, any_id, decision, expect_version=packet.version, who="human:eve", reason="Looked at it."
    )
    trip.driver.drive(reviewing.resolving(trip.session, order))
    return packet


def stuck_forward(trip: Trip) -> SagaOutcome:
    """Behind the pivot, and what is missing fails again and again."""
    trip.world.faults["ticket"] = "refused"
    told = trip.run()
    trip.work(30 * 86_400)
    told = trip.get(told.id)
    assert told.state is State.REVIEW_REQUIRED
    return told


@pytest.mark.requirement("STATE-review-required->forward-recovery")
def test_behind_its_pivot_a_saga_is_gone_on_with_when_a_person_says_so(trip: Trip) -> None:
    told = stuck_forward(trip)
    packet = reviewing.review_packet(trip.session, told.id)
    assert {one.decision.value for one in packet.choices if one.open} == {"verify_again", "go_forward", "abandon"}
    body: Any = packet.as_json()
    assert [step["step"] for step in body["steps"]] == ["flight", "hotel", "car", "charge", "ticket"]
    trip.world.faults.clear()
    resolve(trip, told.id, "go_forward")
    trip.work()
    assert trip.get(told.id).state is State.RECONCILED_SUCCESS
    assert trip.world.undone == []
    trip.check()


def test_another_tenant_is_shown_no_packet_of_a_saga(trip: Trip) -> None:
    told = stuck_forward(trip)
    session = trip.session
    with pytest.raises(NotFoundError):
        saga_review.saga_packet(session.store, told.id, "globex", session.plan_of)
    assert saga_review.saga_packet(session.store, told.id, TENANT, session.plan_of).choices


def test_a_saga_that_is_abandoned_ends_there(trip: Trip) -> None:
    told = stuck_forward(trip)
    resolve(trip, told.id, "abandon")
    trip.work()
    ended = trip.get(told.id)
    assert (ended.state, ended.review, ended.verified) == (State.ABANDONED, "", False)
    with pytest.raises(ReviewError) as again:
        resolve(trip, told.id, "abandon")
    assert again.value.code == "review.resolved"
    trip.check()


@pytest.mark.parametrize("decision", ["attest_done", "attest_not_done", "reopen", "compensate"])
@pytest.mark.slow
def test_what_a_step_came_to_is_not_decided_about_the_saga(trip: Trip, decision: str) -> None:
    told = stuck_forward(trip)
    with pytest.raises(ReviewError) as refused:
        resolve(trip, told.id, decision)
    assert refused.value.code == "review.not-offered"
    trip.check()


def test_an_ordered_reversal_of_a_saga_passes_a_freeze_and_an_automatic_one_does_not(trip: Trip) -> None:
    trip.world.faults["charge"] = "refused"
    steps = trip.steps()
    store = trip.store
    assert isinstance(store, MemoryStore)
    frozen = Freeze(TENANT, "tool:undo_hotel", "another", "duplicate_side_effect", trip.runtime.now_us())
    store._content.freezes[frozen.tenant, frozen.subject, frozen.action_id] = frozen
    told = trip.run(steps)
    trip.work(2 * 86_400)
    held = trip.get(told.id)
    undo = held.steps["hotel"].compensation
    assert undo is not None
    assert (held.review, undo.code, undo.attempts) == ("compensation_failed", "frozen", 0)
    assert ("hotel", "t-1") in trip.world.rows
    resolve(trip, told.id, "compensate")
    trip.work()
    assert (trip.get(told.id).state, trip.world.rows) == (State.COMPENSATED, {})
    assert trip.world.undone.count("hotel") == 1


def test_the_sagas_principal_does_not_decide_and_an_older_version_does_not_count(trip: Trip) -> None:
    told = stuck_forward(trip)
    version = reviewing.review_packet(trip.session, told.id).version
    for who, expected, code in (("agent:ops", version, "review.self"), ("human:eve", version - 1, "review.stale")):
        order = reviewing.resolution(
            trip.session, told.id, "abandon", expect_version=expected, who=who, reason="Looked at it."
        )
        with pytest.raises(ReviewError) as refused:
            trip.driver.drive(reviewing.resolving(trip.session, order))
        assert refused.value.code == code


@pytest.mark.requirement("STATE-review-required->compensating")
def test_a_reversal_that_was_ordered_where_nothing_was_left_to_reverse_ends_the_saga(trip: Trip) -> None:
    """What it waited for was said not to have been done, by somebody else, before anybody looked at the saga again."""
    trip.world.faults.update(flight="refused", hotel="blind")
    steps = trip.steps()
    saga_id = trip.run(steps).id
    trip.work(2 * 86_400)
    told = trip.get(saga_id)
    hotel = told.steps["hotel"].outcome
    assert told.state is State.REVIEW_REQUIRED
    assert hotel is not None
    trip.world.rows.clear()
    trip.world.faults.clear()
    resolve(trip, hotel.id, "attest_not_done")
    resolve(trip, saga_id, "compensate")
    trip.work()
    assert trip.get(saga_id).state is State.FAILED
    assert trip.world.undone == []
    trip.check()


def test_a_pivot_that_is_verified_before_an_ordered_reversal_begins_is_gone_on_from(trip: Trip) -> None:
    trip.world.faults["charge"] = "blind"
    saga_id = trip.run().id
    trip.work(2 * 86_400)
    told = trip.get(saga_id)
    charge = told.steps["charge"].outcome
    assert told.state is State.REVIEW_REQUIRED
    assert charge is not None
    trip.world.faults.clear()
    resolve(trip, charge.id, "verify_again")
    assert trip.outcome(charge.id).verified
    resolve(trip, saga_id, "compensate")
    trip.work()
    assert trip.get(saga_id).verified
    assert trip.world.undone == []
    trip.check()


@pytest.mark.requirement("SAGA-words", "TRUTH-hold-resolution")
@pytest.mark.parametrize("decision", ["attest_not_done", "attest_done"])
def test_a_reversal_that_stays_unknown_by_a_persons_word_is_not_told_as_going_on(trip: Trip, decision: str) -> None:
    trip.load("flight", undo={"late_window": "1d"})
    trip.world.faults["charge"] = "refused"
    trip.world.undo_faults["flight"] = "lies"
    saga_id = trip.run().id
    trip.work(400)
    flight = trip.get(saga_id).steps["flight"]
    assert flight.compensation is not None
    assert (flight.word, flight.compensation.state) == (StepWord.REVERSING, State.UNKNOWN)
    resolve(trip, flight.compensation.id, decision)
    trip.work(10 * 86_400)
    now = trip.get(saga_id)
    assert (now.state, now.review) == (State.REVIEW_REQUIRED, "compensation_failed")
    assert now.steps["flight"].word is StepWord.NOT_REVERSED
    assert flight.outcome is not None
    assert trip.outcome(flight.outcome.id).state is State.REVIEW_REQUIRED
    trip.check()
