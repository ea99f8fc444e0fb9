"""A saga's ledger changed by hand: each link and each column is found out, also where every entry was sealed anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from readback.audit.checks.ledger import audit
from readback.canon import Json
from readback.domain.events import Event, open_envelope, seal
from readback.ports.storage.store import StoredEvent
from readback.testing.driver_virtual import Parked
from readback.testing.store_memory import MemoryStore
from tests.lifecycle.trip import Trip


@pytest.fixture
def trip() -> Trip:
    """A saga that was reversed."""
    one = Trip()
    one.world.faults["charge"] = "refused"
    one.run()
    one.work()
    assert audit(one.store).ok
    return one


def content(trip: Trip) -> object:
    assert isinstance(trip.store, MemoryStore)
    return trip.store._content


def forge(trip: Trip, stream: str, change: Callable[[Event], Event]) -> None:
    """Every entry of a stream sealed anew, so that all hashes are right."""
    held = trip.store._content  # type: ignore[attr-defined]
    head, made = "", []
    for stored in held.events[stream]:
        opened = open_envelope(stored.envelope)
        envelope, leaf = seal(change(opened.event), stream, opened.tenant, opened.version, head)
        head = leaf.hex()
        made.append(replace(stored, envelope=envelope, leaf=leaf))
    held.events[stream] = made
    by_seq: dict[int, StoredEvent] = {each.seq: each for each in made}
    held.log[:] = [by_seq.get(each.seq, each) for each in held.log]


def codes(trip: Trip) -> set[str]:
    return {fault.code for fault in audit(trip.store).faults}


def said(trip: Trip) -> list[str]:
    return [fault.what for fault in audit(trip.store).faults]


def data(event: Event, **new: Json) -> Event:
    return replace(event, data={**event.data, **new})


@pytest.mark.requirement("SAGA-audit", "L22")
@pytest.mark.parametrize(
    ("what", "key", "value", "code"),
    [
        ("begins", "action", "01kdvdna0000000000000000xx", "saga.step"),
        ("ended", "head", "00" * 32, "saga.step"),
        ("ended", "state", "failed", ""),
        ("reverses", "action", "01kdvdna0000000000000000xx", "saga.step"),
        ("reversed", "head", "00" * 32, "saga.step"),
        ("begins", "step", "hotel", "saga.step"),
    ],
)
@pytest.mark.slow
def test_a_forged_link_to_an_action_is_found(trip: Trip, what: str, key: str, value: str, code: str) -> None:
    done: list[bool] = []

    def change(event: Event) -> Event:
        if event.data.get("what") == what and event.data.get("step") != "hotel" and not done:
            done.append(True)
            return data(event, **{key: value})
        return event

    forge(trip, trip.saga_ids()[0], change)
    assert done
    if code:
        assert code in codes(trip)


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("operation", "another", "action.identity"),
        ("name", "another", "action.identity"),
        ("stamp", "rb-x", "action.identity"),
        ("key_hash", "00" * 32, "action.identity"),
        ("request_hash", "00" * 32, "action.identity"),
        ("principal", "somebody", "projection.column"),
        ("contracts", "00" * 32, "action.identity"),
        ("contracts", "00" * 32, "projection.column"),
    ],
)
@pytest.mark.slow
def test_a_forged_beginning_is_found(trip: Trip, key: str, value: str, code: str) -> None:
    def change(event: Event) -> Event:
        return data(event, **{key: value}) if "steps" in event.data else event

    forge(trip, trip.saga_ids()[0], change)
    assert code in codes(trip)


def test_terms_that_are_not_those_of_the_definition_are_found(trip: Trip) -> None:
    def change(event: Event) -> Event:
        steps = event.data.get("steps")
        if not isinstance(steps, list) or not isinstance(steps[0], dict):
            return event
        return data(event, steps=[{**steps[0], "region": "after"}, *steps[1:]])

    forge(trip, trip.saga_ids()[0], change)
    assert "action.identity" in codes(trip)


def test_an_action_that_a_saga_never_announced_is_found(trip: Trip) -> None:
    action_id = trip.get(trip.saga_ids()[0]).steps["flight"].outcome
    assert action_id is not None

    def change(event: Event) -> Event:
        context = event.data.get("context")
        return data(event, context={**context, "saga": "nobody"}) if isinstance(context, dict) else event

    forge(trip, action_id.id, change)
    assert {"saga.member", "saga.step"} <= codes(trip)


def test_an_action_that_names_a_saga_which_never_announced_it_is_found(trip: Trip) -> None:
    other = trip.run(trip.steps("t-2"), operation="op-2")
    outcome = trip.get(trip.saga_ids()[0]).steps["flight"].outcome
    assert outcome is not None

    def change(event: Event) -> Event:
        context = event.data.get("context")
        return data(event, context={**context, "saga": other.id}) if isinstance(context, dict) else event

    forge(trip, outcome.id, change)
    assert f"Action {outcome.id} names saga {other.id}, and the saga never announced the action." in said(trip)


def test_an_action_that_is_gone_is_missed(trip: Trip) -> None:
    outcome = trip.get(trip.saga_ids()[0]).steps["flight"].outcome
    assert outcome is not None
    held = trip.store._content  # type: ignore[attr-defined]
    del held.actions[outcome.id], held.events[outcome.id]
    assert "saga.step" in codes(trip)


def test_a_record_of_the_key_that_says_otherwise_is_found(trip: Trip) -> None:
    saga = trip.saga(trip.saga_ids()[0])
    held = trip.store._content  # type: ignore[attr-defined]
    at = (saga.tenant, saga.key_hash)
    held.keys[at] = replace(held.keys[at], status="COMPLETED")
    assert "key" in codes(trip)
    del held.keys[at]
    assert "key" in codes(trip)


def test_a_stream_that_begins_as_no_saga_is_none(trip: Trip) -> None:
    saga_id = trip.saga_ids()[0]
    held = trip.store._content  # type: ignore[attr-defined]
    held.events[saga_id] = held.events[saga_id][1:]
    assert not audit(trip.store).ok


@pytest.mark.requirement("SAGA-audit")
def test_a_step_s_action_under_another_operation_is_found(trip: Trip) -> None:
    outcome = trip.get(trip.saga_ids()[0]).steps["flight"].outcome
    assert outcome is not None

    def change(event: Event) -> Event:
        return data(event, operation="another") if "operation_kind" in event.data else event

    forge(trip, outcome.id, change)
    assert any(outcome.id in what and "which says otherwise" in what for what in said(trip))


@pytest.mark.requirement("SAGA-audit")
def test_a_reversal_of_something_else_than_the_step_s_effect_is_found(trip: Trip) -> None:
    saga_id = trip.saga_ids()[0]
    reversal = trip.step_events(saga_id, "reverses")
    assert reversal
    undo_id = next(e.data["action"] for e in trip.events(saga_id) if e.data.get("what") == "reverses")

    def change(event: Event) -> Event:
        context = event.data.get("context")
        return data(event, context={**context, "reverses": "rb-another"}) if isinstance(context, dict) else event

    forge(trip, str(undo_id), change)
    assert any("as the reversal of step" in what for what in said(trip))


def test_a_beginning_with_fewer_steps_than_the_definition_is_found(trip: Trip) -> None:
    def change(event: Event) -> Event:
        steps = event.data.get("steps")
        return data(event, steps=steps[:-1]) if isinstance(steps, list) else event

    forge(trip, trip.saga_ids()[0], change)
    assert any("steps, and its definition" in what for what in said(trip))


@pytest.mark.parametrize("to", ["nowhere", "an action"])
def test_a_saga_s_key_that_was_given_to_what_cannot_have_it_is_found(trip: Trip, to: str) -> None:
    saga = trip.saga(trip.saga_ids()[0])
    outcome = trip.get(saga.id).steps["flight"].outcome
    assert outcome is not None
    held = trip.store._content  # type: ignore[attr-defined]
    at = (saga.tenant, saga.key_hash)
    held.keys[at] = replace(held.keys[at], action_id=outcome.id if to == "an action" else to)
    assert any(f"The idempotency record of saga {saga.id} names" in what for what in said(trip))


def test_an_open_saga_s_key_that_was_given_away_is_found() -> None:
    trip = Trip()
    trip.world.faults["car"] = "late"
    assert isinstance(trip.driver.drive(trip.begin(), trip.runtime.now_us() + 5_000_000), Parked)
    first = trip.saga(trip.saga_ids()[0])
    other = trip.run(trip.steps("t-2"), operation="op-2")
    held = trip.store._content  # type: ignore[attr-defined]
    at = (first.tenant, first.key_hash)
    held.keys[at] = replace(held.keys[at], action_id=other.id)
    projected = held.actions[other.id]
    held.actions[other.id] = replace(projected, projection=replace(projected.projection, key_hash=first.key_hash))
    assert any(f"The idempotency record of saga {first.id} names" in what for what in said(trip))
