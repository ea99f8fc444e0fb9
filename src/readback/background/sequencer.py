"""The sequencer: has places in the log given to entries that were appended without, a moment later, in its own thread.

Told of each such append by the drivers (`hear`, which only counts), by whoever stays (`sweep`), and of a process's end
(`close`). A store that gives places with the append never tells it anything, and no thread is started then. Of several
processes one gives places at a time: the store sees to it, and whoever comes next takes over. A crash anywhere leaves
entries that are placed and entries that wait; nothing is lost by a wake-up that never came.

What is told and what is sealed begins here: only an entry with a place is sealed, and heard of by subscribers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from readback.canon.stderr import warn
from readback.errors import StoreError
from readback.ports.storage.store import LedgerStore

PLACES_AT_ONCE_MAX: Final = 4_096
PAUSE_FIRST_SECONDS: Final = 0.005
"""So long entries gather before they get their places together."""
PAUSE_MAX_SECONDS: Final = 0.05
"""While somebody else gives places, or a transaction that came earlier still runs, it is looked as seldom as this."""
PAUSE_FAULT_SECONDS: Final = 1.0
LINGER_SECONDS: Final = 5.0
"""So long a thread with nothing to do stays for more."""
CLOSE_SECONDS: Final = 2.0
"""How long closing waits for places; what it leaves gets them from the next process."""

Placed = Callable[[int], None]
"""Told the place of the log's last entry, whoever gave it."""


class Sequencer:
    """Gives places for one opened ledger while there are entries without."""

    def __init__(self, store: LedgerStore, placed: Placed, tell: Callable[[], None]) -> None:
        """`placed` is called when the log ends elsewhere; `tell` when what tells something has its place."""
        self._store, self._placed, self._tell = store, placed, tell
        self._bell = threading.Condition()
        self._heard = self._done = 0
        """How many appends were heard of, and how many of them surely have their places."""
        self._telling = self._told = 0
        """The last append that tells something, and up to which one it was told."""
        self._last_seq = 0
        self._thread: threading.Thread | None = None
        self._idle = self._closing = False
        self.fault: StoreError | None = None
        """Why no places were given the last time; None where some were, or none were needed."""

    def hear(self, *, telling: bool = False) -> None:
        """An append is durable, and its entries wait for their places. On the hot path: it counts, and no more."""
        with self._bell:
            self._heard += 1
            if telling:
                self._telling = self._heard
            if self._thread is None:
                self._start()
            elif self._idle:
                self._bell.notify_all()

    def sweep(self) -> None:
        """Looks once for what others left without a place. Returns at once; raises StoreError."""
        if self._thread is None and self._store.unplaced(1):
            self.hear(telling=True)

    def close(self, patience_s: float = CLOSE_SECONDS) -> bool:
        """Gives places to what was heard of, within a limit; whether that is done."""
        with self._bell:
            if self._heard > self._done and self._thread is None:
                self._start()
            self._closing = True
            thread = self._thread
            self._bell.notify_all()
            done = self._bell.wait_for(lambda: self._thread is None, patience_s)
        if thread is not None and done:
            thread.join()
        with self._bell:
            self._heard = self._done  # what is left is the next process's: the thread ends after its present round
            self._bell.notify_all()
        return done

    def _start(self) -> None:
        if self._closing:
            return
        self._thread = threading.Thread(target=self._work, name="readback-sequencer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending: the next process gives the places
            self._thread = None

    def _work(self) -> None:
        try:
            pause_s = PAUSE_FIRST_SECONDS
            while self._wanted(pause_s):
                pause_s = self._round(pause_s)
        finally:
            with self._bell:
                if self._thread is threading.current_thread():
                    self._thread = None
                self._bell.notify_all()

    def _wanted(self, pause_s: float) -> bool:
        """Waits for something to do, and lets it gather. False where there is nothing for a while, or no more."""
        with self._bell:
            if self._heard <= self._done:
                self._idle = True
                self._bell.wait_for(lambda: self._heard > self._done or self._closing, LINGER_SECONDS)
                self._idle = False
                if self._heard <= self._done:
                    self._thread = None  # here, so that whoever hears of one from now on starts another
                    return False
            if not self._closing:
                self._bell.wait_for(lambda: self._closing, pause_s)
            elif pause_s > PAUSE_FIRST_SECONDS:
                self._bell.wait_for(lambda: self._heard <= self._done, PAUSE_FIRST_SECONDS)
            return True

    def _round(self, pause_s: float) -> float:
        """Places once; how long to wait before the next time."""
        aim = self._heard
        try:
            taken = self._store.take_places(PLACES_AT_ONCE_MAX)
            left = taken >= PLACES_AT_ONCE_MAX or bool(self._store.unplaced(1))
            last_seq = self._store.last_seq()
        except StoreError as error:
            return self._failed(error)
        self.fault = None
        # It ends earlier where a standby took over that lacked some: whoever seals is told of that, too.
        moved, self._last_seq = last_seq != self._last_seq, last_seq
        if moved:
            self._placed(last_seq)
        if self._telling > self._told and (moved or not left):
            self._tell()
        if left:
            return PAUSE_FIRST_SECONDS if taken else min(2 * pause_s, PAUSE_MAX_SECONDS)
        with self._bell:
            self._done, self._told = max(self._done, aim), max(self._told, aim)
            self._bell.notify_all()
        return PAUSE_FIRST_SECONDS

    def _failed(self, error: StoreError) -> float:
        """Entries keep what they have; they are placed by the next try, or by whoever comes next."""
        known, self.fault = self.fault, error
        with self._bell:
            if error.code == "store.closed" or self._closing:
                self._done = self._heard
        if error.code != "store.closed" and (known is None or known.code != error.code):
            warn(f"no places were given in the log: {error.code}: {error.message}")
        return PAUSE_FAULT_SECONDS
