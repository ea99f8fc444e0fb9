"""Calling user code under a limit, for the sync driver: in the caller's own thread, so that what belongs to a thread
(a database connection, a context variable) stays usable.

In the main thread a call that is over its time is interrupted by the interval timer, where nobody else uses that; in
other threads a sync call cannot be interrupted, and its answer is taken whenever it comes. Async callables run on a
loop of their own thread, and are cancelled. Must not be imported by anything but the sync driver.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from types import FrameType
from typing import Any


class GivenUp(BaseException):
    """The call is over its time. Not an Exception, so that no tool swallows it by accident."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises GivenUp inside the block when the time is over, where this thread can be interrupted."""
    if not _interruptible():
        yield
        return
    before = signal.signal(signal.SIGALRM, _over)
    outer, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, outer)
        signal.signal(signal.SIGALRM, before)


def _interruptible() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, _over)


def _over(signum: int, frame: FrameType | None) -> None:
    raise GivenUp


class Portal:
    """A thread with an event loop, for async callables under the sync driver. Started when first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def call(self, make: Callable[[], Coroutine[Any, Any, object]], seconds: float) -> object:
        """Runs it to its end. Raises GivenUp when it is over its time, after cancelling it."""
        future = asyncio.run_coroutine_threadsafe(make(), self._running())
        try:
            return future.result(seconds)
        except FutureTimeoutError:
            if future.done():
                raise  # the tool's own TimeoutError
            future.cancel()
            raise GivenUp from None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="readback-portal", daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Stops the loop and joins its thread."""
        with self._lock:
            if self._loop is None or self._thread is None:
                return
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)
            if not self._thread.is_alive():
                self._loop.close()
            self._loop = self._thread = None
