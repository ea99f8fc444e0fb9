"""Daemon threads for sync callables: kept for the next call, bounded in number, and left behind where a call hangs.

Used by the async driver alone. A call that was given up takes its thread with it: what hung once is not waited upon
again. A thread that nobody needs for a while ends.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

IDLE_S: Final = 10.0
BUSY, IDLE = "readback-call", "readback-idle"
Work = Callable[[], bool]
"""One call. True where somebody was still waiting for it when it ended."""


class ThreadJob:
    """A sync call on its way into a thread: it is begun or dropped, never both."""

    __slots__ = ("over", "state")

    def __init__(self) -> None:
        self.state = "waiting"
        self.over = False


class DaemonThreadPool:
    """At most `most` calls at once. An errand that is dropped while it waits for a thread never begins."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._waiting: deque[tuple[ThreadJob, Work]] = deque()
        self._alive: dict[threading.Thread, ThreadJob | None] = {}
        self._late: set[threading.Thread] = set()
        self._idle = 0
        self._closing = False

    def begin(self, errand: ThreadJob, work: Work) -> None:
        """Has it done by a thread that is free, or a new one; else it waits for one.

        Raises what the system says where there is none at all and no new one to be had; then it never begins.
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
        except (RuntimeError, MemoryError):  # there is no such thread, and no one may wait for it
            with self._changed:
                del self._alive[thread]
                if self._alive:
                    return  # one of them comes to it
            self.drop(errand)
            raise

    def drop(self, errand: ThreadJob) -> bool:
        """True where it had not begun: it never will."""
        with self._changed:
            if errand.state == "waiting":
                errand.state = "dropped"
                self._waiting = deque(each for each in self._waiting if each[0] is not errand)
            return errand.state == "dropped"

    def beside(self, work: Callable[[], None]) -> None:
        """Something to be cleared up, in a thread of its own, which is waited for at the end."""

        def cleared() -> None:
            try:
                work()
            finally:
                self._late.discard(threading.current_thread())

        thread = threading.Thread(target=cleared, name=BUSY, daemon=True)
        self._late.add(thread)
        thread.start()

    def close(self) -> None:
        """Waits for threads whose call is over; what hangs is left behind, and what has not begun never does."""
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
        """What this thread does next; None where it ends. `waited`: whether its last call was waited for."""
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
