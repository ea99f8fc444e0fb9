"""Threads for blocking work requested by an event loop. Group commit and batched reads use them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from readback.ports.storage.store_rules import closed_error

T = TypeVar("T")


class FallbackExecutor:
    """A bounded pool of named threads. If the system refuses a thread, the calling thread does the work at once."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads_max, thread_name_prefix=name)
        self._is_closed = False

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """Start the call. The future raises the call's error, or StoreError (`store.closed`) after `close`."""
        is_dropped = False

        def work() -> T:
            if is_dropped:
                raise closed_error()
            return call()

        try:
            return self._threads.submit(work)
        except RuntimeError:
            is_dropped = True  # the work may sit in the queue of a thread never started
        done: Future[T] = Future()
        try:
            if self._is_closed:
                raise closed_error()
            done.set_result(call())
        except Exception as error:  # tidy: boundary -- raised by the future, as from a thread
            # Without this frame, since it holds the future: only a garbage collection would free the cycle.
            done.set_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        return done

    def close(self) -> None:
        """Finish started work and reject new work."""
        self._is_closed = True
        self._threads.shutdown(wait=True)
