"""The async driver: interpret the engine's effects on the caller's event loop, for any number of actions at once.

Only the two drivers may call a tool. Actions in flight share commits: a commit includes every append ready at its
begin. Sync callables run in daemon threads, so that the driver can abandon a hanging call and the process can end.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Coroutine, Generator, Mapping
from types import CoroutineType
from typing import Any, Final, TypeVar, cast, get_args

from readback.background.dispatcher import OutboxDispatcher
from readback.domain.context import Context
from readback.drivers import live_span
from readback.drivers.commit_log import log_commit
from readback.drivers.early_dispatch import EARLY_DISPATCH, a_turn
from readback.drivers.group_commit import GroupCommit, call_back, holding
from readback.drivers.inline_reads import InlineReadPolicy
from readback.drivers.interpreter import (
    Ask,
    EffectInterpreter,
    Parked,
    drop_late,
    ended,
    hand_of,
    interrupted,
    leaves_nothing_open,
    raised,
    slices,
)
from readback.drivers.read_batching import ReadBatcher
from readback.drivers.thread_pool import DaemonThreadPool, ThreadJob
from readback.engine.effects import (
    AllowEarlyDispatch,
    Called,
    CallReader,
    Commit,
    Committed,
    Dispatch,
    Effect,
    Effects,
    Ending,
    GetClock,
    Lease,
    Leased,
    Load,
    LoadAction,
    LoadCounts,
    LoadPreconditions,
    ProveEnded,
    RunAll,
    Settle,
    Wait,
)
from readback.engine.stages.execute import is_staged
from readback.errors import StoreError, UsageError
from readback.ports.handlers import Handler
from readback.ports.runtime import Runtime
from readback.ports.storage.batch_reads import BatchReads
from readback.ports.storage.store import Append, LedgerStore, StoredProjection

# Start a coroutine at once: a coroutine without a wait needs no timer.


class EagerCoroutine:
    """An awaitable already run to its first wait, or to its end (`over`, with the result in `value`).

    The constructor raises any error raised before the first wait.
    """

    __slots__ = ("_rest", "_waits_for", "over", "value")

    def __init__(self, rest: Any) -> None:
        self._rest, self._waits_for, self.over = rest, None, False
        self.value: Any = None
        if type(rest) is not CoroutineType:
            return
        try:
            self._waits_for = rest.send(None)
        except StopIteration as end:
            self.over, self.value = True, end.value

    def __await__(self) -> Generator[Any, Any, object]:
        if type(self._rest) is not CoroutineType:
            return (yield from self._rest.__await__())
        return (yield from self._go_on(self._rest))

    def _go_on(self, rest: Coroutine[Any, Any, object]) -> Generator[Any, Any, object]:
        """Forward each awaited future to the loop and each result to the coroutine, until the coroutine ends."""
        waits_for = self._waits_for
        while True:
            try:
                try:
                    answer = yield waits_for
                except BaseException as thrown:  # tidy: boundary -- forwarded to the waiting coroutine
                    waits_for = rest.throw(thrown)
                else:
                    waits_for = rest.send(answer)
            except StopIteration as end:
                return end.value


_ASKED: Final = frozenset(get_args(Ask))
"""Effects answered by the interpreter."""
_OF_RUNTIME: Final = frozenset({GetClock, ProveEnded})
"""Answered without the store, and so at once even where the store is far."""
_LOOKS: Final = frozenset({LoadPreconditions, LoadAction, Load, LoadCounts, Lease})
"""Reads batched across actions, where the store supports batches."""
_CANCELLED: Final = Ending.CANCELLED
_RETURNED: Final = Ending.RETURNED

T = TypeVar("T")
US = 1_000_000
THREADS_MAX: Final = 64
"""Sync calls at once, unless a worker runs more actions."""


class AsyncDriver:
    """Drives actions on one event loop. `apart`: a SystemExit from a tool or reader does not end this process."""

    def __init__(
        self,
        store: LedgerStore,
        runtime: Runtime,
        courier: OutboxDispatcher | None = None,
        *,
        apart: bool = False,
        threads: int = 0,
        gathers: bool = False,
    ) -> None:
        """`threads`: minimum number of concurrent sync calls. `gathers`: as in `GroupCommit`."""
        self._apart = apart
        self._threads_max = max(THREADS_MAX, threads)
        self._room = asyncio.Semaphore(self._threads_max)
        self._desk = EffectInterpreter(store, runtime, courier)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gathers = gathers
        self._commit = GroupCommit(store, runtime, gathers=gathers)
        self._looks = ReadBatcher(store, runtime, self._desk.give_back) if isinstance(store, BatchReads) else None
        self._asked = _ASKED - {AllowEarlyDispatch, Lease} if self._looks is None else _OF_RUNTIME
        """Effects answered at once by the interpreter, on the loop."""
        self._threads = DaemonThreadPool(self._threads_max)
        self._glances = InlineReadPolicy(runtime)

    async def drive_in_turn(self, work: Effects[T], give_up_us: int | None = None) -> T | Parked:
        """Drive an action with a sync tool after a thread becomes free, or when the caller's patience ends.

        The action keeps the thread until its first wait. Without this queue, a durable attempt could wait for a thread
        past its deadline and never be made.
        """
        if self._loop is not asyncio.get_running_loop():
            self._move()
        room = self._room
        patience_s = None if give_up_us is None else (give_up_us - self._desk.runtime.now_us()) / US
        try:
            async with asyncio.timeout(patience_s):
                await room.acquire()
        except TimeoutError:
            return await self.drive(work, give_up_us)
        place = contextlib.ExitStack()
        place.callback(room.release)
        with place:
            return await self.drive(work, give_up_us, place)

    async def drive(
        self,
        work: Effects[T],
        give_up_us: int | None = None,
        place: contextlib.ExitStack | None = None,
    ) -> T | Parked:
        """Run the work to its end, or return `Parked` when the work would have to wait past `give_up_us`.

        A cancellation during a call is an observation: the driver commits it before raising the cancellation again. A
        cancellation during the commit of an attempt prevents the call.

        Args:
            work: The engine's generator of effects.
            give_up_us: End of the caller's patience, in microseconds; None waits without limit.
            place: Closed at the first wait; releases the caller's thread slot.
        """
        if self._loop is not asyncio.get_running_loop():
            self._move()
        commit = self._commit
        commit.active += 1
        interrupt: BaseException | None = None
        held: dict[str, int] = {}
        """The fences of all leases acquired by this work."""
        try:
            step = next(work)
            while True:
                if type(step) is Wait:
                    # The action sleeps: another action may use its thread slot.
                    if place is not None:
                        place.close()
                    # Cancelled, or out of patience: stop here. Everything so far is durable.
                    if interrupt is not None or not await self._wait(step, give_up_us):
                        break
                    answer: object = self._desk.runtime.now_us()
                else:
                    try:
                        if type(step) in self._asked:  # most effects: answered from memory or a local store
                            answer, stop = self._desk.answer(step), None  # type: ignore[arg-type]
                        elif type(step) is Commit:
                            # Noted before the commit: a cancellation must also release a lease of a new action.
                            held[step.append.action_id] = step.append.fence
                            answer, stop = await self._committed(step.append)
                        else:
                            # After a cancellation no new call may start; the engine then records NOT_MADE.
                            answer, stop = await self._do(step, may_call=interrupt is None)
                    except Exception as error:  # tidy: boundary -- the engine decides what a failed step means
                        step = work.throw(error)
                        continue
                    if type(answer) is Leased and answer.fence is not None:
                        held[cast(Lease, step).action_id] = answer.fence
                    # A cancellation does not end the work at once: the engine first commits what was observed.
                    interrupt = stop or interrupt
                    if interrupt is not None and leaves_nothing_open(step):
                        break
                step = work.send(answer)
        except StopIteration as end:
            if interrupt is not None:  # the work reached its end, and its task was cancelled meanwhile
                self._give_back(held)
                raise interrupt from None
            return cast(T, end.value)
        except Exception:
            # The work failed, for example on a lost store. A later call here need not wait for its leases.
            self._desk.leave(held)
            raise
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
            # Stopped inside an effect. Other workers need not wait for the leases either.
            self._give_back(held)
            raise
        finally:
            commit.active -= 1
        work.close()  # left by `break`: after a cancellation, or out of patience
        if interrupt is not None:
            self._give_back(held)
            raise interrupt
        assert isinstance(step, Wait)
        return Parked(step.action_id)

    def _move(self) -> None:
        """Bind to the running event loop. Raises UsageError while another loop still has actions in flight."""
        if self._loop is not None:
            if not self._loop.is_closed() and (self._commit.active or not self._commit.rests):
                raise UsageError(
                    "This client has actions in flight on another event loop.",
                    remedy="Open one client for each event loop; all can use the same ledger.",
                )
            self._close_lines()  # tasks waiting there get no answer: their loop is closed
            store, runtime = self._desk.store, self._desk.runtime
            self._commit = GroupCommit(store, runtime, gathers=self._gathers)
            self._looks = ReadBatcher(store, runtime, self._desk.give_back) if isinstance(store, BatchReads) else None
            self._room = asyncio.Semaphore(self._threads_max)
        self._loop = asyncio.get_running_loop()

    async def projection(self, action_id: str) -> StoredProjection | None:
        """Return the action's projection. A batching store reads several actions at once."""
        if self._looks is None:
            return self._desk.store.projection(action_id)
        return await self._looks.projection(action_id)

    async def _do(self, step: Effect, *, may_call: bool) -> tuple[object, BaseException | None]:
        """Return the effect's result, and the interrupt received meanwhile, if any."""
        # `type() is` instead of `match`: each pattern without a match costs a look-up.
        if type(step) is CallReader or type(step) is Settle:
            called = await self._call(hand_of(step), step.context, step.arguments, step.timeout_us)
        elif type(step) is Dispatch:
            now_us, ahead = self._desk.runtime.now_us(), EARLY_DISPATCH.get()
            sent = ahead is not None and ahead.made
            if ahead is not None and sent and not may_call:  # the early call is out, and its caller is gone
                ahead.drop()
                return interrupted(asyncio.CancelledError(), now_us, now_us), None
            if not sent and (not may_call or now_us > step.not_after_us):
                return ended(Ending.NOT_MADE, now_us, now_us), None
            self._desk.start_call(step.context.action_id)
            called = await self._dispatched(step)
        elif type(step) is RunAll:
            return await self._together(step.works), None
        elif type(step) is AllowEarlyDispatch:
            return await self._cleared()
        elif type(step) in _LOOKS and self._looks is not None:
            return await self._looks.answer(cast("Any", step)), None
        elif type(step) in _ASKED and self._looks is not None:
            return await self._looks.apart(lambda: self._desk.answer(cast("Ask", step))), None
        else:
            assert type(step) is Lease, "`drive` answers all other effects"
            return await self._leased(step), None
        return called, called.error if called.ending is _CANCELLED else None

    async def _dispatched(self, step: Dispatch) -> Called:
        """Call the tool, inside a live span if the program records one."""
        live, called = live_span.begin(step, self._desk.runtime.now_us()), None
        try:
            called = await self._call(
                step.plan.hands.execute, step.context, step.arguments, step.timeout_us, step.not_after_us
            )
            return called
        finally:
            if live is not None:
                live.end(called)

    async def _leased(self, step: Lease) -> object:
        """Acquire a lease. If the task is cancelled meanwhile, release the lease."""
        taken = self._commit.beside(lambda: self._desk.answer(step))
        try:
            return await asyncio.wrap_future(taken)
        except asyncio.CancelledError:
            taken.add_done_callback(lambda late: self._desk.on_cancelled(step, late))
            raise

    def _give_back(self, held: Mapping[str, int]) -> None:
        """Release the leases without waiting. A retry, here or elsewhere, need not wait for the leases to expire."""
        if held:
            self._desk.leave(held)
            self._commit.beside(lambda: self._desk.give_back(held))

    async def _cleared(self) -> tuple[int, BaseException | None]:
        """Send the early call before the commit of its attempt occupies the loop."""
        ahead, stop = EARLY_DISPATCH.get(), None
        if ahead is not None:
            ahead.make()
            try:
                await a_turn()
            except asyncio.CancelledError as cancelled:  # the engine still records the attempt
                stop = cancelled
        return self._desk.runtime.now_us(), stop

    async def _committed(self, append: Append) -> tuple[Committed, BaseException | None]:
        """Commit an append and return the store's result.

        A cancellation does not end the wait: the store has its own time limit.
        """
        ahead, desk = EARLY_DISPATCH.get(), self._desk
        future, stop = self._commit.append(append), None
        try:
            try:
                result = await future
            except asyncio.CancelledError as cancelled:  # arrives after the commit; see `Standing`
                result, stop = future.result(), cancelled
        except StoreError as error:
            if ahead is not None:
                ahead.written(error)
            raise
        if ahead is not None:
            ahead.written(result)
        log_commit(append, result)
        if append.incidents or desk.has_listeners:
            desk.on_appended(append, result)
        return Committed(result, desk.runtime.now_us()), stop

    async def _together(self, works: tuple[Effects[Any], ...]) -> tuple[Any, ...]:
        """Drive all works at once. A cancellation reaches each of them, and each records the cancellation itself."""
        commit = self._commit
        commit.active -= 1  # this work itself sends no append meanwhile
        try:
            return tuple(await asyncio.gather(*map(self.drive, works), return_exceptions=True))
        finally:
            commit.active += 1

    async def _call(
        self,
        hand: Handler,
        context: Context,
        arguments: Mapping[str, object],
        timeout_us: int,
        not_after_us: int | None = None,
    ) -> Called:
        now, started = self._desk.runtime.now_us, self._desk.runtime.now_us()
        limit: asyncio.Timeout | None = None
        begun: EagerCoroutine | None = None
        errand: ThreadJob | None = None
        try:
            if hand.is_async:
                # Run to the first wait. A coroutine without a wait costs no timer and no turn of the loop.
                begun = EagerCoroutine(hand.call(context, arguments))
                if begun.over:
                    return Called(_RETURNED, begun.value, None, started, now())
            # A reader with quick recent reads runs on the loop; None means: read in a thread.
            elif hand.glance is not None and (seen := self._glances.of(hand, context, arguments)) is not None:
                return Called(_RETURNED, seen, None, started, now())
            limit = asyncio.timeout(timeout_us / US)
            async with limit:
                if begun is not None:
                    return Called(_RETURNED, await begun, None, started, now())
                # Sync: a daemon thread. At the limit the driver abandons the thread, and drops a queued job.
                errand = ThreadJob()
                called = await self._in_thread(errand, lambda: hand.call(context, arguments), not_after_us)
                if hand.glance is not None:
                    self._glances.took(hand, called.finished_us - called.started_us)
                return called
        except asyncio.CancelledError as stop:
            if errand is not None:
                self._threads.drop(errand)
            task = asyncio.current_task()
            # The tool cancelled a task of its own: an answer like any other error.
            if task is None or not task.cancelling():
                return raised(stop, started, now())
            # The caller cancelled this task. The call may still have its effect.
            return interrupted(stop, started, now())
        except TimeoutError as error:
            if limit is None or not limit.expired():  # the tool's own TimeoutError
                return raised(error, started, now())
            # The limit passed. A job dropped in the queue was never made; a started job may still have its effect.
            never = errand is not None and self._threads.drop(errand)
            return ended(Ending.NOT_MADE if never else Ending.TIMED_OUT, started, now())
        except BaseException as error:  # tidy: boundary -- an error of user code is evidence, not our failure
            # Here a dropped job means that no thread could be started.
            never = errand is not None and self._threads.drop(errand)
            if isinstance(error, Exception) or (self._apart and not isinstance(error, KeyboardInterrupt)):
                return ended(Ending.NOT_MADE, started, now()) if never else raised(error, started, now())
            return interrupted(error, started, now())

    async def _in_thread(self, errand: ThreadJob, call: Callable[[], object], not_after_us: int | None) -> Called:
        """Run a sync callable in a daemon thread. An abandoned call cannot keep the interpreter from exiting."""
        loop, runtime = asyncio.get_running_loop(), self._desk.runtime
        future: asyncio.Future[Called] = loop.create_future()
        context = contextvars.copy_context()

        def settle(called: Called) -> None:
            if not future.done():
                future.set_result(called)
            elif is_staged(called.value):  # the caller gave up just now; the rollback may take a while
                self._threads.beside(lambda: drop_late(called))

        def work() -> bool:
            started = runtime.now_us()
            if not_after_us is not None and started > not_after_us:
                called = ended(Ending.NOT_MADE, started, started)
            else:
                called = _called(lambda: context.run(call), runtime, started)
            errand.over = True
            if future.done():
                drop_late(called)
                return False
            call_back(loop, settle, called)
            return True

        with holding(runtime):
            self._threads.begin(errand, work)
            return await future

    async def _wait(self, step: Wait, give_up_us: int | None) -> bool:
        """Sleep until the due time or until another worker moves the action. Return False if patience ends first."""
        desk = self._desk
        runtime, version = desk.runtime, desk.version(step.action_id)
        pause, longest = slices(runtime)
        while True:
            now_us = runtime.now_us()
            if now_us >= step.until_us:
                return True
            if give_up_us is not None and now_us >= give_up_us:
                return False
            end = step.until_us if give_up_us is None else min(step.until_us, give_up_us)
            await runtime.sleep_async(min((end - now_us) / US, pause))
            pause = min(pause * 2, longest)
            if desk.stirred(step.action_id, version):
                return True

    def close(self) -> None:
        """Stop the writer and join threads with a finished or dropped call.

        Threads with a hanging call are abandoned.
        """
        self._close_lines()
        self._threads.close()

    def _close_lines(self) -> None:
        self._commit.close()
        if self._looks is not None:
            self._looks.close()


def _called(call: Callable[[], object], runtime: Runtime, started_us: int) -> Called:
    """Run the call in its thread and return how the call ended.

    An interrupt raised there comes from the tool itself.
    """
    try:
        value = call()
    except BaseException as error:  # tidy: boundary -- carried to the waiting task
        return raised(error, started_us, runtime.now_us())
    return Called(_RETURNED, value, None, started_us, runtime.now_us())
