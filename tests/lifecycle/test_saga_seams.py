"""Where a saga meets what is told of single actions, and what people say of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readback.domain.action.claim import ClaimKind, ClaimStatement, ClaimStatus
from readback.domain.contract.approval import Decision
from readback.domain.finding import Finding
from readback.domain.outcome.outcome import Outcome
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryAction, RecoveryTable, Row
from readback.domain.saga.outcome import StepWord
from readback.domain.state import State
from readback.engine import coordinator
from readback.engine.people import approvals as countersign
from readback.engine.people import claims
from readback.engine.people.approvals import ApprovalRequest
from readback.engine.people.claims import ClaimOrder
from readback.errors import NotVerifiedError
from readback.testing.driver_virtual import Parked
from readback.testing.signer_memory import MemorySigner
from tests.lifecycle.approving import BOTH
from tests.lifecycle.test_saga_review import resolve
from tests.lifecycle.trip import AFTER, TENANT, Trip


@pytest.fixture
def trip() -> Trip:
    return Trip()


def step(trip: Trip, saga_id: str, name: str) -> Outcome:
    """A step by itself, as somebody is told who asks for its action."""
    outcome = trip.get(saga_id).steps[name].outcome
    assert outcome is not None
    return trip.outcome(outcome.id)


def again(trip: Trip, name: str, operation: str) -> Outcome:
    """The same operation, asked for outside the saga."""
    proposal = trip.contracts[name](trip="t-1", price=100)
    proposal.mark_run()
    s = trip.session
    work = coordinator.begin(s.engine, proposal.request(operation), s.scope, s.plan_of, coordinator.ActionHandle())
    told = trip.driver.drive(work)
    assert not isinstance(told, Parked)
    return told


@pytest.mark.requirement("GROUND-compensated", "HS-13")
def test_a_step_that_its_saga_has_reversed_is_told_as_reversed_and_not_as_done(trip: Trip) -> None:
    trip.world.faults["charge"] = "refused"
    told = trip.run()
    trip.work()
    assert trip.get(told.id).state is State.COMPENSATED
    flight = step(trip, told.id, "flight")
    assert (flight.state, flight.verified, flight.standing, flight.may_repeat) == (
        State.COMPENSATED,
        False,
        False,
        False,
    )
    assert "reversed" in flight.message
    assert flight.compensation
    with pytest.raises(NotVerifiedError):
        flight.raise_unless_verified()
    replay = again(trip, "flight", "op-1/flight")
    assert (replay.id, replay.replayed, replay.verified) == (flight.id, True, False)
    assert trip.world.calls.count("flight") == 1
    trip.check()


@pytest.mark.parametrize("kind", list(ClaimKind))
def test_a_saga_of_which_a_step_was_taken_back_by_a_person_is_no_success_for_a_shell_either(
    trip: Trip, kind: ClaimKind
) -> None:
    told = trip.run()
    assert (told.exit_code, told.raise_unless_verified()) == (0, told)
    hotel = step(trip, told.id, "hotel")
    order = ClaimOrder(hotel.id, kind, ClaimStatus.RETRACTED, ClaimStatement("human:eve", "It is not there."))
    trip.driver.drive(claims.decide(order, TENANT))
    now = trip.get(told.id)
    assert (now.state, now.standing, now.exit_code) == (State.RECONCILED_SUCCESS, False, 3)
    with pytest.raises(NotVerifiedError):
        now.raise_unless_verified()


def test_a_step_is_not_told_as_reversed_any_more_where_its_reversal_was_taken_back(trip: Trip) -> None:
    trip.world.faults["charge"] = "refused"
    told = trip.run()
    trip.work()
    flight = step(trip, told.id, "flight")
    assert (flight.state, flight.contested) == (State.COMPENSATED, False)
    order = ClaimOrder(
        flight.compensation,
        ClaimKind.HAPPENED,
        ClaimStatus.RETRACTED,
        ClaimStatement("human:eve", "It is still there."),
    )
    trip.driver.drive(claims.decide(order, TENANT))
    now = step(trip, told.id, "flight")
    assert (now.state, now.contested) == (State.COMPENSATED, True)
    assert "reversed" not in now.message


@pytest.mark.requirement("GROUND-compensated", "L19")
def test_a_step_whose_reversal_failed_is_no_success_any_more_either(trip: Trip) -> None:
    trip.world.faults["charge"] = trip.world.undo_faults["hotel"] = "refused"
    told = trip.run()
    trip.work(2 * 86_400)
    assert trip.get(told.id).review == "compensation_failed"
    hotel, flight = step(trip, told.id, "hotel"), step(trip, told.id, "flight")
    assert (hotel.state, hotel.verified) == (State.REVIEW_REQUIRED, False)
    assert flight.verified, "nobody has begun to reverse that one"


@pytest.mark.requirement("TRUTH-hold-attestation", "TRUTH-hold-resolution")
def test_an_unknown_step_that_a_person_says_was_not_done_holds_its_saga_no_longer(trip: Trip) -> None:
    trip.world.faults["hotel"] = "vanished"
    told = trip.run(wait_s=100)
    hotel = step(trip, told.id, "hotel")
    assert hotel.state is State.UNKNOWN
    resolve(trip, hotel.id, "attest_not_done")
    assert trip.world.undone == [], "an effect may still land"
    trip.work()
    ended = trip.get(told.id)
    assert (ended.state, trip.world.undone, trip.world.rows) == (State.COMPENSATED, ["flight"], {})
    trip.check()


def test_what_lands_after_all_keeps_the_saga_for_a_person_also_where_one_said_that_it_was_not_done(trip: Trip) -> None:
    trip.world.faults["hotel"] = "late"
    told = trip.run(wait_s=100)
    hotel = step(trip, told.id, "hotel")
    assert hotel.state is State.UNKNOWN
    resolve(trip, hotel.id, "attest_not_done")
    trip.work()
    assert (trip.get(told.id).state, trip.get(told.id).because) == (State.REVIEW_REQUIRED, "hotel")
    assert step(trip, told.id, "hotel").review == "contested"
    resolve(trip, hotel.id, "compensate")
    trip.work()
    ended = trip.get(told.id)
    assert (ended.state, trip.world.rows) == (State.COMPENSATED, {})
    trip.check()


@pytest.mark.requirement("STRATEGY-after-pivot", "REC-10")
def test_where_the_operators_table_holds_it_a_saga_goes_forward_only_when_a_person_says_so(trip: Trip) -> None:
    held = Row(
        "hold-after-pivot",
        Finding.PARTIAL_SUCCESS,
        ({"pivot_passed": (True,)},),
        RecoveryAction.HOLD_AND_ESCALATE,
        "Partial Success",
        "",
        ours=True,
    )
    strict = RecoveryTable((held, *DEFAULT_TABLE.rows))
    assert not [fault for fault in strict.faults() if fault.row == held.id]
    trip.session.engine = replace(trip.session.engine, table=strict)
    trip.world.faults["ticket"] = "once"
    told = trip.run()
    trip.work(3 * 86_400)
    told = trip.get(told.id)
    assert (told.state, told.review, told.row) == (State.REVIEW_REQUIRED, "forward_held", held.id)
    assert trip.world.calls.count("ticket") == 1
    version = trip.saga(told.id).version
    trip.driver.drive(trip.session.stay(told.id))
    assert trip.saga(told.id).version == version, "to ask again changes nothing"
    resolve(trip, told.id, "go_forward")
    trip.work()
    assert trip.get(told.id).state is State.RECONCILED_SUCCESS
    assert trip.world.calls.count("ticket") == 2
    trip.check()


def held_and_abandoned() -> tuple[Trip, str, str]:
    """A saga at its pivot, which waits for an approval; then one of its contracts changes, and a person abandons it."""
    trip = Trip()
    trip.session.engine = replace(trip.session.engine, approvals=BOTH)
    trip.load("charge", undo={}, approval={"expires": "1h"})
    told = trip.run()
    assert told.hold == "approval"
    trip.load("flight", within="20s")
    trip.stop(told.id)
    trip.driver.drive(trip.session.advance(told.id, TENANT))
    assert trip.get(told.id).review == "contract.changed"
    resolve(trip, told.id, "abandon")
    return trip, told.id, step(trip, told.id, "charge").id


@pytest.mark.requirement("SAGA-terminal-only", "TRUTH-hold-approval")
def test_what_is_approved_after_its_saga_was_abandoned_is_not_executed(trip: Trip) -> None:
    trip, saga_id, charge = held_and_abandoned()
    approvals = trip.session.engine.approvals
    asked = trip.driver.drive(countersign.requested(charge, TENANT, approvals))
    assert isinstance(asked, ApprovalRequest)
    token = asked.signed(MemorySigner("alice"), "alice", Decision.APPROVE)
    trip.driver.drive(countersign.record(charge, TENANT, token, approvals, Decision.APPROVE))
    trip.work()
    assert "charge" not in trip.world.calls
    told = step(trip, saga_id, "charge")
    assert (told.state, told.attempts) == (State.FAILED, 0)


@pytest.mark.requirement("WATCH-drift", "SAGA-words")
def test_a_saga_of_which_a_step_drifted_is_told_as_done_no_more(trip: Trip) -> None:
    trip.load("hotel", watch={"after": "1h", "every": "1h", "for": "1d"})
    told = trip.run()
    assert (told.verified, told.standing) == (True, True)
    trip.world.rows["hotel", "t-1"]["price"] = 1
    trip.work()
    now = trip.get(told.id)
    assert (now.standing, now.contested, now.exit_code) == (False, True, 3)
    assert now.steps["hotel"].word is StepWord.REVIEW
    assert "completed successfully" not in now.message
    assert "A later reading contradicts" in now.message
    assert "go on with the next" not in now.for_model()
    assert step(trip, told.id, "hotel").review == "drift"


@pytest.mark.requirement("WATCH-late", "SAGA-words")
def test_a_saga_that_ended_is_contested_where_an_effect_of_a_failed_step_lands_after_it(trip: Trip) -> None:
    """The step failed since another actor changed the target first; what was sent may land all the same."""
    world = trip.world
    trip.load("first", kind="set")
    trip.load("second", undo={}, **AFTER)
    rows = world.rows
    rows["first", "t-1"] = {"id": "t-1", "tenant": TENANT, "price": 1, "stamp": "rb-theirs", "ref": "theirs"}
    world.faults["first"] = "vanished"
    world.late.append((3.0, lambda: rows["first", "t-1"].update(price=7)))
    made = [
        trip.contracts["first"](trip="t-1", price=100).as_step("first"),
        trip.contracts["second"](trip="t-1", price=5).as_step("second", after=("first",), pivot=True),
    ]
    told = trip.run(made)
    assert (told.state, told.contested, told.steps["first"].word) == (State.FAILED, False, StepWord.FAILED)
    first = step(trip, told.id, "first")
    assert (first.state, first.row) == (State.FAILED, "REC-11")
    rows["first", "t-1"].update(price=100, stamp=first.stamp)
    trip.work()
    now = trip.get(told.id)
    assert (now.contested, now.may_repeat, now.steps["first"].word) == (True, False, StepWord.NOT_REVERSED)
    assert "A later reading contradicts" in now.message
    assert "failed; no verified" not in now.message
