"""Follow the ledger and export spans: from a stored position on, in order, at least once.

The position moves only after the receiver accepted the spans. A receiver that refuses, hangs or is slow loses nothing
and holds up no action: the log is the queue, and the follower has a thread of its own. A crash repeats the spans since
the last stored position, under the same ids. One process at a time follows for one position, by a lease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Protocol

from readback.canon.frozen import dataclass
from readback.errors import StoreError, TelemetryError
from readback.ports.runtime import Runtime
from readback.ports.storage.outbox import Cursor
from readback.ports.storage.store import LedgerStore
from readback.ports.storage.store_rules import lease_is_live
from readback.telemetry.projector import BATCH_ENTRIES, Projector
from readback.telemetry.spans import Span

US: Final = 1_000_000
POSITION: Final = "telemetry:spans"
"""The beginning of a position's name. No subscriber can have the name, since a subscriber's name has no colon."""
LEASE_US: Final = 120 * US
RETRY_FIRST_US: Final = US
RETRY_MAX_US: Final = 60 * US
POLL_S: Final = 1.0
CLOSE_S: Final = 5.0


class SpanReceiver(Protocol):
    """Where spans go. `name` names the receiver's own position in the log."""

    name: str

    def send(self, spans: Sequence[Span]) -> None:
        """Deliver the spans, all of them. Raises TelemetryError where the receiver did not accept them."""
        ...

    def close(self) -> None:
        """Interrupt a delivery, and release all resources."""
        ...


@dataclass(slots=True)
class Followed:
    """What a follower has done. `refused`: failed deliveries; each is repeated, so no span is lost."""

    entries: int = 0
    spans: int = 0
    damaged: int = 0
    refused: int = 0
    position: int = 0


class _LostError(Exception):
    """Another process follows now."""


class SpanFollower:
    """Exports the spans of a ledger, in a thread of its own. Use the follower as a context manager.

    Args:
        store: The ledger.
        runtime: The clock, and the name of this process.
        receiver: Where the spans go.
        from_start: Whether a new position begins at the first entry. Otherwise it begins at the end of the log.
        payloads: Include arguments and results, as redacted by the contract.
        warn: Receives one warning when deliveries begin to fail.
        poll_s: Seconds between two looks at the ledger.
    """

    def __init__(
        self,
        store: LedgerStore,
        runtime: Runtime,
        receiver: SpanReceiver,
        *,
        from_start: bool = False,
        payloads: bool = False,
        warn: Callable[[TelemetryError], None] = lambda _error: None,
        poll_s: float = POLL_S,
    ) -> None:
        self.done = Followed()
        self._store, self._runtime, self._receiver = store, runtime, receiver
        self._projector = Projector(store, payloads=payloads)
        self._from_start, self._warn, self._poll_s = from_start, warn, poll_s
        self._key = f"{POSITION}:{receiver.name}"
        self._finishing, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._failing = ""
        self._pause_us = RETRY_FIRST_US

    # --- one round ---

    def enrol(self) -> None:
        """Store the position of a new receiver. Raises StoreError."""
        if self._cursor() is None:
            self._store.enrol(self._key, 0 if self._from_start else self._store.last_seq())

    def round(self) -> bool:
        """Export what is there. Returns whether the end of the log was reached.

        Raises TelemetryError where the receiver did not accept the spans, and StoreError. The next round repeats them.
        """
        cursor, now_us = self._cursor(), self._runtime.now_us()
        if cursor is None:
            return True
        self.done.position = cursor.after_seq
        if self._store.last_seq() <= cursor.after_seq:
            return True
        dead = cursor.owner if cursor.owner and self._runtime.is_owner_dead(cursor.owner) else ""
        if cursor.owner != dead and lease_is_live(cursor.owner, cursor.until_us, now_us):
            return False
        held = self._store.take_cursor(self._key, self._runtime.owner(), now_us, now_us + LEASE_US, dead)
        if held is None:
            return False
        try:
            return self._export(held)
        except _LostError:
            return False

    def _export(self, held: Cursor) -> bool:
        at = held
        try:
            while not self._stopping.is_set():
                found = self._projector.after(at.after_seq, BATCH_ENTRIES)
                if not found.entries:
                    return True
                if found.spans:
                    self._receiver.send(found.spans)
                self.done.entries += found.entries
                self.done.spans += len(found.spans)
                self.done.damaged += found.damaged
                now_us = self._runtime.now_us()
                moved = replace(at, after_seq=found.last_seq, until_us=now_us + LEASE_US)
                self._keep(at, moved)
                at = moved
                self.done.position = at.after_seq
            return False
        finally:
            self._store.keep_cursor(at, replace(at, owner=""))

    def _keep(self, held: Cursor, moved: Cursor) -> None:
        if not self._store.keep_cursor(held, moved):
            raise _LostError

    def _cursor(self) -> Cursor | None:
        return next((one for one in self._store.cursors() if one.name == self._key), None)

    # --- the thread ---

    def start(self) -> SpanFollower:
        """Start the thread. A position that cannot be stored now is stored later."""
        self._thread = threading.Thread(target=self._stay, name=f"readback-spans-{self._receiver.name}", daemon=True)
        self._thread.start()
        return self

    def _stay(self) -> None:
        while not self._stopping.is_set():
            last, pause_s = self._finishing.is_set(), self._poll_s
            try:
                self.enrol()
                self.round()
                self._failing, self._pause_us = "", RETRY_FIRST_US
            except TelemetryError as error:
                pause_s = self._refused(error)
            except StoreError as error:
                said = f"The ledger cannot be read for spans: {error.message}"
                pause_s = self._refused(TelemetryError(said, remedy=error.remedy, code="telemetry.ledger"))
            if last:
                return
            self._finishing.wait(pause_s)

    def _refused(self, error: TelemetryError) -> float:
        """Count a failed round, warn once for each kind of failure, and return the pause in seconds."""
        if self._stopping.is_set():
            return 0.0
        self.done.refused += 1
        if error.code != self._failing:
            self._failing = error.code
            self._warn(error)
        pause_us, self._pause_us = self._pause_us, min(2 * self._pause_us, RETRY_MAX_US)
        return pause_us / US

    def close(self, wait_s: float = CLOSE_S) -> None:
        """Export the rest of the log within `wait_s` seconds, and end the thread.

        A delivery still on its way after that is interrupted. Spans without an acceptance stay in the ledger, for the
        next follower.
        """
        self._finishing.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(wait_s)
        self._stopping.set()
        self._receiver.close()
        if thread is not None:
            thread.join(wait_s)

    def __enter__(self) -> SpanFollower:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
