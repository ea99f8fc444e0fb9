"""A saga's success stands on its steps: when each was read, and what a later look or a person says of one of them."""

from __future__ import annotations

import pytest

from readback.domain.action.claim import ClaimKind, ClaimStatus
from readback.domain.saga.outcome import SagaOutcome, StepWord
from readback.domain.state import EXIT_UNDETERMINED, EXIT_VERIFIED, State
from readback.errors import NotVerifiedError
from readback.testing.runtime_virtual import START_US
from tests.lifecycle.claiming import person
from tests.lifecycle.trip import S, Trip

HOURLY = {"after": "1h", "every": "1h", "for": "1d"}
COMPLETED = "The action completed successfully."


@pytest.fixture
def trip() -> Trip:
    return Trip()


def booked(trip: Trip) -> SagaOutcome:
    """A finished trip. Its flight is read again every hour; its hotel was late, so the later steps began later."""
    trip.load("flight", watch=HOURLY)
    trip.world.faults["hotel"] = "late"
    told = trip.run(wait_s=20)
    assert not told.verified
    trip.work(1_800)
    told = trip.get(told.id)
    assert told.verified
    assert told.standing
    return told


@pytest.mark.requirement("SAGA-standing")
def test_the_outcome_names_the_time_of_each_steps_reading(trip: Trip) -> None:
    told = booked(trip)
    at = {name: step.verified_us for name, step in told.steps.items()}
    assert at["flight"] == START_US
    assert START_US + 30 * S <= at["hotel"] <= at["car"] <= at["charge"] <= at["ticket"]
    assert [step["verified_us"] for step in told.as_json()["steps"]] == list(at.values())  # type: ignore[union-attr,index,call-overload]
    assert "the first at 2026-01-01 00:00:00 UTC, the last at 2026-01-01 00:0" in told.message
    assert 'Read back at: "flight" 2026-01-01 00:00:00 UTC' in told.for_model()
    assert "Changes since then are not seen." in told.for_model()


@pytest.mark.requirement("SAGA-standing")
def test_a_later_look_moves_the_time_of_its_step_alone(trip: Trip) -> None:
    before = booked(trip)
    trip.work(5 * 3_600)
    after = trip.get(before.id)
    assert after.steps["flight"].verified_us >= START_US + 4 * 3_600 * S
    assert after.steps["hotel"].verified_us == before.steps["hotel"].verified_us
    assert after.standing


@pytest.mark.requirement("SAGA-standing", "CLAIM-relied-on")
def test_a_saga_is_no_standing_success_once_a_look_finds_a_steps_effect_gone(trip: Trip) -> None:
    told = booked(trip)
    gone = trip.world.rows.pop(("flight", "t-1"))
    assert trip.get(told.id).standing, "nothing has read the flight since"
    trip.work(2 * 3_600)
    fell = trip.get(told.id)
    assert fell.state is State.RECONCILED_SUCCESS
    assert (fell.standing, fell.contested, fell.exit_code) == (False, True, EXIT_UNDETERMINED)
    assert (fell.steps["flight"].word, fell.steps["flight"].verified_us) == (StepWord.REVIEW, 0)
    assert COMPLETED not in fell.message
    assert "To be reviewed by a person: flight." in fell.message
    assert COMPLETED not in fell.for_model()
    with pytest.raises(NotVerifiedError):
        fell.raise_unless_verified()
    trip.world.rows["flight", "t-1"] = gone
    trip.work(2 * 3_600)
    again = trip.get(told.id)
    assert (again.standing, again.exit_code) == (True, EXIT_VERIFIED)
    assert COMPLETED in again.message


@pytest.mark.requirement("SAGA-standing")
def test_a_step_that_is_found_gone_while_the_saga_runs_stops_the_saga(trip: Trip) -> None:
    trip.load("flight", watch={"after": "5s", "every": "5s", "for": "1h"})
    trip.world.faults["hotel"] = "late"
    told = trip.run(wait_s=20)
    del trip.world.rows["flight", "t-1"]
    trip.work(600)
    ended = trip.get(told.id)
    assert ended.state is State.REVIEW_REQUIRED
    assert (ended.because, ended.steps["flight"].word) == ("flight", StepWord.REVIEW)
    assert "car" not in trip.world.calls
    assert COMPLETED not in ended.message


@pytest.mark.requirement("SAGA-standing", "CLAIM-person")
@pytest.mark.parametrize("kind", ClaimKind)
def test_a_person_who_withdraws_a_steps_claim_withdraws_the_sagas_success(trip: Trip, kind: ClaimKind) -> None:
    told = trip.run()
    flight = told.steps["flight"].outcome
    assert flight is not None
    person(trip, flight.id, ClaimStatus.RETRACTED, kind)
    fell = trip.get(told.id)
    assert not fell.standing
    assert COMPLETED not in fell.message + fell.for_model()
    person(trip, flight.id, ClaimStatus.REINSTATED, kind)
    assert trip.get(told.id).standing


@pytest.mark.requirement("SAGA-standing", "SAGA-words")
def test_a_reversed_saga_is_reversed_only_as_long_as_each_reversal_stands(trip: Trip) -> None:
    trip.world.faults["charge"] = "refused"
    told = trip.run()
    trip.work()
    assert trip.get(told.id).state is State.COMPENSATED
    undo = trip.get(told.id).steps["flight"].compensation
    assert undo is not None
    person(trip, undo.id, ClaimStatus.RETRACTED, ClaimKind.HAPPENED)
    fell = trip.get(told.id)
    assert (fell.contested, fell.steps["flight"].word) == (True, StepWord.NOT_REVERSED)
    assert "The action was reversed through compensation." not in fell.message + fell.for_model()
