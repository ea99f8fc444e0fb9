"""Deliver ledger messages to all subscribers, with one thread for each while messages are pending.

The drivers wake the dispatcher after an append with messages, and so do processes that resume work (`sweep`). No caller
waits for a delivery, and no action fails because of one. A hanging sink occupies only its own thread. Messages are read
from the ledger, so lost or doubled wake-ups are harmless, and the next process delivers the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from readback.background.delivery import US, Delivery
from readback.domain.records.message import EventName
from readback.domain.records.subscriber import OPERATOR, STAND_IN, Subscriber
from readback.engine.outbox import TELLING
from readback.errors import StoreError
from readback.ports.runtime import Runtime
from readback.ports.sink import Sink
from readback.ports.storage.store import Append, LedgerStore

if TYPE_CHECKING:
    from readback.background.sealer import Sealer
    from readback.background.sequencer import Sequencer

SWEEP_US: Final = 5 * US
"""How often a long-running process looks for undelivered messages."""
STORE_RETRY_US: Final = 5 * US
LINGER_SECONDS: Final = 5.0
"""How long an idle thread stays. Starting a thread for each action would slow the action's thread."""
CLOSE_SECONDS: Final = 5.0
"""How long `close` waits for running deliveries before interrupting them. The next process delivers the rest."""
_TELLING: Final = frozenset(TELLING)


class _SubscriberThread:
    """One subscriber's thread. The thread exists only while there is a message to deliver or to wait for."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self._bell = threading.Condition()
        self._thread: threading.Thread | None = None
        self._running = self._wanted = self._closing = self._waiting = False
        # A test moves the virtual clock and then sweeps, so no thread waits for virtual time.
        self._waits = not hasattr(delivery.runtime, "holding")

    def notify(self) -> None:
        """Announce a possible message. Returns at once."""
        with self._bell:
            if self._closing:
                return
            self._wanted = True
            self._bell.notify_all()
            if self._running:
                return
            if self._thread is not None:
                self._thread.join()  # the thread released the lock for the last time, and is about to end
            self._thread = threading.Thread(target=self._work, name="readback-courier", daemon=True)
            self._running = True
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending: the next process delivers
                self._thread, self._running = None, False

    def flush(self, patience_s: float) -> bool:
        """Wait until nothing is deliverable now. Returns False on timeout."""
        with self._bell:
            return self._bell.wait_for(lambda: not self._running or (self._waiting and not self._wanted), patience_s)

    def end(self) -> None:
        """Accept no further wake-ups. Current and already requested deliveries continue."""
        with self._bell:
            self._closing = True
            self._bell.notify_all()

    def join(self, patience_s: float | None = None) -> bool:
        """Wait for the end of the thread."""
        thread = self._thread
        if thread is not None:
            thread.join(patience_s)
        return thread is None or not thread.is_alive()

    def _work(self) -> None:
        # `notify` joins an ended thread while holding the lock. After `_ended` the thread must not acquire the lock
        # again: the join would never return.
        try:
            while self._round():
                pass
        except BaseException:
            with self._bell:
                self._ended()
            raise

    def _round(self) -> bool:
        with self._bell:
            self._wanted = self._waiting = False
        again_us = self._look()
        with self._bell:
            if not self._goes_on(again_us):
                self._ended()  # under the lock, so that the next `notify` starts another thread
                return False
            return True

    def _ended(self) -> None:
        """Mark the thread as ended: the thread's last use of the condition, called with the lock held."""
        self._running = False
        self._bell.notify_all()

    def _goes_on(self, again_us: int | None) -> bool:
        """Whether to look again, after waiting for the next moment. Called with the lock held."""
        if self._wanted and not self.delivery.stopping:
            return True
        pause_us = None if again_us is None else again_us - self.delivery.runtime.now_us()
        if pause_us is not None and pause_us <= 0:
            return not self.delivery.stopping
        if self._closing or not self._waits:
            return False
        self._waiting = True
        self._bell.notify_all()
        pause_s = LINGER_SECONDS if pause_us is None else pause_us / US
        self._bell.wait_for(lambda: self._wanted or self._closing, pause_s)
        return self._wanted or (pause_us is not None and not self._ends())

    def _ends(self) -> bool:
        return self._closing

    def _look(self) -> int | None:
        try:
            return self.delivery.look()
        except StoreError as error:
            # Unwritten progress is delivered again from the ledger, here or by the next process.
            return None if error.code == "store.closed" else self.delivery.runtime.now_us() + STORE_RETRY_US


class OutboxDispatcher:
    """All subscribers of one opened ledger."""

    def __init__(self, runtime: Runtime, deliveries: Iterable[Delivery] = (), sealer: Sealer | None = None) -> None:
        self._runtime, self._owner = runtime, runtime.owner()
        self.sealer = sealer
        """Notified of every append, to seal the log. The drivers find the sealer here."""
        self.sequencer: Sequencer | None = None
        """Notified of appends without positions. None if the store assigns positions with the append."""
        self._lanes = tuple(_SubscriberThread(delivery) for delivery in deliveries)
        self.has_subscribers = any(lane.delivery.key != OPERATOR for lane in self._lanes)
        """Whether a subscriber exists besides the operator's file."""
        self._swept_us = 0

    @property
    def is_here(self) -> bool:
        """Whether this process opened the ledger. A forked child has none of the threads, and inherits their locks in
        an unknown state: a lock held during the fork is never released.
        """
        return self._runtime.owner() == self._owner

    def hear(self, append: Append) -> None:
        """Note a durable append. Returns at once, regardless of delivery."""
        if self.tells(append):
            self._wake()

    def tells(self, append: Append) -> bool:
        """Whether the append holds a message for a subscriber."""
        return bool(append.incidents) or (
            self.has_subscribers and any(event.kind in _TELLING for event in append.events)
        )

    def notify(self) -> None:
        """Announce an entry with messages and a position in the log. Returns at once."""
        self._wake()

    def sweep(self) -> None:
        """Deliver what this or another process left undelivered, if due. Returns at once."""
        now_us = self._runtime.now_us()
        if not self.is_here:
            return
        if not 0 <= now_us - self._swept_us < SWEEP_US:  # after a step back of the clock, sweep at once
            self._swept_us = now_us
            if self.sequencer is not None:
                self.sequencer.sweep()
            self._wake()

    def deliver(self, patience_s: float = CLOSE_SECONDS) -> bool:
        """Deliver all deliverable messages and wait. Returns False after `patience_s` seconds."""
        self._wake()
        return self.flush(patience_s)

    def enrol(self) -> None:
        """Give new subscribers a position: now, or the start of the log if requested. Raises StoreError."""
        for lane in self._lanes:
            if lane.delivery.key != OPERATOR:
                lane.delivery.enrol()
                if lane.delivery.subscriber.from_start:
                    lane.notify()

    def flush(self, patience_s: float = CLOSE_SECONDS) -> bool:
        """Wait until nothing is deliverable now. Returns False after `patience_s` seconds."""
        found = [lane.flush(patience_s) for lane in self._lanes]
        return all(found)

    def close(self, patience_s: float = CLOSE_SECONDS) -> None:
        """End all threads: after the running deliveries, or, past the limit, by interrupting them."""
        for lane in self._lanes:
            lane.end()
        patient = patience_s > 0
        for lane in self._lanes:
            patient = lane.join(patience_s if patient else 0.0) and patient
        for lane in self._lanes:
            lane.delivery.stop()
        for lane in self._lanes:
            lane.join()

    def _wake(self) -> None:
        for lane in self._lanes:
            lane.notify()


def deliveries_of(
    store: LedgerStore,
    runtime: Runtime,
    sinks: Sequence[tuple[Subscriber, Sink]],
    fallback: Sink | None,
    operator: Sink | None,
    tenant: str = "",
) -> list[Delivery]:
    """One delivery for each subscriber. If no subscriber receives incidents, the operator's file does.

    `tenant`: the owner of the positions, for subscribers passed in by a program; "" for the operator's own.
    """
    found = [
        Delivery(store, runtime, subscriber, key_of(subscriber.name, tenant), sink, fallback)
        for subscriber, sink in sinks
    ]
    told = any(EventName.INCIDENT_OPENED in subscriber.names for subscriber, _ in sinks)
    if operator is not None and not told:
        found.append(Delivery(store, runtime, STAND_IN, OPERATOR, operator, fallback, before_open_incidents))
    return found


def key_of(name: str, tenant: str) -> str:
    """The name of a position. A program's subscriber belongs to its tenant, apart from equal names of other tenants."""
    return f"{tenant}/{name}" if tenant else name


def before_open_incidents(store: LedgerStore) -> int | None:
    """The start of the operator's file: before the oldest open incident; None if no incident is open."""
    places: list[int] = []
    last_seq = store.last_seq()  # read first: entries without a position get a later position
    for incident in store.incidents():
        version = incident.id.rpartition("-")[2]
        opening = (each for each in store.events(incident.action_id) if str(each.version) == version)
        places += [each.seq - 1 if each.seq else last_seq for each in opening]
    return min(places, default=None)
