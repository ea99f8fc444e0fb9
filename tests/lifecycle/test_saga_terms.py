"""What a saga keeps to: values of reconciled state only, the pivot, cancellations, and what is told of steps."""

from __future__ import annotations

from typing import Any

import pytest

from readback.audit.checks.ledger import audit
from readback.client.step import from_step
from readback.domain.events import EventKind
from readback.domain.people.review import Decision
from readback.domain.saga.outcome import SagaOutcome, StepWord
from readback.domain.state import State
from readback.domain.verification.reading import Reading
from readback.engine.compiled_contract import CallerContext
from readback.engine.people import review
from readback.engine.people.review import Order
from readback.engine.saga import review as saga_review
from readback.errors import NotVerifiedError, ReviewError, SagaError
from readback.testing.driver_virtual import Parked
from tests.lifecycle.trip import AFTER, DAY, TENANT, TERMS, S, Trip


@pytest.fixture
def trip() -> Trip:
    return Trip()


def _worked(trip: Trip, saga_id: str) -> str:
    trip.work()
    return saga_id


# --- references ---


@pytest.mark.requirement("SAGA-references")
@pytest.mark.parametrize(
    ("path", "argument"),
    [("nothing", "price"), ("ref", "price"), ("authoritative.price.deeper", "price"), ("price", "ref")],
)
def test_a_value_that_is_not_there_or_does_not_fit_keeps_its_step_from_beginning(
    trip: Trip, path: str, argument: str
) -> None:
    first, second = trip.load("a"), trip.load("b")
    given: dict[str, Any] = {"trip": "t-1", "price": 5, argument: from_step("a", path)}
    told = trip.run([first(trip="t-1", price=5).as_step("a"), second(**given).as_step("b", after=("a",))])
    assert told.state is State.COMPENSATED
    assert trip.world.calls == ["a"]
    assert trip.world.undone == ["a"]
    step = told.steps["b"]
    assert (step.word, step.outcome, step.code) == (StepWord.FAILED, None, "saga.reference")
    assert step.detail
    trip.check()


def test_what_a_reader_hides_does_not_travel(trip: Trip) -> None:
    first = trip.load("a", redact=["authoritative.card"])
    second = trip.load("b")
    read = trip.world.read

    def with_card(name: str, of: str) -> Reading:
        found = read(name, of)
        value = found.value
        return (
            found if not isinstance(value, dict) else Reading.of({**value, "card": "4111-1111-1111"}, stamp=found.stamp)
        )

    trip.world.read = with_card  # type: ignore[method-assign]
    whole = second(trip="t-1", price=5, ref=from_step("a", "requested.trip")).as_step("b", after=("a",))
    told = trip.run([first(trip="t-1", price=5).as_step("a"), whole])
    assert told.verified
    hidden = second(trip="t-2", price=5, ref=from_step("a", "card")).as_step("b", after=("a",))
    with pytest.raises(SagaError, match="redacted"):
        trip.run([first(trip="t-2", price=5).as_step("a"), hidden], operation="op-2")
    assert trip.world.calls == ["a", "b"]


# --- the pivot ---


@pytest.mark.requirement("STRATEGY-at-pivot")
def test_nothing_before_the_pivot_runs_beside_it(trip: Trip) -> None:
    trip.world.faults["loose"] = "late"
    loose, charge = trip.load("loose"), trip.load("charge", undo={})
    trip.run([charge(trip="t-1", price=2).as_step("charge", pivot=True), loose(trip="t-1", price=1).as_step("loose")])
    trip.work()
    assert trip.world.calls == ["loose", "charge"]
    trip.check()


def test_actions_know_their_place(trip: Trip) -> None:
    told = trip.run()
    places = {}
    for name, step in told.steps.items():
        assert step.outcome is not None
        context = trip.driver.store.projection(step.outcome.id)
        assert context is not None
        assert context.projection.saga == told.id
        places[name] = (step.region, context.projection.operation)
    assert places["charge"] == ("pivot", "op-1/charge")
    assert places["ticket"] == ("after", "op-1/ticket")


@pytest.mark.requirement("STRATEGY-at-pivot")
def test_a_pivot_that_shows_a_wrong_effect_is_not_taken_back(trip: Trip) -> None:
    trip.load("charge")  # it could be compensated, were it not the pivot
    trip.world.faults["charge"] = "wrong"
    told = trip.run()
    trip.work(2 * DAY)
    told = trip.get(told.id)
    assert told.state is State.REVIEW_REQUIRED
    assert trip.world.undone == []
    assert told.steps["charge"].word is StepWord.REVIEW
    assert "Completed and verified: flight, hotel, car." in told.message


@pytest.mark.requirement("SAGA-cancel")
def test_after_the_pivot_a_cancellation_turns_nothing_back(trip: Trip) -> None:
    trip.world.faults["ticket"] = "late"
    parked = trip.driver.drive(trip.begin(), trip.runtime.now_us() + 5 * S)
    assert isinstance(parked, Parked)
    saga_id = trip.saga_ids()[0]
    trip.stop(saga_id)
    trip.work()
    told = trip.get(saga_id)
    assert told.verified
    assert trip.world.undone == []
    assert EventKind.CANCELLED in [event.kind for event in trip.events(saga_id)]
    trip.check()


def test_a_cancellation_while_the_pivot_is_open_waits_for_what_becomes_of_it(trip: Trip) -> None:
    for fault, end in (("late", State.RECONCILED_SUCCESS), ("vanished", State.COMPENSATED)):
        other = Trip()
        other.world.faults["charge"] = fault
        assert isinstance(other.driver.drive(other.begin(), other.runtime.now_us() + 5 * S), Parked)
        saga_id = other.saga_ids()[0]
        other.stop(saga_id)
        assert other.world.undone == []
        other.work()
        assert other.get(saga_id).state is end
        other.check()


@pytest.mark.requirement("SAGA-waits-for-unknown")
def test_an_effect_that_cannot_be_told_is_waited_for_and_nothing_is_reversed_meanwhile(trip: Trip) -> None:
    trip.world.faults["hotel"] = "blind"
    told = trip.run()
    assert told.settled
    assert trip.world.undone == []
    assert "charge" not in trip.world.calls
    trip.work(30 * DAY)
    told = trip.get(told.id)
    assert told.state is State.REVIEW_REQUIRED
    assert (told.because, told.code) == ("hotel", "step_stuck")
    assert trip.world.undone == []
    trip.world.faults.clear()


# --- a person's word ---


def _decide(trip: Trip, action_id: str, decision: Decision) -> None:
    stored = trip.store.projection(action_id)
    assert stored is not None
    order = Order(action_id, decision, stored.version, "human:eve", "Looked it up.")
    s = trip.session
    resolve = saga_review.resolve if stored.projection.kind == "saga" else review.resolve
    trip.driver.drive(resolve(s.engine, order, TENANT, s.plan_of))


@pytest.fixture
def stuck(trip: Trip) -> tuple[Trip, str, str]:
    """A saga that waits for a person, since nobody could read what became of a step."""
    trip.world.faults["hotel"] = "blind"
    saga_id = trip.run().id
    trip.work(30 * DAY)
    told = trip.get(saga_id)
    assert told.state is State.REVIEW_REQUIRED
    outcome = told.steps["hotel"].outcome
    assert outcome is not None
    trip.world.faults.clear()
    return trip, saga_id, outcome.id


@pytest.mark.requirement("SAGA-waits-for-unknown")
def test_a_step_that_is_read_again_at_last_lets_its_saga_go_on(stuck: tuple[Trip, str, str]) -> None:
    trip, saga_id, hotel = stuck
    _decide(trip, hotel, Decision.VERIFY_AGAIN)
    told = trip.driver.drive(trip.session.stay(saga_id))
    assert isinstance(told, SagaOutcome)
    assert told.verified, told.message
    assert trip.world.calls.count("hotel") == 1
    trip.check()


@pytest.mark.requirement("SAGA-waits-for-unknown", "SAGA-effect-shown")
def test_a_step_that_a_person_says_was_not_done_turns_its_saga_back(stuck: tuple[Trip, str, str]) -> None:
    trip, saga_id, hotel = stuck
    del trip.world.rows["hotel", "t-1"]
    _decide(trip, hotel, Decision.ATTEST_NOT_DONE)
    trip.work()
    told = trip.get(saga_id)
    assert told.state is State.COMPENSATED
    assert trip.world.undone == ["flight"]
    assert told.steps["hotel"].word is StepWord.FAILED
    with pytest.raises(ReviewError, match="turned back"):
        _decide(trip, hotel, Decision.REOPEN)
    assert trip.world.calls.count("hotel") == 1
    trip.check()


def test_a_step_that_a_person_says_was_done_is_not_taken_for_verified(stuck: tuple[Trip, str, str]) -> None:
    trip, saga_id, hotel = stuck
    _decide(trip, hotel, Decision.ATTEST_DONE)
    trip.work(3 * DAY)
    told = trip.get(saga_id)
    assert told.state is State.REVIEW_REQUIRED
    assert "car" not in trip.world.calls
    _decide(trip, saga_id, Decision.ABANDON)
    assert trip.get(saga_id).state is State.ABANDONED
    trip.check()


@pytest.mark.requirement("L19")
def test_a_person_may_have_a_failed_reversal_done_again(trip: Trip) -> None:
    trip.load("hotel", undo={"execute": {"timeout": "1s", "honours_key": True}})
    trip.world.faults["charge"] = "refused"
    trip.world.undo_faults["hotel"] = "refused"
    saga_id = trip.run().id
    trip.work(2 * DAY)
    told = trip.get(saga_id)
    assert (told.state, told.because) == (State.REVIEW_REQUIRED, "hotel")
    trip.world.undo_faults.clear()
    _decide(trip, saga_id, Decision.COMPENSATE)
    trip.work()
    told = trip.get(saga_id)
    assert told.state is State.COMPENSATED, told.message
    assert trip.world.rows == {}
    assert len(trip.world.undo_keys["hotel"]) == 1
    assert audit(trip.store).ok


def test_behind_the_pivot_nobody_may_have_a_saga_reversed(trip: Trip) -> None:
    trip.world.faults["ticket"] = "blind"
    saga_id = trip.run().id
    trip.work(30 * DAY)
    told = trip.get(saga_id)
    assert (told.state, told.because) == (State.REVIEW_REQUIRED, "ticket")
    with pytest.raises(ReviewError) as refused:
        _decide(trip, saga_id, Decision.COMPENSATE)
    assert refused.value.code == "review.not-offered"
    trip.world.faults.clear()
    outcome = told.steps["ticket"].outcome
    assert outcome is not None
    _decide(trip, outcome.id, Decision.VERIFY_AGAIN)
    trip.work()
    assert trip.get(saga_id).verified
    trip.check()


# --- what is told ---


@pytest.mark.requirement("SAGA-words", "TRUTH-words-bool")
def test_an_outcome_of_a_saga_is_no_truth_value_and_names_each_step(trip: Trip) -> None:
    trip.world.faults["charge"] = "refused"
    saga_id = trip.run().id
    trip.work()
    told = trip.get(saga_id)
    with pytest.raises(TypeError):
        bool(told)
    with pytest.raises(NotVerifiedError) as raised:
        told.raise_unless_verified()
    assert raised.value.exit_code == 1
    assert told.message == (
        "The action was reversed through compensation. Reversed, verified: flight, hotel, car. "
        "Failed: charge. Not begun: ticket."
    )
    said = told.as_json()
    assert said["kind"] == "saga"
    steps = said["steps"]
    assert isinstance(steps, list)
    assert [(s["name"], s["word"]) for s in steps if isinstance(s, dict)] == [
        ("flight", "reversed"),
        ("hotel", "reversed"),
        ("car", "reversed"),
        ("charge", "failed"),
        ("ticket", "not_begun"),
    ]
    assert told.steps["flight"].outcome is not None
    assert told.steps["flight"].outcome.state is State.RECONCILED_SUCCESS
    assert told.steps["flight"].compensation is not None
    assert told.steps["flight"].compensation.verified
    assert 'Steps: "flight" reversed' in told.for_model()


def test_a_sagas_first_entry_holds_all_of_the_callers_context() -> None:
    scope = CallerContext(TENANT, "agent:ops", "run-1", "plan-2", "task-3", "bounds-4", "trace-5", parent_span="span-6")
    trip = Trip(scope=scope)
    told = trip.run()
    assert trip.events(told.id)[0].data["context"] == {
        "run": "run-1",
        "plan": "plan-2",
        "task_state": "task-3",
        "boundary": "bounds-4",
        "trace": "trace-5",
        "parent_span": "span-6",
    }


def test_a_reversal_that_ended_is_recorded_without_a_detail(trip: Trip) -> None:
    trip.world.faults["charge"] = "refused"
    told = trip.run()
    trip.work()
    steps = [event.data for event in trip.events(told.id) if event.kind is EventKind.SAGA_STEP]
    reversed_ = [(data["step"], data["state"], data["detail"]) for data in steps if data["what"] == "reversed"]
    assert sorted(reversed_) == [(name, "reconciled_success", "") for name in ("car", "flight", "hotel")]


def test_a_saga_that_came_to_nothing_may_be_begun_again(trip: Trip) -> None:
    trip.world.faults.update(flight="refused", hotel="refused")
    told = trip.get(_worked(trip, trip.run().id))
    assert told.state is State.FAILED
    assert told.may_repeat
    trip.world.faults.clear()
    again = trip.run()
    assert again.id != told.id
    assert again.verified
    assert audit(trip.store).ok


def test_a_step_whose_operation_is_another_action_is_not_taken_for_done(trip: Trip) -> None:
    steps = trip.steps()
    made = trip.contracts["flight"](trip="t-1", price=100)
    request = trip.session.request(made, "op-1/flight", None, "")
    trip.driver.drive(trip.session.engine.run(request, trip.scope))
    told = trip.run(steps)
    assert told.state is State.COMPENSATED
    assert told.steps["flight"].code == "saga.operation-taken"
    assert trip.world.undone == ["hotel"]
    assert [name for name, _ in trip.world.rows] == ["flight"]


@pytest.mark.requirement("SAGA-effect-shown")
def test_what_was_so_already_is_left_as_it_is(trip: Trip) -> None:
    from readback.domain.context import Context

    world = trip.world
    world.rows["room", "t-1"] = {"id": "t-1", "tenant": "acme", "price": 9, "stamp": "rb-old"}
    setting = {"kind": "set", "noop": "allow", "identity": {k: v for k, v in TERMS["identity"].items() if k != "stamp"}}
    room = trip.load("room", **setting)

    def unchanged(name: str, ctx: Context, of: str, price: int) -> object:
        world.calls.append(name)
        return {"ok": True}

    act = world.act
    world.act = lambda name, ctx, of, price: (unchanged if name == "room" else act)(name, ctx, of, price)  # type: ignore[method-assign]
    trip.world.faults["last"] = "refused"
    last = trip.load("last")
    steps = [room(trip="t-1", price=9).as_step("room"), last(trip="t-1", price=1).as_step("last", after=("room",))]
    told = trip.get(_worked(trip, trip.run(steps).id))
    assert told.state is State.FAILED
    assert trip.world.undone == []
    assert told.steps["room"].word is StepWord.LEFT
    assert world.rows["room", "t-1"]["price"] == 9


def test_forward_recovery_is_told_as_partial_while_it_goes_on(trip: Trip) -> None:
    trip.load("ticket", undo={}, **{**AFTER, "require": {"later": "false"}})
    assert isinstance(trip.driver.drive(trip.begin(), trip.runtime.now_us() + S), Parked)
    told = trip.get(trip.saga_ids()[0])
    assert told.state is State.FORWARD_RECOVERY
    assert "partially completed; these parts remain unresolved: ticket." in told.message
    assert "do not begin any of them" in told.for_model()
    assert told.exit_code == 3
