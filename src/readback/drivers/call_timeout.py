"""Calling user code under a limit, for the sync driver: in the caller's own thread, so that what belongs to a thread
(a database connection, a context variable) stays usable.

In the main thread a call that is over its time is interrupted by the interval timer, where nobody else uses that; in
other threads a sync call cannot be interrupted, and its answer is taken whenever it comes. Async callables run on a
loop of their own thread, and are cancelled. Must not be imported by anything but the sync driver.
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
"""For an outer limit that has passed meanwhile: zero would switch the timer off."""
CLOSING_SECONDS_MAX = 2.0
"""How long a portal that closes waits for what it cancelled."""


# Without the enums that the standard library's own wrappers make of every answer: they cost more than the call.
_bare: Any = importlib.import_module("_signal")
_handler, _handle, _set_timer = _bare.getsignal, _bare.signal, _bare.setitimer
_ALARM, _REAL, _DEFAULT = int(signal.SIGALRM), int(signal.ITIMER_REAL), signal.SIG_DFL.value


class _Main:
    """Which thread is the main one, the only one that a signal reaches; another one, in a child that was forked."""

    def __init__(self) -> None:
        self.look()
        os.register_at_fork(after_in_child=self.look)

    def look(self) -> None:
        self.ident = main_thread().ident


_main = _Main()


class CallTimedOut(BaseException):
    """The call is over its time. Not an Exception, so that no tool swallows it by accident."""


class _AlarmFired(BaseException):
    """What the signal raises in the middle of user code; `whose` limit has passed."""

    def __init__(self, whose: _Alarm) -> None:
        super().__init__()
        self.whose = whose


class _Alarm:
    """The handler of one limit. Disarmed, it lets a signal pass that was already on its way."""

    __slots__ = ("_outer", "armed", "rang")

    def __init__(self, outer: _Alarm | None = None) -> None:
        self._outer = outer
        self.armed = True
        self.rang = False

    @property
    def whose(self) -> _Alarm:
        """The limit that passes when it rings."""
        return self._outer or self

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if self.armed:
            self.armed, self.rang = False, True
            raise _AlarmFired(self.whose)


def call_with_timeout(seconds: float, call: Callable[[*_Given], object], *given: *_Given) -> object:
    """Calls, and raises GivenUp when that is over its time, where this thread can be interrupted.

    Within another limit of ours that ends earlier, it is that one's which passes: it is raised there, and here it is an
    interrupt like any other. Not a context manager: a signal could come between its body and its end.
    """
    if get_ident() != _main.ident:
        return call(*given)
    before = _handler(_ALARM)
    if before != _DEFAULT and not isinstance(before, _Alarm):
        return call(*given)  # somebody else uses it
    outer, limit, whose = 0.0, seconds, None
    if before != _DEFAULT:  # inside another limit: nothing may ring until it is known whose it is
        outer, _ = _set_timer(_REAL, 0)
        if outer and outer <= seconds:
            limit, whose = outer, before.whose
    alarm = _Alarm(whose)
    try:
        try:
            _handle(_ALARM, alarm)
            running, _ = _set_timer(_REAL, limit)
            if running:  # somebody's timer without a handler
                outer = running
                if running < limit:
                    limit = running
                    _set_timer(_REAL, limit)
            return call(*given)
        finally:
            alarm.armed = False
    except _AlarmFired as over:
        if over.whose is not alarm:
            raise
        raise CallTimedOut from None
    finally:
        left, _ = _set_timer(_REAL, 0)
        _handle(_ALARM, before)
        if outer and (alarm.whose is alarm or not alarm.rang):
            _set_timer(_REAL, max(outer - (limit - left), SOON_SECONDS))


class EventLoopThread:
    """A thread with an event loop, for async callables under the sync driver. Started when first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def run(self, make: Callable[[], Coroutine[Any, Any, object]], seconds: float) -> object:
        """Runs it to its end. Raises GivenUp when it is over its time, after cancelling it."""
        if threading.current_thread() is self._thread:
            # A run inside an async tool: its own loop, since this one is busy with that tool.
            inner = EventLoopThread()
            try:
                return inner.run(make, seconds)
            finally:
                inner.close()
        import asyncio  # a program without an event loop does not pay for it

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
            future.cancel()  # nothing, once it is done; else given up, or interrupted here

    def _running(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._thread is None or self._loop is None or not self._thread.is_alive():
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=loop.run_forever, name="readback-portal", daemon=True)
                try:
                    thread.start()
                except (RuntimeError, MemoryError):  # no thread is to be had now: the next call asks again
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop

    def close(self) -> None:
        """Cancels what still runs, stops the loop and joins its thread; one that does not yield is left behind."""
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
        if not thread.is_alive() and not loop.is_running():  # in a forked child it runs on, and is the parent's
            loop.close()


class _Ended:
    """What would have ended the loop, on its way to the thread that asked."""

    def __init__(self, by: BaseException) -> None:
        self.by = by


async def _kept(make: Callable[[], Coroutine[Any, Any, object]]) -> object:
    """A tool that ends the program ends the call of whoever asked for it, and not the loop of all later calls."""
    try:
        return await make()
    except (SystemExit, KeyboardInterrupt) as end:  # raised again in the thread that asked
        return _Ended(end)


async def _finish() -> None:
    """Cancels every other task of this loop, and lets each end."""
    import asyncio

    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
