"""Every transition of the table is walked: real histories of actions and sagas are played, and their entries read.

A look at the table alone (`tests/unit/test_state.py`) shows that a transition is permitted. It does not show that
anything takes it. A permitted transition that no history takes has no use, and leaves the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from typing import Any, Final

import pytest

from readback.domain.context import Context
from readback.domain.events import open_envelope
from readback.domain.state import TRANSITIONS, State
from readback.errors import NotDispatchedError
from readback.ports.storage.store import LedgerStore
from readback.testing.driver_virtual import Parked
from tests.lifecycle.house import HIGH, STAMPED, House
from tests.lifecycle.reviewing import doubtful, held, resolve
from tests.lifecycle.rows import WALKS, Stage
from tests.lifecycle.scenes import SCENES
from tests.lifecycle.test_saga_review import resolve as resolve_saga
from tests.lifecycle.test_staged import staging
from tests.lifecycle.trip import DAY, S, Trip
from tests.requirements.manifest import requirement_ids

pytestmark = pytest.mark.slow

HORIZON_S: Final = 40 * 86_400.0
Step = tuple[State, State]


def _row(row_id: str) -> LedgerStore:
    stage = Stage()
    WALKS[row_id].play(stage.house)
    return stage.house.store


def _scene(number: int) -> LedgerStore:
    house = House()
    house.run(SCENES[number].set_up(house))
    house.work(HORIZON_S)
    return house.store


def _saga(name: str, fault: str, undo: str = "") -> LedgerStore:
    trip = Trip()
    trip.world.faults.update({name: fault} if fault else {})
    trip.world.undo_faults.update({"hotel": undo} if undo else {})
    trip.run()
    trip.work(30 * DAY)
    return trip.store


def _saga_decided(decision: str) -> LedgerStore:
    trip = Trip()
    trip.world.faults["ticket"] = "refused"
    saga = trip.run()
    trip.work(30 * DAY)
    trip.world.faults.clear()
    resolve_saga(trip, saga.id, decision)
    trip.work()
    return trip.store


def _saga_cancelled() -> LedgerStore:
    trip = Trip()
    trip.world.faults["car"] = "late"
    assert isinstance(trip.driver.drive(trip.begin(), trip.runtime.now_us() + 5 * S), Parked)
    trip.stop(trip.saga_ids()[0])
    trip.work()
    return trip.store


def _decided(decision: str) -> LedgerStore:
    """An action that nothing can verify waits for a person, and the person decides."""
    house = House()
    action_id = house.run(held(house)).id
    if decision == "reopen":
        resolve(house, action_id, "attest_not_done")
    resolve(house, action_id, decision)
    return house.store


def _verified_again() -> LedgerStore:
    house = House()
    action_id = house.run(doubtful(house)).id
    house.shop.eyes = None
    resolve(house, action_id, "verify_again")
    return house.store


def _wrong_and_reversed() -> LedgerStore:
    house = House()
    house.shop.rows.clear()
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    identity = {**HIGH["identity"], "stamp": "authoritative.stamp"}
    made = house.action(kind="create", noop=None, compensate={}, find=True, **{**HIGH, "identity": identity})
    resolve(house, house.run(made).id, "compensate")
    return house.store


def _never_sent() -> LedgerStore:
    house = House()

    def tool(ctx: Context, args: Mapping[str, Any]) -> object:
        raise NotDispatchedError("no line")

    house.shop.tool = tool
    house.run(house.action())
    return house.store


def _dropped_inside() -> LedgerStore:
    house = House()
    staging(house, refuses=True)
    house.run(house.action(**STAMPED))
    return house.store


def _contract_changed() -> LedgerStore:
    """Its contract changes while it waits for an approval."""
    house = House()
    asked: Mapping[str, Any] = {"approval": {"people": 1, "expires": "1h"}}
    action_id = house.run(house.action(**asked)).id
    house.action(**asked, version="2")
    assert house.store.make_due(action_id, house.runtime.now_us())
    house.work(1)
    return house.store


def _saga_reversal_stopped() -> LedgerStore:
    """A person orders the reversal of a saga whose step stays unknown."""
    trip = Trip()
    trip.world.faults.update(flight="refused", hotel="blind")
    saga_id = trip.run().id
    trip.work(2 * DAY)
    hotel = trip.get(saga_id).steps["hotel"].outcome
    assert hotel is not None
    resolve_saga(trip, saga_id, "compensate")
    trip.work(2 * DAY)
    return trip.store


HISTORIES: Final[Mapping[str, Callable[[], LedgerStore]]] = {
    **{f"row {row_id}": lambda row_id=row_id: _row(row_id) for row_id in WALKS},
    **{f"scene {scene.name}": lambda number=number: _scene(number) for number, scene in enumerate(SCENES)},
    **{
        f"saga {name} {fault}": lambda name=name, fault=fault: _saga(name, fault)
        for name, fault in product(("car", "charge", "ticket"), ("refused", "late", "lost", "wrong", "once"))
    },
    "saga without a fault": lambda: _saga("", ""),
    "saga with an unfinished reversal": lambda: _saga("car", "refused", "lies"),
    "saga cancelled": _saga_cancelled,
    "saga gone forward with by a person": lambda: _saga_decided("go_forward"),
    "saga abandoned": lambda: _saga_decided("abandon"),
    "reopened by a person": lambda: _decided("reopen"),
    "abandoned by a person": lambda: _decided("abandon"),
    "verified again by a person": _verified_again,
    "reversed by a person": _wrong_and_reversed,
    "never sent": _never_sent,
    "dropped inside its boundary": _dropped_inside,
    "contract changed under an approval": _contract_changed,
    "saga whose ordered reversal is stopped": _saga_reversal_stopped,
}


def steps_of(store: LedgerStore) -> set[Step]:
    """Each step from one state to the next that the entries of a ledger hold."""
    steps: set[Step] = set()
    for stored in store.projections():
        before = None
        for entry in store.events(stored.projection.action_id):
            for after in open_envelope(entry.envelope).event.path:
                if before is not None:
                    steps.add((before, after))
                before = after
    return steps


@cache
def walked() -> Mapping[Step, str]:
    """Every step that a history takes, with the name of the first such history."""
    return {step: name for name, play in reversed(HISTORIES.items()) for step in steps_of(play())}


@pytest.mark.parametrize("requirement_id", requirement_ids("TRANSITION"))
def test_each_transition_is_taken_by_an_action_or_a_saga(requirement_id: str) -> None:
    before, after = (State(part.replace("-", "_")) for part in requirement_id.removeprefix("STATE-").split("->"))
    assert (before, after) in walked()


@pytest.mark.parametrize("requirement_id", requirement_ids("STATE"))
def test_each_state_is_entered_by_an_action_or_a_saga(requirement_id: str) -> None:
    state = State(requirement_id.removeprefix("STATE-").replace("-", "_"))
    assert state is State.PROPOSED or any(after is state for _, after in walked())


def test_no_history_takes_a_step_that_the_table_does_not_have() -> None:
    permitted = {(before, step.to) for before, steps in TRANSITIONS.items() for step in steps}
    assert set(walked()) == permitted
