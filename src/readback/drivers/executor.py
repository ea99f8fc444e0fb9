"""Threads for what an event loop waits for, but may not be held up by.

Used by group commit and by looks that many actions share.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from readback.ports.storage.store_rules import closed_error

T = TypeVar("T")


class FallbackExecutor:
    """Up to so many threads of one name. Where the system gives none, work is done at once by whoever hands it in."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads_max, thread_name_prefix=name)
        self._is_closed = False

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """What it comes to. It raises StoreError (`store.closed`) after the end, and whatever the call does."""
        is_dropped = False

        def work() -> T:
            if is_dropped:
                raise closed_error()
            return call()

        try:
            return self._threads.submit(work)
        except RuntimeError:
            is_dropped = True  # it may lie in the queue of a thread that could not be started
        done: Future[T] = Future()
        try:
            if self._is_closed:
                raise closed_error()
            done.set_result(call())
        except Exception as error:  # tidy: boundary -- told to whoever waits for it, as from the thread
            # Less this call, which holds what the error is told by: only a look for garbage lets such a circle go.
            done.set_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        return done

    def close(self) -> None:
        """What has begun is done; nothing begins any more."""
        self._is_closed = True
        self._threads.shutdown(wait=True)
