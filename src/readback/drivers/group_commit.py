"""Group commit for one event loop: a commit includes every append ready at its begin.

Only the async driver uses this module. Group commit knows appends, not actions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from readback.drivers.executor import FallbackExecutor
from readback.ports.runtime import Runtime
from readback.ports.storage.batch_reads import BatchReads
from readback.ports.storage.store import Append, AppendResult, LedgerStore
from readback.ports.storage.store_rules import interrupted_error

T = TypeVar("T")
BATCH_MAX: Final = 256
HELD_US_MAX: Final = 5_000
"""How long a commit may block the loop when every action waits for the commit, estimated from the last commit. Equal to
Python's thread switch interval.
"""
IDLE_TURNS_MAX: Final = 64
"""A gathering commit begins after so many turns of the loop without a new action or append."""
TURNS_MAX: Final = 256
"""A gathering commit begins at the latest after so many turns."""
PAUSE_MAX: Final = 63
"""The most commits without a wait, after waits in vain."""
FADING: Final = 64
"""After a peak, a commit expects one action in so many less."""
MAY_WAIT_S: ContextVar[float] = ContextVar("readback_may_wait", default=0.0)
"""How long an append of this task may wait to share a commit. For appends without a waiting caller."""

Waiting = tuple[Append, "asyncio.Future[AppendResult]"]


class Standing(asyncio.Future[AppendResult]):
    """A future that ignores cancellation. A cancelled task receives the cancellation after the commit.

    `asyncio.shield` would need a second future and callbacks for each commit.
    """

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class Gathering:
    """Whether a commit waits for another turn of the loop, for a server.

    Requests come one by one, and a commit of a few costs nearly as much as a commit of all. A commit waits while fewer
    appends are ready than actions were lately at work, and while each few turns bring news. A wait that brought no
    append is not repeated for the next commits. Turns are counted, because a virtual clock stands still.
    """

    def __init__(self) -> None:
        self._expected = 0.0
        """The most actions at work at once, lately."""
        self._turns = self._idle_turns = self._seen = self._first = 0
        """Of this commit: its turns, the turns since the last news, the actions and appends seen, and the appends ready
        in the first turn.
        """
        self._pause = self._paused = 0
        """After a vain wait, so many commits do not wait; and how many of them are left."""

    def waits(self, ready: int, active: int) -> bool:
        """Return whether the commit waits. Called once in each turn, with the ready appends and the actions at work."""
        self._expected = max(self._expected, active)
        if not self._turns:
            self._first = ready
        self._turns += 1
        self._idle_turns = 0 if ready + active > self._seen else self._idle_turns + 1
        self._seen = max(self._seen, ready + active)
        awaited = 0 < ready < round(self._expected) and not self._paused
        if awaited and self._idle_turns < IDLE_TURNS_MAX and self._turns < TURNS_MAX:
            return True
        if self._turns > 1:
            self._pause = 0 if ready > self._first else min(2 * self._pause + 1, PAUSE_MAX)
            self._paused = self._pause
        else:
            self._paused = max(self._paused - 1, 0)
        self._turns = self._idle_turns = self._seen = 0
        self._expected -= self._expected / FADING
        return False


class GroupCommit:
    """Collects appends of one event loop and commits the batch, off the loop.

    A commit over a network never runs on the loop, because a silent network would stop the loop. A short commit to a
    local store runs on the loop when all active work waits for the commit. A thread hop costs about a third of a single
    commit, and a tenth of a commit of sixteen. No task can be cancelled or abandoned here: the loop calls, and the
    writer answers.

    `gathers`: a commit waits some turns of the loop while requests arrive; see `Gathering`.
    """

    def __init__(self, store: LedgerStore, runtime: Runtime, *, gathers: bool = False) -> None:
        self._store = store
        self._gathering = Gathering() if gathers else None
        self._is_far = isinstance(store, BatchReads)
        self._runtime = runtime
        self._took_us, self._took_for = HELD_US_MAX, 1
        """Duration and size of the last commit. The initial values count as long."""
        self._queue: list[Waiting] = []
        self._busy = False
        self._patient = 0
        self._timer: asyncio.TimerHandle | None = None
        self._writer = FallbackExecutor(1, "readback-writer")
        self.active = 0

    @property
    def rests(self) -> bool:
        """No append waits for a commit."""
        return not self._busy and not self._queue

    def append(self, append: Append) -> asyncio.Future[AppendResult]:
        """Return a future of the durable result. On the store's error, no append of the batch is stored."""
        loop = asyncio.get_running_loop()
        future = Standing(loop=loop)
        self._queue.append((append, future))
        may_wait_s = MAY_WAIT_S.get()
        if may_wait_s:
            self._patient += 1
        if not may_wait_s:
            self._begin(loop)
        elif self._timer is None and not self._busy:
            self._timer = loop.call_later(may_wait_s, self._begin, loop)
        return future

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._busy:
            return
        self._busy = True
        if self.active - self._patient <= 1:
            loop.call_soon(self._commit, loop)  # include appends of this turn
        else:
            loop.call_soon(loop.call_soon, self._commit, loop)  # also include tasks ready in this turn

    def _commit(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._gathering is not None and self._gathering.waits(len(self._queue), self.active):
            loop.call_soon(self._commit, loop)
            return
        batch, self._queue = self._queue[:BATCH_MAX], self._queue[BATCH_MAX:]
        if not batch:
            self._busy = False
            return
        patient, self._patient = self._patient, 0
        appends = [append for append, _ in batch]
        if not self._is_far and (self.active - patient <= 1 or self._is_soon_over(len(batch))):
            self._commit_here(loop, batch, appends)
            return
        stack = contextlib.ExitStack()
        stack.enter_context(holding(self._runtime))

        def done(finished: Future[list[AppendResult]]) -> None:
            error = finished.exception()
            call_back(loop, self._settle, loop, batch, error or finished.result())
            stack.close()

        self._writer.begin(lambda: self._committed(appends)).add_done_callback(done)

    def _commit_here(self, loop: asyncio.AbstractEventLoop, batch: list[Waiting], appends: list[Append]) -> None:
        came: list[AppendResult] | Exception | None = None
        try:
            came = self._committed(appends)
        except Exception as error:  # tidy: boundary -- forwarded to every waiting task
            came = error
        finally:  # notify waiting tasks before a signal in this thread continues
            self._settle(loop, batch, interrupted_error() if came is None else came)

    def _is_soon_over(self, count: int) -> bool:
        """Return whether all active actions wait for this commit and the loop can afford its estimated duration."""
        if count < self.active:
            return False
        return self._took_us * max(count, self._took_for) < HELD_US_MAX * self._took_for

    def _committed(self, appends: list[Append]) -> list[AppendResult]:
        began_us = self._runtime.now_us()
        try:
            return self._store.append(appends)
        finally:
            self._took_us, self._took_for = self._runtime.now_us() - began_us, len(appends)

    def _settle(
        self, loop: asyncio.AbstractEventLoop, batch: list[Waiting], came: list[AppendResult] | BaseException
    ) -> None:
        error = came if isinstance(came, BaseException) else None
        results = came if isinstance(came, list) else [None] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if error is not None:
                future.set_exception(error)
            elif result is not None:
                future.set_result(result)
        if len(batch) == 1 and not self._queue:
            self._busy = False
        else:
            loop.call_soon(self._commit, loop)

    def beside(self, call: Callable[[], T]) -> Future[T]:
        """Run another write in the writer's thread, in turn."""
        stack = contextlib.ExitStack()
        stack.enter_context(holding(self._runtime))
        begun = self._writer.begin(call)
        begun.add_done_callback(lambda _: stack.close())
        return begun

    def close(self) -> None:
        self._writer.close()


def call_back(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: object) -> None:
    """Schedule a callback from another thread. A closed loop has no waiting task."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)


def holding(runtime: Runtime) -> contextlib.AbstractContextManager[None]:
    """Stop a virtual clock during real work in a thread. The clock cannot see such work."""
    hold = getattr(runtime, "holding", None)
    return contextlib.nullcontext() if hold is None else hold()
