"""A pivot that somebody has to approve: the saga waits there, everything before it verified, and goes either way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readback.audit.checks.ledger import audit
from readback.domain.contract.approval import Decision
from readback.domain.saga.outcome import SagaOutcome, StepWord
from readback.domain.state import State
from readback.engine.effects import Commit
from readback.engine.people import approvals as countersign
from readback.engine.people.approvals import ApprovalRequest
from readback.errors import ApprovalError
from readback.testing.signer_memory import MemorySigner
from tests.lifecycle.approving import BOTH
from tests.lifecycle.trip import TENANT, Trip

HOUR = 3600.0


@pytest.fixture
def held() -> tuple[Trip, SagaOutcome]:
    """A saga at its pivot, which waits for an approval."""
    trip = Trip()
    trip.session.engine = replace(trip.session.engine, approvals=BOTH)
    trip.load("charge", undo={}, approval={"expires": "1h"})
    told = trip.run()
    assert (told.state, told.hold, told.exit_code) == (State.PENDING, "approval", 4)
    assert told.settled
    assert told.steps["charge"].word is StepWord.HELD
    assert "Completed and verified: flight, hotel, car. Not executed, held: charge." in told.message
    assert "charge" not in trip.world.calls
    return trip, told


def decide(trip: Trip, told: SagaOutcome, decision: Decision) -> None:
    outcome = told.steps["charge"].outcome
    assert outcome is not None
    approvals = trip.session.engine.approvals
    asked = trip.driver.drive(countersign.requested(outcome.id, TENANT, approvals))
    assert isinstance(asked, ApprovalRequest)
    token = asked.signed(MemorySigner("alice"), "alice", decision)
    trip.driver.drive(countersign.record(outcome.id, TENANT, token, approvals, decision))


def sound(trip: Trip) -> None:
    report = audit(trip.store, approvals=trip.session.engine.approvals)
    assert report.ok, report.faults


@pytest.mark.requirement("STRATEGY-at-pivot", "TRUTH-hold-approval")
@pytest.mark.parametrize("by", ["a worker", "whoever waits", "the same operation"])
def test_an_approved_pivot_is_gone_on_with(held: tuple[Trip, SagaOutcome], by: str) -> None:
    trip, told = held
    decide(trip, told, Decision.APPROVE)
    if by == "a worker":
        trip.work(120)
    elif by == "whoever waits":
        trip.driver.drive(trip.session.stay(told.id))
    else:
        assert trip.run().replayed
    assert trip.get(told.id).verified
    assert trip.world.calls.count("charge") == 1
    sound(trip)


@pytest.mark.parametrize("how", ["denied", "expired"])
def test_a_pivot_that_is_not_approved_turns_it_back(held: tuple[Trip, SagaOutcome], how: str) -> None:
    trip, told = held
    if how == "denied":
        decide(trip, told, Decision.DENY)
    trip.work(2 * HOUR)
    told = trip.get(told.id)
    assert told.state is State.COMPENSATED
    assert trip.world.undone[0] == "car"
    assert "charge" not in trip.world.calls
    sound(trip)


@pytest.mark.requirement("SAGA-cancel")
def test_what_waited_is_not_executed_any_more_once_it_is_cancelled(held: tuple[Trip, SagaOutcome]) -> None:
    trip, told = held
    trip.stop(told.id)
    with pytest.raises(ApprovalError):
        decide(trip, told, Decision.APPROVE)
    trip.work(2 * HOUR)
    assert trip.get(told.id).state is State.COMPENSATED
    assert "charge" not in trip.world.calls
    sound(trip)


@pytest.mark.parametrize("broken_here", [True, False])
def test_a_broken_glass_counts_for_a_saga_only_where_it_is_broken(broken_here: bool) -> None:
    """That it was broken when the saga began is what the ledger says; another process asks a person all the same."""
    trip = Trip()
    glass = "the desk is on fire"
    approvals = replace(BOTH, break_glass=glass if broken_here else "")
    trip.session.engine = replace(trip.session.engine, approvals=approvals)
    trip.load("charge", undo={}, approval={"expires": "1h"})
    trip.session.scope = replace(trip.scope, break_glass=glass)
    begun = trip.begin()
    step = next(begun)
    while not isinstance(step, Commit):
        step = begun.send(trip.driver._do(step))
    trip.driver._do(step)
    begun.close()  # it is begun, and its process dies
    trip.die()
    trip.session.engine = replace(trip.session.engine, approvals=approvals)
    trip.work(120)
    told = trip.get(step.append.action_id)
    assert told.verified is broken_here
    assert ("charge" in trip.world.calls) is broken_here
    assert told.hold == ("" if broken_here else "approval")
    sound(trip)
