"""The async client answers as the sync one does; neither wraps the other, so that each is held to it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from readback import AsyncReadback, Context, Readback, State
from readback.errors import NotFoundError, PayloadConflictError, ProposalError, UsageError
from readback.testing.runtime_virtual import US_PER_SECOND, VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened, opened_async, ship_async_of, ship_of

NEVER_RUN = pytest.mark.filterwarnings("ignore::readback.client.proposal.UnusedProposalWarning")


def run(work: Callable[[AsyncReadback], Awaitable[None]], **given: Any) -> None:
    async def main() -> None:
        async with opened_async(**given) as rb:
            await work(rb)

    asyncio.run(main())


def _late(runtime: VirtualRuntime, seconds: float) -> Desk:
    desk, due = Desk(), dict[str, int]()

    def accept(ctx: Context) -> object:
        due[ctx.stamp] = runtime.now_us() + int(seconds * US_PER_SECOND)
        return {"status": "accepted"}

    def land(ctx: Context) -> None:
        if due.get(ctx.stamp, 2**62) <= runtime.now_us():
            desk.order().update(status="shipped", carrier="dhl", stamp=ctx.stamp, version=1)

    desk.instead, desk.looking = accept, land
    return desk


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    def surface(client: type) -> dict[str, list[str]]:
        methods = inspect.getmembers(client, callable)
        return {
            name: list(inspect.signature(method).parameters) for name, method in methods if not name.startswith("_")
        }

    assert surface(Readback) == surface(AsyncReadback)


@pytest.mark.requirement("TRUTH-time-wait")
def test_without_patience_it_is_pending_and_can_be_waited_for() -> None:
    runtime = VirtualRuntime()
    desk = _late(runtime, 30)
    ship = ship_async_of(desk, within="1h", polls=["0s", "10s"])

    async def work(rb: AsyncReadback) -> None:
        pending = await rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=0)
        assert pending.state is State.PENDING
        assert (await rb.wait(pending.id, 1)).state is State.PENDING
        joined = await rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=0)
        assert (joined.id, joined.replayed) == (pending.id, True)
        done = await rb.wait(pending.id)
        assert done.verified
        assert done == await rb.get(done.stamp) == (await rb.list())[0]

    run(work, runtime=runtime)
    assert desk.calls == 1


def test_a_signal_wakes_the_task_that_waits() -> None:
    runtime = VirtualRuntime()
    desk = _late(runtime, 0)
    ship = ship_async_of(desk, within="6h", polls=["0s", "5h"])
    waits = asyncio.Event()
    took = desk.looking

    def land(ctx: Context) -> None:
        if waits.is_set():
            took(ctx)
        elif ctx.observed is not None:
            waits.set()

    desk.looking = land

    async def work(rb: AsyncReadback) -> None:
        with runtime.holding():
            task = asyncio.create_task(rb.run(ship(order_id="o-1", carrier="dhl"), operation="op"))
            await waits.wait()
            while not task.done():
                rb.signal((await rb.list())[0].id)
                await asyncio.wait([task], timeout=0.01)
            assert task.result().verified

    began_us = runtime.now_us()
    run(work, runtime=runtime)
    assert runtime.now_us() - began_us < 3600 * US_PER_SECOND


def test_what_is_due_is_gone_on_with_and_what_is_cancelled_is_reversed() -> None:
    runtime = VirtualRuntime()
    desk = _late(runtime, 30)
    ship = ship_async_of(desk, within="1h", polls=["0s", "10s"])

    @ship.compensate(kind="set", ensure={"open": "authoritative.status == 'open'"}, within="1m")
    async def unship(ctx: Context, order_id: str, carrier: str) -> object:
        desk.order().update(status="open", carrier="", stamp=ctx.stamp, version=9)
        return {"status": "ok"}

    async def work(rb: AsyncReadback) -> None:
        pending = await rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=0)
        assert await rb.resume() == []
        assert (await rb.cancel(pending.id)).state is State.PENDING
        runtime.advance(60)
        [gone_on] = await rb.resume()
        assert gone_on.state is State.COMPENSATED

    run(work, runtime=runtime)


@NEVER_RUN
def test_what_is_refused_calls_nothing() -> None:
    desk, store = Desk(), MemoryStore()
    ship = ship_async_of(desk)

    async def work(rb: AsyncReadback) -> None:
        first = await rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        with pytest.raises(PayloadConflictError):
            await rb.run(ship(order_id="o-1", carrier="ups"), operation="op")
        with pytest.raises(ProposalError):
            await rb.run(ship)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            await rb.run(ship(order_id="o-1", carrier="dhl"), wait=-1)
        with pytest.raises(NotFoundError):
            await rb.get("nothing-of-that-name")
        async with opened_async(store.reopened(), tenant="other") as other:
            with pytest.raises(NotFoundError):
                await other.wait(first.id)
        await rb.close()
        with pytest.raises(UsageError):
            await rb.run(ship(order_id="o-1", carrier="dhl"))
        with pytest.raises(UsageError):
            await rb.resume()

    run(work, store=store.reopened())
    assert desk.calls == 1


def test_each_client_goes_on_with_what_the_other_began() -> None:
    runtime, store = VirtualRuntime(), MemoryStore()
    desk = _late(runtime, 30)
    ship = ship_of(desk, within="1h", polls=["0s", "10s"])
    with opened(store.reopened(), runtime) as sync:
        first = sync.run(ship(order_id="o-1", carrier="dhl"), operation="one", wait=0)

    async def work(rb: AsyncReadback) -> None:
        assert (await rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")).verified
        second = await rb.run(ship(order_id="o-2", carrier="dhl"), operation="two", wait=0)
        assert not second.settled

    run(work, store=store.reopened(), runtime=runtime)
    desk.looking = lambda ctx: desk.order("o-2").update(status="shipped", carrier="dhl", stamp=ctx.stamp, version=1)
    with opened(store.reopened(), runtime) as sync:
        assert sync.run(ship(order_id="o-2", carrier="dhl"), operation="two").verified
        assert sync.get(first.id).verified
    assert desk.calls == 2
