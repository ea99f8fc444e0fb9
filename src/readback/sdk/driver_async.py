"""The async driver: does what the engine asks for, on the caller's event loop, any number of actions at once.

One of the two places that may call a tool. Appends of actions in flight share commits: whatever is ready when a commit
begins goes into it. Sync callables run in daemon threads, so that one that hangs can be given up on and does not keep
the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast

from readback.domain.context import Context
from readback.lifecycle.steps import (
    Answer,
    Called,
    Commit,
    Committed,
    Dispatch,
    Ending,
    Lease,
    Settle,
    Step,
    Take,
    Wait,
    Woken,
)
from readback.ports.acting import Hand
from readback.ports.runtime import Runtime
from readback.ports.store import Append, AppendResult, LedgerStore
from readback.sdk.driver_steps import SLICE_FIRST_SECONDS, SLICE_MAX_SECONDS, Desk, Parked, ended, hand_of, raised

T = TypeVar("T")
US = 1_000_000
BATCH_MAX: Final = 256
THREADS_MAX: Final = 64


class GroupCommit:
    """Collects appends of one event loop and makes them durable together, off the loop.

    An append waits one turn of the loop for others that are ready. Alone, it is made on the loop itself: a hop to a
    thread and back costs about as much as a third of the commit.
    """

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._queue: list[tuple[Append, asyncio.Future[AppendResult]]] = []
        self._task: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="readback-writer")
        self.active = 0

    async def append(self, append: Append) -> AppendResult:
        """Durable when it returns. Raises what the store raises; then nothing of the batch was kept."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[AppendResult] = loop.create_future()
        self._queue.append((append, future))
        if self._task is None:
            self._task = loop.create_task(self._flush())
        return await future

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._queue:
                await _turn()  # whoever is ready in this turn of the loop comes along
                batch, self._queue = self._queue[:BATCH_MAX], self._queue[BATCH_MAX:]
                appends = [a for a, _ in batch]
                try:
                    if self.active <= 1:
                        results = self._store.append(appends)
                    else:
                        results = await loop.run_in_executor(self._writer, self._store.append, appends)
                except Exception as error:  # tidy: boundary -- handed to every one that waits for this commit
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(error)
                    continue
                for (_, future), result in zip(batch, results, strict=True):
                    if not future.done():
                        future.set_result(result)
        finally:
            self._task = None

    async def off_loop(self, call: Any, *args: Any) -> Any:
        """Another write, in the writer's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, call, *args)

    def close(self) -> None:
        self._writer.shutdown(wait=True)


async def _turn() -> None:
    """Lets everything that is ready on the loop run once."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.call_soon(ready.set_result, None)
    await ready


class AsyncDriver:
    """Drives actions on one event loop."""

    def __init__(self, store: LedgerStore, runtime: Runtime) -> None:
        self._desk = Desk(store, runtime)
        self._commit = GroupCommit(store)
        self._threads = threading.BoundedSemaphore(THREADS_MAX)

    async def drive(self, work: Generator[Step, Answer, T], give_up_us: int | None = None) -> T | Parked:
        """To the end of the work, or until `give_up_us`, when it would have to wait longer.

        A cancellation during a call is an observation, made durable before the cancellation goes on.
        """
        self._commit.active += 1
        interrupt: BaseException | None = None
        try:
            step = next(work)
            while True:
                if isinstance(step, Wait):
                    if interrupt is not None or not await self._wait(step, give_up_us):
                        break
                    answer: Answer = Woken(self._desk.runtime.now_us())
                else:
                    try:
                        answer = await self._do(step)
                    except Exception as error:  # tidy: boundary -- the engine decides what a failed step means
                        step = work.throw(error)
                        continue
                    if isinstance(answer, Called) and answer.ending is Ending.CANCELLED:
                        interrupt = answer.error
                step = work.send(answer)
        except StopIteration as stop:
            if interrupt is not None:
                raise interrupt from None
            return cast(T, stop.value)
        finally:
            self._commit.active -= 1
        work.close()
        if interrupt is not None:
            raise interrupt
        assert isinstance(step, Wait)
        return Parked(step.action_id)

    async def _do(self, step: Step) -> Answer:
        match step:
            case Commit(append):
                result = await self._commit.append(append)
                return Committed(result, self._desk.runtime.now_us())
            case Dispatch():
                now_us = self._desk.runtime.now_us()
                if now_us > step.not_after_us:
                    return ended(Ending.NOT_MADE, now_us, now_us)
                return await self._call(step.plan.hands.execute, step.context, step.arguments, step.timeout_us)
            case Take() | Settle():
                return await self._call(hand_of(step), step.context, step.arguments, step.timeout_us)
            case Wait():
                raise AssertionError("a wait is not done but waited")
            case Lease():
                answer: Answer = await self._commit.off_loop(self._desk.answer, step)
                return answer
            case _:
                return self._desk.answer(step)

    async def _call(self, hand: Hand, context: Context, arguments: Mapping[str, object], timeout_us: int) -> Called:
        now, started = self._desk.runtime.now_us, self._desk.runtime.now_us()
        limit = asyncio.timeout(timeout_us / US)
        try:
            async with limit:
                if hand.is_async:
                    value = await cast("Coroutine[Any, Any, object]", hand.call(context, arguments))
                else:
                    value = await self._in_thread(hand, context, arguments)
        except asyncio.CancelledError as stop:
            return Called(Ending.CANCELLED, None, stop, started, now())
        except TimeoutError as error:
            if limit.expired():
                return ended(Ending.TIMED_OUT, started, now())
            return raised(error, started, now())
        except Exception as error:  # tidy: boundary -- whatever user code raises is evidence, never our failure
            return raised(error, started, now())
        return Called(Ending.RETURNED, value, None, started, now())

    async def _in_thread(self, hand: Hand, context: Context, arguments: Mapping[str, object]) -> object:
        """A sync callable in a daemon thread: it may be left behind, and must not hold up the interpreter's end."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()

        def settle(value: object, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

        def work() -> None:
            value, error = None, None
            with self._threads:
                try:
                    value = hand.call(context, arguments)
                except BaseException as caught:  # tidy: boundary -- carried over to the awaiting task
                    error = caught if isinstance(caught, Exception) else RuntimeError(repr(caught))
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, value, error)

        threading.Thread(target=work, name="readback-call", daemon=True).start()
        return await future

    async def _wait(self, step: Wait, give_up_us: int | None) -> bool:
        """Sleeps until it is time, or somebody moved the action; false if the caller's patience ends first."""
        desk = self._desk
        runtime, version, pause = desk.runtime, desk.version(step.action_id), SLICE_FIRST_SECONDS
        while True:
            now_us = runtime.now_us()
            if now_us >= step.until_us:
                return True
            if give_up_us is not None and now_us >= give_up_us:
                return False
            end = step.until_us if give_up_us is None else min(step.until_us, give_up_us)
            await runtime.sleep_async(min((end - now_us) / US, pause))
            pause = min(pause * 2, SLICE_MAX_SECONDS)
            if desk.stirred(step.action_id, version):
                return True

    def close(self) -> None:
        """Ends the writer; what was committed is durable."""
        self._commit.close()
