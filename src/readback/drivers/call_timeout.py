"""Call user code under a time limit, in the caller's own thread, for the sync driver.

The caller's thread keeps thread-bound values usable: a database connection, a context variable.

In the main thread the interval timer interrupts an overdue call, unless the program uses the timer itself. Python
cannot interrupt a sync call in another thread: the driver accepts a late result there. Async callables run on an event
loop in a separate thread and can be cancelled. Only the sync driver may import this module.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from threading import get_ident, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVarTuple

if TYPE_CHECKING:
    import asyncio

_Given = TypeVarTuple("_Given")
SOON_SECONDS = 0.000_001
"""Delay for an outer limit already passed. Zero would switch the timer off."""
CLOSING_SECONDS_MAX = 2.0
"""How long `close` waits for cancelled tasks, and then for the thread."""


# The bare module: the standard library's wrappers build enums, and these cost more than the call.
_bare: Any = importlib.import_module("_signal")
_handler, _handle, _set_timer = _bare.getsignal, _bare.signal, _bare.setitimer
_ALARM, _REAL, _DEFAULT = int(signal.SIGALRM), int(signal.ITIMER_REAL), signal.SIG_DFL.value


class _Main:
    """The id of the main thread: signals reach no other thread. A forked child has a new main thread."""

    def __init__(self) -> None:
        self.look()
        os.register_at_fork(after_in_child=self.look)

    def look(self) -> None:
        self.ident = main_thread().ident


_main = _Main()


class CallTimedOut(BaseException):
    """The call exceeded its time limit. Not an Exception, so that no tool swallows the error by accident."""


class _AlarmFired(BaseException):
    """Raised by the signal handler in the middle of user code. `whose`: the limit passed."""

    def __init__(self, whose: _Alarm) -> None:
        super().__init__()
        self.whose = whose


class _Alarm:
    """The signal handler of one limit. A disarmed handler ignores a signal already on the way."""

    __slots__ = ("_outer", "armed", "rang")

    def __init__(self, outer: _Alarm | None = None) -> None:
        self._outer = outer
        self.armed = True
        self.rang = False

    @property
    def whose(self) -> _Alarm:
        """The limit reported as passed when this alarm rings."""
        return self._outer or self

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if self.armed:
            self.armed, self.rang = False, True
            raise _AlarmFired(self.whose)


def call_with_timeout(seconds: float, call: Callable[[*_Given], object], *given: *_Given) -> object:
    """Call `call` with a time limit. Raise CallTimedOut when the limit passes, if this thread can be interrupted.

    Limits nest. If an outer limit ends earlier, the outer limit passes: the outer call raises CallTimedOut, and this
    call sees an ordinary interrupt. Not a context manager: a signal could arrive between the body and `__exit__`.
    """
    # Another thread: no signal reaches it. The call runs without a limit.
    if get_ident() != _main.ident:
        return call(*given)
    before = _handler(_ALARM)
    # The program has its own SIGALRM handler: leave the timer alone, and run without a limit.
    if before != _DEFAULT and not isinstance(before, _Alarm):
        return call(*given)
    outer, limit, whose = 0.0, seconds, None
    # Inside another limit, for example a tool run by a reader. Stop the timer: no signal may come before the
    # shorter limit is known.
    if before != _DEFAULT:
        outer, _ = _set_timer(_REAL, 0)
        # The outer limit ends first: the alarm must be raised in the outer call.
        if outer and outer <= seconds:
            limit, whose = outer, before.whose
    alarm = _Alarm(whose)
    try:
        try:
            _handle(_ALARM, alarm)
            running, _ = _set_timer(_REAL, limit)
            # A timer of the program without a handler: keep the shorter of both.
            if running:
                outer = running
                if running < limit:
                    limit = running
                    _set_timer(_REAL, limit)
            return call(*given)
        finally:
            # A signal after the call's end must not interrupt the driver.
            alarm.armed = False
    except _AlarmFired as over:
        if over.whose is not alarm:  # the outer call handles its own limit
            raise
        raise CallTimedOut from None
    finally:
        left, _ = _set_timer(_REAL, 0)
        _handle(_ALARM, before)
        # Restart the outer timer with its remaining time, unless the outer limit itself just passed.
        if outer and (alarm.whose is alarm or not alarm.rang):
            _set_timer(_REAL, max(outer - (limit - left), SOON_SECONDS))


class EventLoopThread:
    """A thread with an event loop for async callables under the sync driver, started on first use."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def run(self, make: Callable[[], Coroutine[Any, Any, object]], seconds: float) -> object:
        """Run the coroutine to the end. At the time limit, cancel the coroutine and raise CallTimedOut."""
        if threading.current_thread() is self._thread:
            # A nested run inside an async tool needs a loop of its own: the tool occupies this loop.
            inner = EventLoopThread()
            try:
                return inner.run(make, seconds)
            finally:
                inner.close()
        import asyncio  # imported here: sync programs need not load it

        running = self._running()
        future = asyncio.run_coroutine_threadsafe(_kept(make), running)
        try:
            came = future.result(seconds)
            if isinstance(came, _Ended):
                raise came.by
            return came
        except TimeoutError:
            if future.done():
                raise  # the tool's own TimeoutError
            raise CallTimedOut from None
        finally:
            future.cancel()  # no effect on a finished future; else the call timed out or was interrupted

    def _running(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._thread is None or self._loop is None or not self._thread.is_alive():
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=loop.run_forever, name="readback-portal", daemon=True)
                try:
                    thread.start()
                except (RuntimeError, MemoryError):  # no thread available now: the next call tries again
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop

    def close(self) -> None:
        """Cancel running tasks, stop the loop and join the thread. A thread stuck in a task is abandoned."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        import asyncio

        if thread.is_alive():
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(_finish(), loop).result(CLOSING_SECONDS_MAX)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=CLOSING_SECONDS_MAX)
        if not thread.is_alive() and not loop.is_running():  # a forked child has the running loop of its parent
            loop.close()


class _Ended:
    """Carries an error to the calling thread. Raised on the loop, such an error would end the loop."""

    def __init__(self, by: BaseException) -> None:
        self.by = by


async def _kept(make: Callable[[], Coroutine[Any, Any, object]]) -> object:
    """Run the tool and return a program exit as a value. The exit ends only this call, not the loop of later calls."""
    try:
        return await make()
    except (SystemExit, KeyboardInterrupt) as end:  # raised again in the thread that asked
        return _Ended(end)


async def _finish() -> None:
    """Cancel every other task of this loop and wait for their end."""
    import asyncio

    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
