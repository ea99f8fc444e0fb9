"""A process that is paused in the middle of its call, loses its lease, and goes on: one operation, one dispatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from readback.audit.checks.ledger import audit
from readback.domain.action.key_release import KeyRelease
from readback.domain.events import EventKind
from readback.domain.state import State
from readback.drivers.interpreter import EffectInterpreter
from readback.engine.effects import ProveEnded
from readback.engine.engine import Engine
from readback.testing.driver_virtual import VirtualDriver
from tests.lifecycle.house import STAMPED, House

LATE_S = 5
LONG_S = 600


def twin_of(house: House) -> House:
    """Another process on the same ledger, with the same shop and clock."""
    twin = House(store=house.store, runtime=house.runtime, plans=house.plans, scope=house.scope, engine=house.engine)
    twin.shop = house.shop
    twin.driver = VirtualDriver(house.store, house.runtime.sibling("virtual/99"))
    return twin


def paused_in_its_call(engine: Engine, meanwhile: Callable[[House, str], None], **execute: Any) -> tuple[House, str]:
    """The tool of the first process stops before its effect, for longer than lease and late window. `meanwhile` says
    what other processes do then; afterwards the first goes on, and its effect lands.
    """
    house = House(engine=engine)
    house.shop.rows.clear()
    terms = {"kind": "create", "late_window": f"{LATE_S}s", "execute": {"timeout": "1s", **execute}, **STAMPED}
    made, twin = house.action(find=True, **terms), twin_of(house)

    def tool(ctx: Any, args: Any) -> object:
        house.shop.tool = None
        house.runtime.advance(60)
        twin.work(house.shop.now() + LONG_S)
        meanwhile(twin, house.only())
        return house.shop.ship(ctx, args)

    house.shop.tool = tool
    return house, house.run(made).id


@pytest.mark.requirement("TRUTH-keys-second-run", "TRUTH-late-dead", "FLEET-presumed")
@pytest.mark.parametrize("assume_owner_may_be_alive", [False, True])
def test_an_operation_whose_first_process_may_go_on_is_not_dispatched_again(assume_owner_may_be_alive: bool) -> None:
    seen: list[Any] = []

    def meanwhile(twin: House, first: str) -> None:
        seen.append(twin.get(first))
        seen.append(twin.run(twin.action(find=True, kind="create", late_window=f"{LATE_S}s", **STAMPED)))

    house, first = paused_in_its_call(Engine(assume_owner_may_be_alive=assume_owner_may_be_alive), meanwhile)
    assert [told.state for told in seen] == [State.UNKNOWN, State.UNKNOWN]
    assert [told.may_repeat for told in seen] == [False, False]
    assert seen[1].id == first
    assert len(house.shop.calls) == 1
    house.work(2 * 86_400.0)
    assert house.get(first).verified, "what landed after all is seen, although the late window was over"
    assert len(house.shop.calls) == 1
    assert audit(house.store).ok


@pytest.mark.requirement("TRUTH-late-dead")
def test_the_answer_of_a_paused_process_changes_nothing_that_was_recorded_without_it() -> None:
    house, first = paused_in_its_call(Engine(), lambda twin, first: None)
    (resumed,) = [event for event in house.events(first) if event.kind is EventKind.RESUMED]
    assert resumed.data["unproved"] is True
    assert EventKind.OBSERVED not in house.kinds(first)


def test_a_key_that_the_tool_honours_lets_others_go_on_beside_a_paused_process() -> None:
    """The tool knows the key: whichever of the two comes second has no effect of its own."""
    done: list[str] = []
    house, first = paused_in_its_call(
        Engine(),
        lambda twin, first: done.append(twin.get(first).state.value),
        honours_key=True,
        key_valid_for="1d",
    )
    assert done == ["reconciled_success"]
    assert len(house.shop.calls) == 2
    assert len(set(house.shop.keys)) == len(set(house.shop.stamps)) == 1
    assert house.get(first).verified


@pytest.mark.requirement("TRUTH-late-dead", "TRUTH-keys-second-run")
def test_an_attempt_whose_process_has_provably_ended_is_over_with_the_late_window() -> None:
    house = House()
    house.shop.rows.clear()
    made = house.action(find=True, kind="create", late_window=f"{LATE_S}s", **STAMPED)
    ended = paused_and_killed(house, made)
    assert ended.state is State.FAILED
    assert house.folded(ended.id).release is KeyRelease.SEARCHED
    again = house.run(made)
    assert (again.verified, again.id != ended.id) == (True, True)


def paused_and_killed(house: House, made: Any) -> Any:
    """The first process ends in the middle of its call, provably; another takes the attempt over."""
    from readback.testing.driver_virtual import ProcessDied

    def tool(ctx: Any, args: Any) -> object:
        raise ProcessDied

    house.shop.tool = tool
    with pytest.raises(ProcessDied):
        house.run(made)
    house.shop.tool = None
    house.die()
    house.runtime.advance(60)
    house.work(house.shop.now() + LONG_S)
    return house.get(house.only())


@pytest.mark.requirement("TRUTH-late-dead", "TRUTH-keys-second-run")
def test_a_new_attempt_in_this_process_takes_back_the_proof_of_an_earlier_end() -> None:
    house = House()
    desk, owner = EffectInterpreter(house.store, house.runtime), house.runtime.owner()
    assert desk.answer(ProveEnded("a", owner)) is False
    desk.leave({"a": 1})
    assert desk.answer(ProveEnded("a", owner)) is True
    desk.start_call("a")
    assert desk.answer(ProveEnded("a", owner)) is False
