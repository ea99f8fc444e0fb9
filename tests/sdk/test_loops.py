"""One client and several event loops; loops that end in the middle; and what would end a loop that others share."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from readback import AsyncReadback, Context, Outcome, Readback
from readback.errors import UsageError
from readback.ports.storage.store import Append, AppendResult
from tests.sdk.given import PRINCIPAL, TENANT, Desk, opened, opened_async, ship_async_of
from tests.sdk.test_submit import Kept

PATIENCE_S = 20


def test_a_client_that_is_at_work_on_one_loop_refuses_another_and_goes_on() -> None:
    said: list[object] = []
    rb = opened_async()

    def on_another_loop() -> None:
        try:
            said.append(asyncio.run(run(rb, "b")))
        except UsageError as error:
            said.append(error)

    async def wait(ctx: Context) -> None:
        if ctx.operation == "a":
            thread = threading.Thread(target=on_another_loop)
            thread.start()
            thread.join(PATIENCE_S)

    ship = ship_async_of(Desk(), wait)

    async def run(rb: AsyncReadback, operation: str) -> Outcome:
        return await rb.run(ship(order_id=f"o-{operation}", carrier="dhl"), operation=operation)

    assert asyncio.run(run(rb, "a")).verified
    [refusal] = said
    assert isinstance(refusal, UsageError)
    assert "another event loop" in refusal.message
    assert "Open one client for each" in refusal.remedy
    assert asyncio.run(run(rb, "c")).verified
    asyncio.run(rb.close())


class Slow(Kept):
    """A commit that begins is over when somebody says so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.over = threading.Event(), threading.Event()

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        self.begun.set()
        assert self.over.wait(PATIENCE_S)
        return super().append(batch)


def test_a_loop_that_is_closed_in_the_middle_of_a_commit_keeps_no_later_one_waiting() -> None:
    store, desk = Slow(), Desk()
    ship = ship_async_of(desk)
    rb = opened_async(store)

    async def run(operation: str) -> Outcome:
        return await rb.run(ship(order_id=f"o-{operation}", carrier="dhl"), operation=operation)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # that tasks are destroyed while they wait
    left = [loop.create_task(run(operation)) for operation in ("a", "b")]  # of one alone no thread would be needed
    while not store.begun.is_set():
        loop.call_soon(loop.stop)
        loop.run_forever()
    loop.close()
    del left
    store.over.set()

    async def again() -> Outcome:
        return await asyncio.wait_for(run("c"), PATIENCE_S)

    assert asyncio.run(again()).verified
    assert desk.calls == 1
    asyncio.run(rb.close())


@pytest.mark.parametrize("ends", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_an_async_tool_that_ends_the_program_leaves_a_sync_client_that_works(ends: BaseException) -> None:
    async def end(ctx: Context) -> None:
        if ctx.operation == "a":
            raise ends

    ship = ship_async_of(Desk(), end)
    with opened() as rb:
        with pytest.raises(type(ends)):
            rb.run(ship(order_id="o-a", carrier="dhl"), operation="a")
        assert rb.run(ship(order_id="o-b", carrier="dhl"), operation="b").verified
        assert rb.run(ship(order_id="o-a", carrier="dhl"), operation="a").verified  # it landed, and is read back


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads, which is what this is about
def test_a_child_that_was_forked_closes_the_client_that_it_was_left_and_the_parents_works_on(tmp_path: Path) -> None:
    ship = ship_async_of(Desk())
    with Readback.open(f"sqlite:///{tmp_path}/ledger.db", tenant=TENANT, principal=PRINCIPAL) as rb:
        assert rb.run(ship(order_id="o-a", carrier="dhl"), operation="a").verified
        child = os.fork()
        if not child:
            try:
                rb.close()
            except BaseException:  # the child must not come back to the tests
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert rb.run(ship(order_id="o-b", carrier="dhl"), operation="b").verified
