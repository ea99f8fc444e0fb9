"""A client that works: the same as `readback worker`, in a program."""

from __future__ import annotations

import asyncio
import threading

import pytest

from readback import Context, State
from readback.drivers import driver_async
from readback.errors import StoreError, UsageError
from readback.testing.runtime_virtual import VirtualRuntime
from tests.sdk.given import Desk, opened, opened_async, ship_async_of, ship_of
from tests.sdk.test_submit import ARGUMENTS, Kept


def submitted(store: Kept, number: int, name: str = "ship", tenant: str = "acme") -> list[str]:
    with opened(store, VirtualRuntime(seed=len(tenant)), tenant=tenant) as rb:
        given = [{**ARGUMENTS, "order_id": f"{tenant}-{n}"} for n in range(number)]
        return [rb.submit(name, each, operation=each["order_id"]) for each in given]


@pytest.mark.requirement("FLEET-wakeups")
def test_a_client_works_until_nothing_is_left() -> None:
    store, desk = Kept(), Desk()
    ids = submitted(store, 5)
    with opened(store, actions=[ship_of(desk)]) as rb:
        assert rb.work(until_idle=True) == 5
        assert all(rb.get(each).verified for each in ids)


@pytest.mark.requirement("FLEET-wakeups")
def test_each_action_in_hand_has_a_thread_for_its_sync_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more in hand than there were threads, attempts came too late to be made, and were told as failed."""
    monkeypatch.setattr(driver_async, "THREADS_MAX", 1)
    store, desk, all_there = Kept(), Desk(), threading.Barrier(3, timeout=5)
    ids = submitted(store, 3)
    desk.during = lambda _ctx: all_there.wait() and None
    with opened(store, actions=[ship_of(desk, execute={"timeout": "60s"})]) as rb:
        rb.work(concurrency=3, until_idle=True)
        assert all(rb.get(each).verified for each in ids)
    assert desk.calls == 3
    assert not all_there.broken


@pytest.mark.requirement("FLEET-wakeups")
def test_it_stays_until_it_is_stopped_from_another_thread() -> None:
    store, desk = Kept(), Desk()
    [name] = submitted(store, 1)
    with opened(store, actions=[ship_of(desk)]) as rb:
        desk.during = lambda _ctx: rb.stop_work()
        told: list[int] = []
        working = threading.Thread(target=lambda: told.append(rb.work(poll=0.01)))
        working.start()
        working.join(30)
        assert told == [1]
        assert rb.get(name).verified


@pytest.mark.requirement("FLEET-dead")
def test_work_that_is_cancelled_leaves_its_calls_on_record() -> None:
    async def go() -> None:
        store, desk, begun = Kept(), Desk(), asyncio.Event()

        async def wait(_ctx: object) -> None:
            begun.set()
            await asyncio.Event().wait()

        [name] = submitted(store, 1, "ship_async")
        async with opened_async(store, actions=[ship_async_of(desk, wait)]) as rb:
            working = asyncio.create_task(rb.work())
            await begun.wait()
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            kinds = [event.kind for event in store.events(name)]
            assert kinds[:4] == ["proposed", "admitted", "read", "attempted"]
            assert "observed" in kinds
            assert (await rb.get(name)).state is not State.PROPOSED
        assert desk.calls == 1

    asyncio.run(go())


def test_it_serves_its_own_tenant_or_those_that_are_named() -> None:
    store, desk = Kept(), Desk()
    submitted(store, 2)
    submitted(store, 2, tenant="globex")
    with opened(store, actions=[ship_of(desk)]) as rb:
        assert rb.work(until_idle=True) == 2
        assert desk.calls == 2
        assert rb.work(until_idle=True, tenants=["globex"]) == 2
        for wrong in ({"concurrency": 0}, {"poll": 0.0}, {"tenants": ["a"], "all_tenants": True}):
            with pytest.raises(UsageError):
                rb.work(**wrong)


@pytest.mark.parametrize("asked", ["due", "next_due_us"])
def test_a_ledger_that_cannot_be_asked_for_work_any_more_cancels_nothing_that_is_in_hand(asked: str) -> None:
    async def go() -> None:
        store, desk = Kept(), Desk()
        begun, met, over = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def wait(_ctx: object) -> None:
            begun.set()
            await over.wait()

        def broken(*_: object) -> object:
            met.set()
            raise StoreError("The disk failed.", code="store.io")

        [name] = submitted(store, 1, "ship_async")
        async with opened_async(store, actions=[ship_async_of(desk, wait)]) as rb:
            working = asyncio.create_task(rb.work(poll=0.01))
            await begun.wait()
            setattr(store, asked, broken)
            await met.wait()
            over.set()
            with pytest.raises(StoreError, match="The disk failed"):
                await working
            assert (await rb.get(name)).verified
        assert desk.calls == 1

    asyncio.run(go())


@pytest.mark.parametrize("ends", [SystemExit(3), GeneratorExit()], ids=repr)
def test_an_action_that_would_end_the_process_ends_neither_the_worker_nor_what_is_in_hand_beside_it(
    ends: BaseException,
) -> None:
    async def go() -> None:
        store, desk = Kept(), Desk()
        met = asyncio.Event()

        async def poison(ctx: Context) -> None:
            if ctx.operation == "acme-0":
                await met.wait()
                raise ends
            met.set()

        ids = submitted(store, 3, "ship_async")
        async with opened_async(store, actions=[ship_async_of(desk, poison)]) as rb:
            await rb.work(until_idle=True)
            told = [await rb.get(each) for each in ids]
            assert [each.verified for each in told] == [True, True, True]
            assert told[0].observation is not None
            assert told[0].observation.code == "exception"

    asyncio.run(go())
