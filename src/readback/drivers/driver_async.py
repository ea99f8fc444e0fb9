"""The async driver: does what the engine asks for, on the caller's event loop, any number of actions at once.

One of the two places that may call a tool. Appends of actions in flight share commits: whatever is ready when a commit
begins goes into it. Sync callables run in daemon threads, so that one that hangs can be given up on and does not keep
the process from ending.
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
    AllResults,
    Called,
    CallReader,
    Commit,
    Committed,
    Dispatch,
    Effect,
    EffectResult,
    Ending,
    Lease,
    Leased,
    Load,
    LoadAction,
    LoadCounts,
    LoadPreconditions,
    RunAll,
    Settle,
    Wait,
    Woken,
)
from readback.engine.stages.execute import is_staged
from readback.errors import StoreError, UsageError
from readback.ports.handlers import Handler
from readback.ports.runtime import Runtime
from readback.ports.storage.batch_reads import LooksTogether
from readback.ports.storage.store import Append, LedgerStore, StoredProjection

# A coroutine that is begun at once: one that never waits needs no timer.


class EagerCoroutine:
    """An awaitable that has run to its first wait, or to its end (`over`, with its `value`).

    What it raises before its first wait is raised where it is made.
    """

    __slots__ = ("_rest", "_waits_for", "over", "value")

    def __init__(self, rest: Any) -> None:
        self._rest, self._waits_for, self.over, self.value = rest, None, False, None
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
        """Hands on what the coroutine waits for, and hands back what comes of it, until it ends."""
        waits_for = self._waits_for
        while True:
            try:
                try:
                    answer = yield waits_for
                except BaseException as thrown:  # tidy: boundary -- handed on to the coroutine that waits
                    waits_for = rest.throw(thrown)
                else:
                    waits_for = rest.send(answer)
            except StopIteration as end:
                return end.value


_ASKED: Final = frozenset(get_args(Ask))
"""What the desk answers."""
_LOOKS: Final = frozenset({LoadPreconditions, LoadAction, Load, LoadCounts, Lease})
"""What is asked of many actions together, where the store can."""
_CANCELLED: Final = Ending.CANCELLED
_RETURNED: Final = Ending.RETURNED

T = TypeVar("T")
US = 1_000_000
THREADS_MAX: Final = 64
"""Sync calls at once, unless a worker has more actions in hand."""


class AsyncDriver:
    """Drives actions on one event loop. `apart`: for somebody else, whose tools and readers do not end this process."""

    def __init__(
        self,
        store: LedgerStore,
        runtime: Runtime,
        courier: OutboxDispatcher | None = None,
        *,
        apart: bool = False,
        threads: int = 0,
    ) -> None:
        """`threads`: at least so many sync calls at once."""
        self._apart = apart
        self._threads_max = max(THREADS_MAX, threads)
        self._room = asyncio.Semaphore(self._threads_max)
        self._desk = EffectInterpreter(store, runtime, courier)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._commit = GroupCommit(store, runtime)
        self._looks = ReadBatcher(store, runtime, self._desk.give_back) if isinstance(store, LooksTogether) else None
        self._asked = _ASKED - {AllowEarlyDispatch} - (_LOOKS if self._looks is not None else {Lease})
        """What the desk answers at once, on the loop."""
        self._threads = DaemonThreadPool(self._threads_max)
        self._glances = InlineReadPolicy(runtime)

    async def drive_in_turn(
        self, work: Generator[Effect, EffectResult, T], give_up_us: int | None = None
    ) -> T | Parked:
        """`drive` for an action whose tool is sync: begun when there is a thread for it, which is its own until it has
        to wait, or when patience ends. An attempt that is durable before there is one may come too late to be made.
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
        work: Generator[Effect, EffectResult, T],
        give_up_us: int | None = None,
        place: contextlib.ExitStack | None = None,
    ) -> T | Parked:
        """To the end of the work, or until `give_up_us`, when it would have to wait longer. `place`: is closed when it
        waits for the first time.

        A cancellation during a call is an observation, made durable before the cancellation goes on; one that comes
        while an attempt is being recorded keeps its call from being made.
        """
        if self._loop is not asyncio.get_running_loop():
            self._move()
        commit = self._commit
        commit.active += 1
        interrupt: BaseException | None = None
        held: dict[str, int] = {}
        """The fences of the leases that this work has had."""
        try:
            step = next(work)
            while True:
                if type(step) is Wait:
                    if place is not None:
                        place.close()
                    if interrupt is not None or not await self._wait(step, give_up_us):
                        break
                    answer: EffectResult = Woken(self._desk.runtime.now_us())
                else:
                    try:
                        if type(step) in self._asked:
                            answer, stop = self._desk.answer(cast("Any", step)), None
                        elif type(step) is Commit:
                            held[step.append.action_id] = step.append.fence
                            answer, stop = await self._committed(step.append)
                        else:
                            answer, stop = await self._do(step, may_call=interrupt is None)
                    except Exception as error:  # tidy: boundary -- the engine decides what a failed step means
                        step = work.throw(error)
                        continue
                    if type(answer) is Leased and answer.fence is not None:
                        held[cast(Lease, step).action_id] = answer.fence
                    interrupt = stop or interrupt
                    if interrupt is not None and leaves_nothing_open(step):
                        break
                step = work.send(answer)
        except StopIteration as end:
            if interrupt is not None:
                self._give_back(held)
                raise interrupt from None
            return cast(T, end.value)
        except Exception:
            self._desk.leave(held)
            raise
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
            self._give_back(held)
            raise
        finally:
            commit.active -= 1
        work.close()
        if interrupt is not None:
            self._give_back(held)
            raise interrupt
        assert isinstance(step, Wait)
        return Parked(step.action_id)

    def _move(self) -> None:
        """To the event loop that runs now. Raises UsageError where another one still has something in hand."""
        if self._loop is not None:
            if not self._loop.is_closed() and (self._commit.active or not self._commit.rests):
                raise UsageError(
                    "This client is at work on another event loop.",
                    remedy="Open one for each event loop; the ledger is the same.",
                )
            self._close_lines()  # what still waits there for an answer is told none: its loop is over
            store, runtime = self._desk.store, self._desk.runtime
            self._commit = GroupCommit(store, runtime)
            self._looks = (
                ReadBatcher(store, runtime, self._desk.give_back) if isinstance(store, LooksTogether) else None
            )
            self._room = asyncio.Semaphore(self._threads_max)
        self._loop = asyncio.get_running_loop()

    async def projection(self, action_id: str) -> StoredProjection | None:
        """The action's, as the store has it now: asked for together with others where that is quicker."""
        if self._looks is None:
            return self._desk.store.projection(action_id)
        return await self._looks.projection(action_id)

    async def _do(self, step: Effect, *, may_call: bool) -> tuple[EffectResult, BaseException | None]:
        """The answer, and what interrupted us meanwhile."""
        # By their types and not by a match: each pattern that does not fit costs a look-up of its own.
        if type(step) is CallReader or type(step) is Settle:
            called = await self._call(hand_of(step), step.context, step.arguments, step.timeout_us)
        elif type(step) is Dispatch:
            now_us, ahead = self._desk.runtime.now_us(), EARLY_DISPATCH.get()
            sent = ahead is not None and ahead.made
            if ahead is not None and sent and not may_call:
                ahead.drop()
                return interrupted(asyncio.CancelledError(), now_us, now_us), None
            if not sent and (not may_call or now_us > step.not_after_us):
                return ended(Ending.NOT_MADE, now_us, now_us), None
            called = await self._call(
                step.plan.hands.execute, step.context, step.arguments, step.timeout_us, step.not_after_us
            )
        elif type(step) is RunAll:
            return await self._together(step.works), None
        elif type(step) is AllowEarlyDispatch:
            return await self._cleared()
        elif type(step) in _LOOKS and self._looks is not None:
            return await self._looks.answer(cast("Any", step)), None
        else:
            assert type(step) is Lease, "all else is answered where it is asked for"
            return await self._leased(step), None
        return called, called.error if called.ending is _CANCELLED else None

    async def _leased(self, step: Lease) -> EffectResult:
        """A lease that is taken while its task is cancelled is nobody's, and given back."""
        taken = self._commit.beside(lambda: self._desk.answer(step))
        try:
            return await asyncio.wrap_future(taken)
        except asyncio.CancelledError:
            taken.add_done_callback(lambda late: self._desk.unheard(step, late))
            raise

    def _give_back(self, held: Mapping[str, int]) -> None:
        """Not waited for: whoever repeats what was broken off, here or elsewhere, need not wait for its leases' end."""
        if held:
            self._desk.leave(held)
            self._commit.beside(lambda: self._desk.give_back(held))

    async def _cleared(self) -> tuple[Woken, BaseException | None]:
        """The call that may be made ahead goes out, before its attempt is made up and a commit holds up the loop."""
        ahead, stop = EARLY_DISPATCH.get(), None
        if ahead is not None:
            ahead.make()
            try:
                await a_turn()
            except asyncio.CancelledError as cancelled:  # the attempt is recorded all the same
                stop = cancelled
        return Woken(self._desk.runtime.now_us()), stop

    async def _committed(self, append: Append) -> tuple[Committed, BaseException | None]:
        """What became of it in the store.

        It is waited for in any case: it takes no longer than the store's own limit.
        """
        ahead, desk = EARLY_DISPATCH.get(), self._desk
        future, stop = self._commit.append(append), None
        try:
            try:
                result = await future
            except asyncio.CancelledError as cancelled:  # it is told when the commit is over; see `Standing`
                result, stop = future.result(), cancelled
        except StoreError as error:
            if ahead is not None:
                ahead.written(error)
            raise
        if ahead is not None:
            ahead.written(result)
        if append.incidents or desk.listens:
            desk.heard(append, result)
        return Committed(result, desk.runtime.now_us()), stop

    async def _together(self, works: tuple[Generator[Effect, EffectResult, Any], ...]) -> AllResults:
        """All at once. A cancellation goes on to each of them, and is theirs to record."""
        commit = self._commit
        commit.active -= 1  # meanwhile nothing comes from here that a commit could wait for
        try:
            return AllResults(tuple(await asyncio.gather(*map(self.drive, works), return_exceptions=True)))
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
                begun = EagerCoroutine(hand.call(context, arguments))
                if begun.over:
                    return Called(_RETURNED, begun.value, None, started, now())
            elif hand.glance is not None and (seen := self._glances.of(hand, context, arguments)) is not None:
                return Called(_RETURNED, seen, None, started, now())
            limit = asyncio.timeout(timeout_us / US)
            async with limit:
                if begun is not None:
                    return Called(_RETURNED, await begun, None, started, now())
                errand = ThreadJob()
                called = await self._in_thread(errand, lambda: hand.call(context, arguments), not_after_us)
                if hand.glance is not None:
                    self._glances.took(hand, called.finished_us - called.started_us)
                return called
        except asyncio.CancelledError as stop:
            if errand is not None:
                self._threads.drop(errand)
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                return raised(stop, started, now())  # the tool's own, not ours
            return interrupted(stop, started, now())
        except TimeoutError as error:
            if limit is None or not limit.expired():
                return raised(error, started, now())
            never = errand is not None and self._threads.drop(errand)
            return ended(Ending.NOT_MADE if never else Ending.TIMED_OUT, started, now())
        except BaseException as error:  # tidy: boundary -- whatever user code raises is evidence, never our failure
            never = errand is not None and self._threads.drop(errand)
            if isinstance(error, Exception) or (self._apart and not isinstance(error, KeyboardInterrupt)):
                return ended(Ending.NOT_MADE, started, now()) if never else raised(error, started, now())
            return interrupted(error, started, now())

    async def _in_thread(self, errand: ThreadJob, call: Callable[[], object], not_after_us: int | None) -> Called:
        """A sync callable in a daemon thread: it may be left behind, and must not hold up the interpreter's end."""
        loop, runtime = asyncio.get_running_loop(), self._desk.runtime
        future: asyncio.Future[Called] = loop.create_future()
        context = contextvars.copy_context()

        def settle(called: Called) -> None:
            if not future.done():
                future.set_result(called)
            elif is_staged(called.value):  # Given up just now; dropping it may take a while.
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
        """Sleeps until it is time, or somebody moved the action; false if the caller's patience ends first."""
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
        """Ends the writer, and waits for threads whose call is over or never began; what still hangs is left behind."""
        self._close_lines()
        self._threads.close()

    def _close_lines(self) -> None:
        self._commit.close()
        if self._looks is not None:
            self._looks.close()


def _called(call: Callable[[], object], runtime: Runtime, started_us: int) -> Called:
    """How a call in a thread of its own ended. An interrupt there is the tool's own doing: nobody else's thread is."""
    try:
        value = call()
    except BaseException as error:  # tidy: boundary -- carried over to the task that waits for it
        return raised(error, started_us, runtime.now_us())
    return Called(_RETURNED, value, None, started_us, runtime.now_us())
