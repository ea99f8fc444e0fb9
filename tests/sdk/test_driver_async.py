"""The async driver: many at once, calls in threads, cancellation, and that nothing is left behind.

Nothing here sleeps: what hangs waits for something that never comes, and is given up or cancelled.
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from readback import AsyncReadback, Context, Outcome, Reading, State, Verdict, action
from readback.client.authoring.action import ActionDefinition
from readback.domain.verification.observation import ObservationStatus
from readback.drivers import driver_async, thread_pool
from readback.ports.storage.store import Append, AppendResult
from readback.stores.sqlite import open_sqlite_store
from readback.testing.runtime_virtual import US_PER_SECOND, VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import PRINCIPAL, TENANT, TERMS, Belongings, Desk, opened, opened_async, ship_async_of, ship_of

NEVER = 60.0
SOON = {"timeout": "50ms"}


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    before = Belongings.now()
    yield
    assert Belongings.now() == before


async def forever(_ctx: Context | None = None) -> None:
    await asyncio.get_running_loop().create_future()


async def turn(times: int = 1) -> None:
    """Lets everything that is ready run."""
    for _ in range(times):
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, lambda: None))


def once(work: Callable[[AsyncReadback], Coroutine[Any, Any, Any]], **given: Any) -> Any:
    """One client on a loop of its own; afterwards no task of it is left."""

    async def main() -> Any:
        async with opened_async(**given) as rb:
            result = await work(rb)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(main())


# --- many at once ---


class Counting:
    """How many appends came in how many batches."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.batches = inner, list[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        self.batches.append(len(batch))
        results: list[AppendResult] = self._inner.append(batch)
        return results


def test_256_actions_at_once_share_their_commits(tmp_path: Path) -> None:
    desk, store = Desk(), Counting(open_sqlite_store(tmp_path / "ledger.db"))
    ship = ship_async_of(desk)

    async def work(rb: AsyncReadback) -> list[Outcome]:
        runs = (rb.run(ship(order_id=f"o-{n}", carrier="dhl"), operation=f"op {n}") for n in range(256))
        return await asyncio.gather(*runs)

    told = once(work, store=store)
    assert [each.verified for each in told] == [True] * 256
    assert sum(store.batches) == 512
    assert len(store.batches) <= 64, store.batches


def test_one_alone_makes_two_commits_and_uses_no_thread(tmp_path: Path) -> None:
    desk, store = Desk(), Counting(open_sqlite_store(tmp_path / "ledger.db"))

    async def work(rb: AsyncReadback) -> bool:
        threads = threading.active_count()
        outcome = await rb.run(ship_async_of(desk)(order_id="o-1", carrier="dhl"), operation="op")
        assert threading.active_count() == threads
        return outcome.verified

    assert once(work, store=store)
    assert store.batches == [1, 1]


def test_of_many_with_the_same_operation_one_acts() -> None:
    desk = Desk()
    ship = ship_async_of(desk)

    async def work(rb: AsyncReadback) -> list[Outcome]:
        return await asyncio.gather(*(rb.run(ship(order_id="o-1", carrier="dhl"), operation="op") for _ in range(50)))

    told = once(work)
    assert desk.calls == 1
    assert {each.id for each in told} == {told[0].id}
    assert [each.replayed for each in told].count(False) == 1
    assert all(each.verified for each in told)


@pytest.mark.requirement("TRUTH-time-runtime")
def test_hundreds_of_hours_pass_side_by_side_in_virtual_time() -> None:
    runtime, began = VirtualRuntime(), {}
    desk = Desk()

    def accept(ctx: Context) -> object:
        began[ctx.stamp] = runtime.now_us()
        return {"status": "accepted"}

    def land(ctx: Context) -> None:
        if ctx.stamp in began and runtime.now_us() >= began[ctx.stamp] + 5 * 3600 * US_PER_SECOND:
            order = ctx.target.removeprefix("order/")
            desk.order(order).update(status="shipped", carrier="dhl", stamp=ctx.stamp, version=1)

    desk.instead, desk.looking = accept, land
    ship, ship_sync = (make(desk, within="6h", polls=["0s", "10m"]) for make in (ship_async_of, ship_of))
    start_us = runtime.now_us()

    async def work(rb: AsyncReadback) -> list[Outcome]:
        runs = (
            rb.run((ship, ship_sync)[n % 2](order_id=f"o-{n}", carrier="dhl"), operation=f"op {n}") for n in range(40)
        )
        return await asyncio.gather(*runs)

    told = once(work, runtime=runtime)
    assert [each.verified for each in told] == [True] * 40
    assert 5 * 3600 <= (runtime.now_us() - start_us) / US_PER_SECOND <= 6 * 3600


# --- sync hands ---


def test_sync_hands_run_beside_the_loop_and_know_the_callers_context() -> None:
    desk, name, seen = Desk(), contextvars.ContextVar("name", default=""), []
    desk.during = lambda _ctx: seen.append(name.get())

    async def work(rb: AsyncReadback) -> bool:
        name.set("ann")
        return (await rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"))).verified

    assert once(work)
    assert threading.get_ident() not in desk.idents
    assert seen == ["ann"]


def test_a_sync_tool_that_hangs_is_given_up_and_left_behind() -> None:
    desk, end = Desk(), threading.Event()
    desk.during = lambda _ctx: end.wait(NEVER) and None

    async def work(rb: AsyncReadback) -> Outcome:
        return await rb.run(ship_of(desk, execute=SOON)(order_id="o-1", carrier="dhl"), operation="op")

    outcome = once(work)
    assert outcome.observation.status is ObservationStatus.TIMEOUT
    assert outcome.verified
    _finish(end)


def test_a_thread_is_kept_for_the_next_call_and_ends_with_the_client() -> None:
    desk, before = Desk(), set(threading.enumerate())
    ship = ship_of(desk)

    def busy() -> bool:
        return any(each.name == "readback-call" for each in set(threading.enumerate()) - before)

    async def work(rb: AsyncReadback) -> set[str]:
        for n in range(5):
            assert (await rb.run(ship(order_id=f"o-{n}", carrier="dhl"), operation=f"op {n}")).verified
            while busy():  # an answer is on its way before the thread that gave it has come back
                await turn()
        return {each.name for each in set(threading.enumerate()) - before if each.name.startswith("readback-")}

    assert "readback-idle" in once(work)
    each = (desk.calls + desk.looks) // 5
    assert len(desk.idents) <= each, "only within an action a call may find that a thread has not come back yet"
    assert not [each for each in threading.enumerate() if each.name == "readback-idle"]


def _finish(end: threading.Event) -> None:
    """Lets what was left behind go: it is a daemon, and would not have kept the process from ending."""
    left = [each for each in threading.enumerate() if each.name == "readback-call"]
    assert left
    assert all(each.daemon for each in left)
    end.set()
    for each in left:
        each.join(NEVER)


class Left:
    """A transaction that a tool leaves open."""

    answer: object = None

    def __init__(self) -> None:
        self.did: list[str] = []

    def read(self) -> Reading:
        self.did.append("read")
        return Reading.absent()

    def commit(self) -> None:
        self.did.append("commit")

    def abandon(self) -> None:
        self.did.append("abandon")


@pytest.mark.requirement("STRATEGY-rollback")
@pytest.mark.parametrize("loop_is_over", [True, False])
def test_a_transaction_that_a_tool_leaves_open_for_nobody_is_dropped(loop_is_over: bool) -> None:
    """The caller has given up by then; left alone it would hold its locks for as long as the process lives."""
    desk, end, left = Desk(), threading.Event(), Left()

    def leave_open(_ctx: Context) -> object:
        end.wait(NEVER)
        return left

    desk.instead = leave_open

    async def work(rb: AsyncReadback) -> Outcome:
        outcome = await rb.run(ship_of(desk, execute=SOON)(order_id="o-1", carrier="dhl"), operation="op")
        if not loop_is_over:
            await asyncio.get_running_loop().run_in_executor(None, _finish, end)
        return outcome

    assert once(work).observation.status is ObservationStatus.TIMEOUT
    if loop_is_over:
        _finish(end)
    assert left.did == ["abandon"]


def test_a_call_that_found_no_thread_in_its_time_is_never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told as not made, and that stays true: it is not begun behind our back when a thread becomes free."""
    monkeypatch.setattr(driver_async, "THREADS_MAX", 1)
    slow, end, desk = Desk(), threading.Event(), Desk()
    slow.during = lambda _ctx: end.wait(NEVER) and None
    blocked = threading.Event()
    slow.looking = lambda _ctx: None

    def block(_ctx: Context) -> None:
        blocked.set()
        end.wait(NEVER)

    slow.during = block
    first = ship_of(slow, name="slow", execute={"timeout": "60s"})
    # Without a state before, so that the tool is the first that asks for a thread.
    second = ship_of(desk, name="late", kind="create", execute=SOON)

    async def work(rb: AsyncReadback) -> Outcome:
        running = asyncio.create_task(rb.run(first(order_id="o-1", carrier="dhl"), operation="one"))
        await asyncio.get_running_loop().run_in_executor(None, blocked.wait, NEVER)
        outcome = await rb.run(second(order_id="o-2", carrier="dhl"), operation="two", wait=0)  # it has no patience
        end.set()
        assert (await running).verified
        return outcome

    outcome = once(work)
    assert (outcome.state, outcome.may_repeat) == (State.FAILED, True)
    assert outcome.observation.status is ObservationStatus.NOT_DISPATCHED
    assert desk.calls == 0


@pytest.mark.parametrize("gives_up", [False, True])
def test_an_action_whose_tool_needs_a_thread_is_begun_when_there_is_one(
    monkeypatch: pytest.MonkeyPatch, gives_up: bool
) -> None:
    """Its attempt was made durable before, came too late to be made, and was told as failed."""
    monkeypatch.setattr(driver_async, "THREADS_MAX", 1)
    end, blocked, first, second, store = threading.Event(), threading.Event(), Desk(), Desk(), MemoryStore()

    def block(_ctx: Context) -> None:
        blocked.set()
        end.wait(NEVER)

    first.during = block

    async def work(rb: AsyncReadback) -> list[Outcome]:
        slow = ship_of(first, name="slow", execute={"timeout": "60s"})(order_id="o-1", carrier="dhl")
        running = asyncio.create_task(rb.run(slow, operation="one"))
        await asyncio.get_running_loop().run_in_executor(None, blocked.wait, NEVER)
        quick = ship_of(second, name="quick", kind="create", execute=SOON)(order_id="o-2", carrier="dhl")
        waiting = asyncio.create_task(rb.run(quick, operation="two"))
        other = ship_async_of(Desk())(order_id="o-3", carrier="dhl")
        assert (await rb.run(other, operation="three")).verified, "it needs no thread, and waits for none"
        assert len(list(store.projections())) == 2, "nothing is on record of what waits"
        if gives_up:
            waiting.cancel()
        end.set()
        told = await asyncio.gather(running, waiting, return_exceptions=True)
        return [each for each in told if isinstance(each, Outcome)]

    told = once(work, store=store)
    assert all(outcome.verified for outcome in told)
    assert (len(told), second.calls) == ((1, 0) if gives_up else (2, 1))


def test_what_waits_for_its_effect_keeps_no_thread_from_another_action(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_async, "THREADS_MAX", 1)
    desk, waits = Desk(), Desk()
    waits.instead = lambda _ctx: {"status": "ok"}  # nothing comes of it, which is looked for a while

    async def work(rb: AsyncReadback) -> tuple[Outcome, bool]:
        first = ship_of(waits, name="waits", within="1h", polls=["0s", "30m"])(order_id="o-1", carrier="dhl")
        running = asyncio.create_task(rb.run(first, operation="one"))
        while waits.looks < 2:
            await turn()
        outcome = await rb.run(ship_of(desk)(order_id="o-2", carrier="dhl"), operation="two")
        began = running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return outcome, began

    runtime = VirtualRuntime()
    with runtime.holding():
        outcome, over = once(work, runtime=runtime)
    assert outcome.verified
    assert not over


def no_new_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the system has no more of them for this process."""
    begin = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == thread_pool.BUSY:
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)


def looked_at_on_the_loop(desk: Desk) -> ActionDefinition[Any]:
    """A sync tool with an async reader, so that the tool alone takes a thread."""

    @action(**{"name": "ship", **TERMS, "late_window": "0s"})
    def ship(ctx: Context, order_id: str, carrier: str) -> object:
        return desk.ship(ctx, order_id, carrier)

    @ship.read(source="orders", consistency="strong", independence="other_client", attributes=True)
    async def look(ctx: Context, order_id: str, carrier: str) -> Reading:
        return desk.look(ctx, order_id)

    return ship


def test_a_call_for_which_no_thread_is_to_be_had_is_never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    ship = looked_at_on_the_loop(desk)

    async def work(rb: AsyncReadback) -> Outcome:
        with monkeypatch.context() as patched:
            no_new_threads(patched)
            outcome = await rb.run(ship(order_id="o-1", carrier="dhl"))
        assert (await rb.run(ship(order_id="o-2", carrier="dhl"))).verified
        return outcome

    outcome = once(work)
    assert (outcome.state, outcome.verdict, desk.calls) == (State.FAILED, Verdict.NOT_CHECKED, 1)
    assert desk.order()["status"] == "open"


def test_what_is_told_as_not_done_for_want_of_a_thread_is_not_done_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another call holds the only thread: the one that found none is done by it, or never."""
    desk, inside, go_on = Desk(), threading.Event(), threading.Event()
    ship = looked_at_on_the_loop(desk)
    told_at: list[int] = []

    def during(_ctx: Context) -> None:
        inside.set()
        assert go_on.wait(NEVER)

    async def work(rb: AsyncReadback) -> Outcome:
        desk.during = during
        first = asyncio.ensure_future(rb.run(ship(order_id="o-1", carrier="dhl"), operation="first"))
        while not inside.is_set():
            await turn()
        desk.during = lambda _ctx: None
        with monkeypatch.context() as patched:
            no_new_threads(patched)
            second = asyncio.ensure_future(rb.run(ship(order_id="o-2", carrier="dhl"), operation="second"))
            await turn(20)
            told_at.append(desk.calls if second.done() else -1)
            go_on.set()
            outcome = await second
        assert (await first).verified
        return outcome

    outcome = once(work)
    assert told_at == [-1], "it waits for the thread that there is"
    assert outcome.verified
    assert desk.calls == 2


@pytest.mark.parametrize("error", [StopIteration("odd"), KeyError("odd"), SystemExit(3), GeneratorExit()])
def test_whatever_a_sync_tool_raises_in_its_thread_is_evidence(error: BaseException) -> None:
    desk = Desk()

    def fail(_ctx: Context) -> None:
        raise error

    desk.during = fail

    async def work(rb: AsyncReadback) -> Outcome:
        return await rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="op")

    outcome = once(work)
    assert outcome.verified
    assert outcome.observation.status in (ObservationStatus.ERROR, ObservationStatus.CANCELLED)


# --- cancellation ---


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("with_await", [True, False], ids=["async tool", "sync tool"])
def test_a_cancellation_during_the_call_is_recorded_before_it_goes_on(landed: bool, with_await: bool) -> None:
    desk, runtime, end = Desk(), VirtualRuntime(), threading.Event()
    called = threading.Event()

    def begin(_ctx: Context) -> None:
        called.set()
        if not with_await:
            end.wait(NEVER)

    desk.during = begin
    if not landed:
        desk.instead = begin
    terms: dict[str, Any] = {"within": "1h", "polls": ["0s", "1s"]}
    ship = ship_async_of(desk, forever, **terms) if with_await else ship_of(desk, **terms)

    async def work(rb: AsyncReadback) -> Outcome:
        task = asyncio.create_task(rb.run(ship(order_id="o-1", carrier="dhl"), operation="op"))
        await asyncio.get_running_loop().run_in_executor(None, called.wait, NEVER)
        await turn(3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        [kept] = await rb.list()
        runtime.advance(10)
        if not landed:
            desk.order().update(status="shipped", carrier="dhl", stamp=kept.stamp, version=1)
            assert [each.verified for each in await rb.resume()] == [True]
        return kept

    kept = once(work, runtime=runtime)
    assert kept.observation.status is ObservationStatus.CANCELLED
    assert (kept.verified, kept.state is State.PENDING) == (landed, not landed)
    assert desk.calls == 1
    if not with_await:
        _finish(end)


class Slow:
    """A store whose next append takes until it is let go."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner, self.begun, self.go, self.slow = inner, threading.Event(), threading.Event(), False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        if self.slow:
            self.begun.set()
            assert self.go.wait(NEVER)
        return self._inner.append(batch)


@pytest.mark.requirement("TRUTH-time-cancel")
@pytest.mark.parametrize("times", [1, 3])
def test_a_cancellation_while_the_attempt_is_recorded_keeps_it_from_being_made(times: int) -> None:
    desk, other, store = Desk(), Desk(), Slow(MemoryStore())
    runtime = VirtualRuntime()

    async def work(rb: AsyncReadback) -> Outcome:
        # Something else is in flight, so that appends are made off the loop.
        company = asyncio.create_task(
            rb.run(ship_async_of(other, forever, name="company")(order_id="o-9", carrier="dhl"), operation="company")
        )
        while not other.calls:
            await turn()
        store.slow = True
        task = asyncio.create_task(rb.run(ship_async_of(desk)(order_id="o-1", carrier="dhl"), operation="op"))
        await asyncio.get_running_loop().run_in_executor(None, store.begun.wait, NEVER)
        for _ in range(times):
            task.cancel()
            await turn()
        store.slow = False
        store.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        company.cancel()
        await asyncio.gather(company, return_exceptions=True)
        [kept] = await rb.list(contract="ship_async")
        return kept

    with runtime.holding():
        kept = once(work, store=store, runtime=runtime)
    assert desk.calls == 0
    assert (kept.state, kept.may_repeat, kept.attempts) == (State.FAILED, True, 1)
    assert kept.observation.status is ObservationStatus.NOT_DISPATCHED


@pytest.mark.requirement("TRUTH-time-durable-wait")
def test_a_cancellation_in_a_wait_leaves_it_pending_for_whoever_comes_next() -> None:
    desk, store = Desk(), MemoryStore()
    runtime = VirtualRuntime()
    desk.instead = lambda _ctx: {"status": "accepted"}
    ship = ship_async_of(desk, within="1h", polls=["0s", "30m"])

    async def work(rb: AsyncReadback) -> None:
        task = asyncio.create_task(rb.run(ship(order_id="o-1", carrier="dhl"), operation="op"))
        with runtime.holding():
            while desk.looks < 2:
                await turn()
            await turn(3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    once(work, store=store.reopened(), runtime=runtime)
    with opened(store, runtime, actions=[ship]) as rb:
        [kept] = rb.list()
        assert kept.state is State.PENDING
        desk.order().update(status="shipped", carrier="dhl", stamp=kept.stamp, version=1)
        runtime.advance(3600)
        assert [each.verified for each in rb.resume()] == [True]


def test_a_cancellation_that_the_tool_raises_itself_is_evidence() -> None:
    desk = Desk()

    async def cancelled(_ctx: Context) -> None:
        raise asyncio.CancelledError

    async def work(rb: AsyncReadback) -> Outcome:
        return await rb.run(ship_async_of(desk, cancelled)(order_id="o-1", carrier="dhl"), operation="op")

    outcome = once(work)
    assert (outcome.observation.status, outcome.verified) == (ObservationStatus.CANCELLED, True)


def test_an_async_tool_that_hangs_is_given_up_and_read_back() -> None:
    desk = Desk()

    async def work(rb: AsyncReadback) -> Outcome:
        ship = ship_async_of(desk, forever, execute=SOON)
        return await rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")

    outcome = once(work)
    assert (outcome.observation.status, outcome.verified) == (ObservationStatus.TIMEOUT, True)


def test_the_end_of_the_loop_by_an_interrupt_is_recorded() -> None:
    """Ctrl-C under asyncio.run: the loop cancels the task, which records what it knows, and goes."""
    desk, store = Desk(), MemoryStore()

    async def press(_ctx: Context) -> None:
        signal.raise_signal(signal.SIGINT)
        await forever()

    async def main() -> None:
        async with opened_async(store.reopened()) as rb:
            await rb.run(ship_async_of(desk, press)(order_id="o-1", carrier="dhl"), operation="op")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    with opened(store) as rb:
        [kept] = rb.list()
    assert kept.observation is not None
    assert (kept.observation.status, kept.verified) == (ObservationStatus.CANCELLED, True)


# --- the client ---


def test_one_client_serves_one_loop_after_another(tmp_path: Path) -> None:
    desk = Desk()
    ship = ship_async_of(desk)
    rb = AsyncReadback.open(f"sqlite:///{tmp_path}/ledger.db", tenant=TENANT, principal=PRINCIPAL)

    async def some(first: int) -> list[bool]:
        runs = (rb.run(ship(order_id=f"o-{n}", carrier="dhl"), operation=f"op {n}") for n in range(first, first + 5))
        return [each.verified for each in await asyncio.gather(*runs)]

    assert asyncio.run(some(0)) == [True] * 5
    assert asyncio.run(some(5)) == [True] * 5
    asyncio.run(rb.close())


def test_a_run_inside_a_tool_is_an_action_of_its_own() -> None:
    desk, inner = Desk(), Desk()
    inner_ship = ship_async_of(inner, name="inner")

    async def work(rb: AsyncReadback) -> Outcome:
        async def nested(_ctx: Context) -> None:
            assert (await rb.run(inner_ship(order_id="o-2", carrier="ups"), operation="inner")).verified

        return await rb.run(ship_async_of(desk, nested)(order_id="o-1", carrier="dhl"), operation="outer")

    assert once(work).verified
    assert (desk.calls, inner.calls) == (1, 1)
