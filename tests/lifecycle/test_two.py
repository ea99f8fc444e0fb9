"""Two processes and one action: whoever comes second joins, takes over what was left, or gives way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from readback.audit.checks.ledger import audit
from readback.domain.context import Context
from readback.domain.events import EventKind
from readback.domain.state import State
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import PayloadConflictError
from readback.testing.driver_virtual import CallHangs, VirtualDriver
from tests.lifecycle.house import STAMPED, House


def _other(house: House) -> House:
    """Another process on the same ledger, with the same shop and clock."""
    twin = House(store=house.store, runtime=house.runtime, plans=house.plans, scope=house.scope)
    twin.shop = house.shop
    twin.driver = VirtualDriver(house.store, house.runtime.sibling("virtual/99"))
    return twin


def _once(act: Callable[[], object]) -> Callable[[], None]:
    done: list[bool] = []

    def do() -> None:
        if not done:
            done.append(True)
            act()

    return do


@pytest.mark.requirement("HS-06", "TRUTH-keys-second-run", "PRINCIPLE-idempotency")
def test_a_run_that_comes_between_is_joined_and_not_doubled(house: House) -> None:
    """Both found no record under the key; one of them reserves it first."""
    made, twin = house.action(), _other(house)
    between = _once(lambda: twin.run(made))
    show = house.shop.show

    def look(ctx: Context, args: Any) -> Reading:
        shown = show(args)
        between()
        return shown

    house.shop.eyes = look
    told = house.run(made)
    assert (told.verified, told.replayed) == (True, True)
    assert len(house.shop.calls) == 1
    assert len(list(house.store.projections())) == 1


def test_a_run_that_comes_between_with_another_payload_is_refused(house: House) -> None:
    made, twin = house.action(), _other(house)
    between = _once(lambda: twin.run(made, status="returned"))
    show = house.shop.show

    def look(ctx: Context, args: Any) -> Reading:
        shown = show(args)
        between()
        return shown

    house.shop.eyes = look
    with pytest.raises(PayloadConflictError):
        house.run(made)
    assert house.shop.rows["o-1"]["status"] == "returned"
    assert len(house.shop.calls) == 1


def test_a_second_run_during_the_call_waits_for_the_first(house: House) -> None:
    made, twin = house.action(), _other(house)
    heard: list[object] = []

    def tool(ctx: Context, args: Any) -> object:
        heard.append(twin.run(made, wait_s=2).state)
        return house.shop.ship(ctx, args)

    house.shop.tool = tool
    assert house.run(made).verified
    assert heard == [State.EXECUTING]
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("TRUTH-time-level-based", "HS-05")
@pytest.mark.parametrize("landed", ["before", "after", "never"])
def test_a_process_that_slept_through_its_lease_gives_way_to_who_took_over(house: House, landed: str) -> None:
    """The call takes longer than the lease: another process finds an attempt without an observation, and reads."""
    made, twin = house.action(late_window="1h", compensate={}, **STAMPED), _other(house)
    heard: list[Any] = []

    def tool(ctx: Context, args: Any) -> object:
        if landed == "before":
            house.shop.ship(ctx, args)
        house.runtime.advance(60)
        heard.append(twin.wait(house.only()))
        if landed == "after":
            house.shop.ship(ctx, args)
        raise CallHangs

    house.shop.tool = tool
    told = house.run(made)
    assert heard[0].verified is (landed == "before")
    assert heard[0].state in (State.RECONCILED_SUCCESS, State.UNKNOWN)
    assert told.id == heard[0].id
    house.work(house.shop.now() + 3_600)
    ended = house.get(told.id)
    assert ended.verified is (landed != "never")
    assert len(house.shop.calls) == 1
    assert house.kinds(told.id).count(EventKind.OBSERVED) == 0  # the late one had lost its lease
    assert audit(house.store).ok


@pytest.mark.requirement("TRUTH-time-level-based")
def test_a_reading_that_outlasts_its_lease_is_thrown_away(house: House) -> None:
    made, twin = house.action(), _other(house)
    asleep = _once(lambda: (house.runtime.advance(120), twin.wait(house.only())))

    def look(ctx: Context, args: Any) -> Reading:
        shown = house.shop.show(args)
        if house.shop.calls:
            asleep()
        return shown

    house.shop.eyes = look
    told = house.run(made)
    assert told.verified
    assert len(house.shop.calls) == 1
    assert house.kinds(told.id).count(EventKind.JUDGED) == 1
    assert audit(house.store).ok


def test_two_workers_that_look_at_the_same_time_make_one_judgement_of_it(house: House) -> None:
    house.shop.tool = lambda ctx, args: (202, {})
    made, twin = house.action(), _other(house)
    pending = house.run(made, wait_s=1)
    house.shop.rows["o-1"].update(status="shipped", version=2)
    house.runtime.advance(5)
    again = _once(lambda: twin.work(house.shop.now()))

    def look(ctx: Context, args: Any) -> Reading:
        again()
        return house.shop.show(args)

    house.shop.eyes = look
    house.work(house.shop.now())
    assert house.get(pending.id).verified
    success = [event for event in house.events(pending.id) if State.RECONCILED_SUCCESS in event.path]
    assert len(success) == 1
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("L19", "TRUTH-hold-compensation")
def test_two_processes_do_not_reverse_twice(house: House) -> None:
    house.shop.rows.clear()
    made, twin = house.action(kind="create", compensate={}, **STAMPED), _other(house)
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")

    def undo(ctx: Context, args: Any) -> object:
        house.runtime.advance(120)
        for stored in list(house.store.projections()):
            twin.wait(stored.projection.action_id, wait_s=1)
        house.shop.rows.pop(args["item"], None)
        return {"status": "ok"}

    house.shop.undo = undo
    told = house.run(made)
    house.work(house.shop.now() + 86_400)
    ended = house.get(told.id)
    assert ended.state is State.COMPENSATED
    assert len(house.shop.undone) == 1
    assert audit(house.store).ok


def test_a_second_attempt_is_made_by_one_of_two(house: House) -> None:
    shop = house.shop
    made = house.action(lookup=True, execute={"timeout": "1s", "honours_key": True}, **STAMPED)
    twin = _other(house)
    shop.record = lambda ctx, args: Lookup.failed("declined")

    def tool(ctx: Context, args: Any) -> object:
        if len(shop.calls) == 1:
            return (500, {})
        house.runtime.advance(60)
        twin.wait(house.only(), wait_s=1)
        return shop.ship(ctx, args)

    shop.tool = tool
    told = house.run(made)
    house.work(house.shop.now() + 120)
    assert house.get(told.id).verified
    assert len(shop.calls) == 2
    assert audit(house.store).ok
