"""A bounded pool of daemon threads for sync callables. Threads are reused, and abandoned with a hanging call.

Only the async driver uses the pool. A thread ends after an abandoned call: the driver does not wait for a hanging call
twice. An idle thread ends after a while.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

IDLE_S: Final = 10.0
BUSY, IDLE = "readback-call", "readback-idle"
Work = Callable[[], bool]
"""One call. Returns True if a task still waited for the result."""


class ThreadJob:
    """A sync call queued for a thread. A job is either started or dropped, never both."""

    __slots__ = ("over", "state")

    def __init__(self) -> None:
        self.state = "waiting"
        self.over = False


class DaemonThreadPool:
    """Runs at most `most` calls at once. A job dropped while queued never starts."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._waiting: deque[tuple[ThreadJob, Work]] = deque()
        self._alive: dict[threading.Thread, ThreadJob | None] = {}
        self._late: set[threading.Thread] = set()
        self._idle = 0
        self._closing = False

    def begin(self, errand: ThreadJob, work: Work) -> None:
        """Run the work in an idle or a new thread, or queue the work.

        Raises the system's error if no thread exists and none can be started. Then the job never starts.
        """
        with self._changed:
            self._waiting.append((errand, work))
            if self._idle >= len(self._waiting):
                self._changed.notify()
                return
            if len(self._alive) >= self._most:
                return
            thread = threading.Thread(target=self._live, name=BUSY, daemon=True)
            self._alive[thread] = None
        try:
            thread.start()
        except (RuntimeError, MemoryError):  # the thread does not exist: `close` must not wait for it
            with self._changed:
                del self._alive[thread]
                if self._alive:
                    return  # another thread will take the job
            self.drop(errand)
            raise

    def drop(self, errand: ThreadJob) -> bool:
        """Drop a queued job. Returns True if the job had not started, and so never will."""
        with self._changed:
            if errand.state == "waiting":
                errand.state = "dropped"
                self._waiting = deque(each for each in self._waiting if each[0] is not errand)
            return errand.state == "dropped"

    def beside(self, work: Callable[[], None]) -> None:
        """Run clean-up work in a separate thread. `close` waits for the thread."""

        def cleared() -> None:
            try:
                work()
            finally:
                self._late.discard(threading.current_thread())

        thread = threading.Thread(target=cleared, name=BUSY, daemon=True)
        self._late.add(thread)
        thread.start()

    def close(self) -> None:
        """Wait for threads with a finished call. Hanging threads are abandoned, and queued jobs never start."""
        with self._changed:
            self._closing = True
            while self._waiting:
                self._waiting.popleft()[0].state = "dropped"
            self._changed.notify_all()
            ending = [each for each, errand in self._alive.items() if errand is None or errand.over]
        for thread in (*ending, *tuple(self._late)):
            thread.join()

    def _live(self) -> None:
        this = threading.current_thread()
        waited = True
        while (found := self._next(this, waited)) is not None:
            errand, work = found
            try:
                waited = work()
            finally:
                errand.over = True

    def _next(self, this: threading.Thread, waited: bool) -> tuple[ThreadJob, Work] | None:
        """Return the thread's next work, or None to end the thread.

        `waited`: whether a task waited for the last call.
        """
        with self._changed:
            self._alive[this] = None
            while not self._waiting:
                if self._closing or not waited:
                    del self._alive[this]
                    return None
                self._idle += 1
                this.name = IDLE
                waited = self._changed.wait(IDLE_S)
                self._idle -= 1
            errand, work = self._waiting.popleft()
            errand.state = "begun"
            self._alive[this] = errand
            this.name = BUSY
            return errand, work
