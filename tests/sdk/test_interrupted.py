"""A program that is interrupted in the middle of a step, and goes on: nothing waits for the end of its own leases."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Coroutine, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from readback import AsyncReadback, Outcome
from readback.errors import ReadbackError, StoreLockedError
from readback.ports.storage.store import Append, AppendResult
from readback.ports.storage.store_rules import lease_is_live
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened, opened_async, ship_of
from tests.sdk.test_looking import FarStore
from tests.sdk.test_submit import Kept

US = 1_000_000
VERIFIED_US = 15 * US
"""What the contract gives its verification, and far less than a lease."""


class Interrupted(Kept):
    """Its append of this number is broken off by a signal: before it was kept, or after it."""

    number, kept = 0, False

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        self.number -= 1
        if self.number:
            return super().append(batch)
        if self.kept:
            super().append(batch)
        raise KeyboardInterrupt


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_what_was_interrupted_in_the_middle_of_a_commit_waits_for_no_lease(number: int, *, kept: bool) -> None:
    store, desk, runtime = Interrupted(), Desk(), VirtualRuntime()
    store.number, store.kept = number, kept
    ship = ship_of(desk)
    with opened(store, runtime) as rb:
        with pytest.raises(KeyboardInterrupt):
            rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        before_us = runtime.now_us()
        told = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
    assert runtime.now_us() - before_us <= VERIFIED_US
    assert desk.calls <= 1
    assert told.verified or not desk.calls


def test_a_lease_that_another_thread_of_the_same_process_has_by_now_is_left_to_it() -> None:
    store, desk, runtime = Interrupted(), Desk(), VirtualRuntime()
    ship = ship_of(desk, within="1h")
    with opened(store, runtime) as rb:
        owner = runtime.owner()
        store.number = 2

        def taken(_ctx: object) -> None:
            [action_id] = [each.projection.action_id for each in store.projections()]
            store.release(owner)
            assert store.lease(action_id, owner, runtime.now_us(), runtime.now_us() + 60 * US) is not None

        desk.during = taken
        with pytest.raises(KeyboardInterrupt):
            rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        [held] = store.projections()
        assert held.projection.lease_until_us > runtime.now_us()
        assert held.projection.lease_owner == owner


class Locked(Interrupted):
    """Not a signal, but an error."""

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        try:
            return super().append(batch)
        except KeyboardInterrupt:
            raise StoreLockedError("The database is locked.") from None


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("with_await", [False, True])
def test_what_ended_in_an_error_of_the_store_is_asked_for_again_without_waiting_for_its_own_lease(
    number: int, *, kept: bool, with_await: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where it is written down that the record failed
    store, desk, runtime = Locked(), Desk(), VirtualRuntime()
    store.number, store.kept = number, kept
    ship = ship_of(desk)

    async def twice() -> Outcome:
        async with opened_async(store, runtime) as rb:
            with pytest.raises(ReadbackError):
                await rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
            return await rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")

    before_us = runtime.now_us()
    if with_await:
        told = asyncio.run(twice())
    else:
        with opened(store, runtime) as rb:
            with pytest.raises(ReadbackError):
                rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
            told = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
    assert runtime.now_us() - before_us <= VERIFIED_US
    assert desk.calls <= 1
    assert told.verified or not desk.calls


class Counting:
    """A coroutine that is cancelled when it stops for the `at`th time; `stops`: how often it did."""

    def __init__(self, work: Coroutine[Any, Any, object], at: int) -> None:
        self._work, self._at, self.stops = work, at, 0

    async def whole(self) -> object:
        return await self

    def __await__(self) -> Generator[Any, Any, object]:
        task, send, given = asyncio.current_task(), self._work.send, None
        assert task is not None
        while True:
            try:
                waits_for = send(given)
            except StopIteration as end:
                return end.value
            self.stops += 1
            if self.stops == self._at:
                asyncio.get_running_loop().call_soon(task.cancel)
            try:
                send, given = self._work.send, (yield waits_for)
            except BaseException as thrown:  # tidy: boundary -- handed on to the coroutine that waits
                send, given = self._work.throw, thrown


async def _ran(rb: AsyncReadback, desk: Desk) -> Outcome:
    return await rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="op")


async def _left_and_waited_for(rb: AsyncReadback, desk: Desk) -> Outcome:
    return await rb.wait(await rb.submit(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="op"))


async def _saga(rb: AsyncReadback, desk: Desk) -> Outcome:
    ship = ship_of(desk)
    return await rb.saga([ship(order_id="o-1", carrier="dhl").as_step("only", pivot=True)], operation="op")


@pytest.mark.parametrize("store_of", [MemoryStore, FarStore])
@pytest.mark.parametrize("work", [_ran, _left_and_waited_for, _saga])
def test_what_is_cancelled_at_whatever_moment_leaves_no_lease_behind(
    work: Callable[[AsyncReadback, Desk], Coroutine[Any, Any, Outcome]], store_of: type[MemoryStore]
) -> None:
    async def cancelled(at: int) -> bool:
        store, desk, runtime = store_of(), Desk(), VirtualRuntime()
        async with opened_async(store, runtime) as rb:
            counting = Counting(work(rb, desk), at)
            task = asyncio.create_task(counting.whole())
            with contextlib.suppress(asyncio.CancelledError):
                await task
        left = [each.projection for each in store.reopened().projections()]
        live = [each for each in left if lease_is_live(each.lease_owner, each.lease_until_us, runtime.now_us())]
        assert not live, at
        assert desk.calls <= 1
        return counting.stops >= at

    async def at_each() -> int:
        at = 1
        while await cancelled(at):
            at += 1
        return at

    assert asyncio.run(at_each()) > 3
