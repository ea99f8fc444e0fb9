"""Assign positions in the log, shortly after the append, in a thread of its own.

The drivers report each append without positions (`hear`, which only counts), long-running processes call `sweep`, and
the end of the process calls `close`. A store with positions at append time never reports here, and no thread starts.
The store lets one process at a time assign positions, and another process takes over when needed. A crash anywhere
leaves sequenced and waiting entries; a missing wake-up loses nothing.

Delivery and sealing start here: only entries with a position are sealed and delivered.
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
"""How long entries gather before one batch of positions."""
PAUSE_MAX_SECONDS: Final = 0.05
"""The longest pause while another process assigns positions, or an earlier transaction still runs."""
PAUSE_FAULT_SECONDS: Final = 1.0
LINGER_SECONDS: Final = 5.0
"""How long an idle thread stays."""
CLOSE_SECONDS: Final = 2.0
"""How long `close` waits for positions. The next process assigns the rest."""

Placed = Callable[[int], None]
"""Receives the position of the log's last entry, regardless of the assigning process."""


class Sequencer:
    """Assign positions in one opened ledger while entries lack them."""

    def __init__(self, store: LedgerStore, placed: Placed, tell: Callable[[], None]) -> None:
        """`placed` is called after a change of the log's end; `tell` when an entry with messages has a position."""
        self._store, self._placed, self._tell = store, placed, tell
        self._bell = threading.Condition()
        self._heard = self._done = 0
        """How many appends were reported, and how many of them surely have positions."""
        self._telling = self._told = 0
        """The last append with messages, and the last append announced to subscribers."""
        self._last_seq = 0
        self._thread: threading.Thread | None = None
        self._idle = self._closing = False
        self.fault: StoreError | None = None
        """Why the last attempt assigned nothing; None after a success or with nothing to do."""

    def hear(self, *, telling: bool = False) -> None:
        """Note a durable append without positions. Called on the hot path, so this only counts."""
        with self._bell:
            self._heard += 1
            if telling:
                self._telling = self._heard
            if self._thread is None:
                self._start()
            elif self._idle:
                self._bell.notify_all()

    def sweep(self) -> None:
        """Look once for entries without a position. Returns at once; raises StoreError."""
        if self._thread is None and self._store.unsequenced(1):
            self.hear(telling=True)

    def close(self, patience_s: float = CLOSE_SECONDS) -> bool:
        """Assign positions to all reported entries within a limit. Returns whether that succeeded."""
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
            self._heard = self._done  # the rest is for the next process: the thread ends after the current round
            self._bell.notify_all()
        return done

    def _start(self) -> None:
        if self._closing:
            return
        self._thread = threading.Thread(target=self._work, name="readback-sequencer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending: the next process assigns the positions
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
        """Wait for entries and let them gather. Returns False after an idle time or at the end."""
        with self._bell:
            if self._heard <= self._done:
                self._idle = True
                self._bell.wait_for(lambda: self._heard > self._done or self._closing, LINGER_SECONDS)
                self._idle = False
                if self._heard <= self._done:
                    self._thread = None  # under the lock, so that the next `hear` starts another thread
                    return False
            if not self._closing:
                self._bell.wait_for(lambda: self._closing, pause_s)
            elif pause_s > PAUSE_FIRST_SECONDS:
                self._bell.wait_for(lambda: self._heard <= self._done, PAUSE_FIRST_SECONDS)
            return True

    def _round(self, pause_s: float) -> float:
        """Assign positions once. Returns the pause before the next round, in seconds."""
        aim = self._heard
        try:
            taken = self._store.assign_sequence_numbers(PLACES_AT_ONCE_MAX)
            left = taken >= PLACES_AT_ONCE_MAX or bool(self._store.unsequenced(1))
            last_seq = self._store.last_seq()
        except StoreError as error:
            return self._failed(error)
        self.fault = None
        # After a failover to a standby with fewer entries the log ends earlier: the sealer hears of a lower end, too.
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
        """Record the error. Assigned positions stay; the next attempt, here or in another process, assigns the rest."""
        known, self.fault = self.fault, error
        with self._bell:
            if error.code == "store.closed" or self._closing:
                self._done = self._heard
        if error.code != "store.closed" and (known is None or known.code != error.code):
            warn(f"no places were given in the log: {error.code}: {error.message}")
        return PAUSE_FAULT_SECONDS
