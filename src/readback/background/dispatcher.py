"""The courier: tells subscribers what the ledger says, a thread for each while it has something to tell.

Woken by the drivers after an append that tells something, and by whoever resumes work (`sweep`). Nothing waits for it,
and nothing fails by it: a sink that hangs keeps its own thread busy, and no action and no other sink. What is told is
taken from the ledger, so that a wake-up that is lost or doubled changes nothing, and what is left at the end is told by
the next process.
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
"""How often whoever stays looks for what nobody told."""
STORE_RETRY_US: Final = 5 * US
LINGER_SECONDS: Final = 5.0
"""So long a thread with nothing to do stays for more: to start one for each action would cost the action's thread."""
CLOSE_SECONDS: Final = 5.0
"""How long closing waits for what is being delivered; then it is broken off, and the next process tells it."""
_TELLING: Final = frozenset(TELLING)


class _SubscriberThread:
    """One subscriber's thread: there while there is something to deliver or to wait for, and never afterwards."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self._bell = threading.Condition()
        self._thread: threading.Thread | None = None
        self._running = self._wanted = self._closing = self._waiting = False
        # A virtual clock moves when somebody moves it: whoever does that sweeps, and no thread waits for it.
        self._waits = not hasattr(delivery.runtime, "holding")

    def wake(self) -> None:
        """There may be something to deliver. Returns at once."""
        with self._bell:
            if self._closing:
                return
            self._wanted = True
            self._bell.notify_all()
            if self._running:
                return
            if self._thread is not None:
                self._thread.join()  # it has let go of the bell for the last time, and is about to end
            self._thread = threading.Thread(target=self._work, name="readback-courier", daemon=True)
            self._running = True
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending: the next process tells it
                self._thread, self._running = None, False

    def flush(self, patience_s: float) -> bool:
        """Waits until nothing can be delivered now; False where that takes longer."""
        with self._bell:
            return self._bell.wait_for(lambda: not self._running or (self._waiting and not self._wanted), patience_s)

    def end(self) -> None:
        """Nothing new is taken up; what is in hand, and what was asked for, is gone on with."""
        with self._bell:
            self._closing = True
            self._bell.notify_all()

    def join(self, patience_s: float | None = None) -> bool:
        """Waits for the thread to be gone."""
        thread = self._thread
        if thread is not None:
            thread.join(patience_s)
        return thread is None or not thread.is_alive()

    def _work(self) -> None:
        # Whoever wakes the lane joins a thread that has ended while he holds the bell: once it has said that it is not
        # running, it must not ask for the bell again.
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
                self._ended()  # here, so that whoever wakes it from now on finds out that it has ended
                return False
            return True

    def _ended(self) -> None:
        """Said once, with the bell, as the last thing that the thread does with it."""
        self._running = False
        self._bell.notify_all()

    def _goes_on(self, again_us: int | None) -> bool:
        """Whether to look again, after having waited for it. Called with the bell."""
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
            # What was not written down is in the ledger, and told again: by us, or by whoever comes next.
            return None if error.code == "store.closed" else self.delivery.runtime.now_us() + STORE_RETRY_US


class OutboxDispatcher:
    """All subscribers of one opened ledger."""

    def __init__(self, runtime: Runtime, deliveries: Iterable[Delivery] = (), sealer: Sealer | None = None) -> None:
        self._runtime, self._owner = runtime, runtime.owner()
        self.sealer = sealer
        """Who is told of every append, to seal the log; the drivers find it here."""
        self.sequencer: Sequencer | None = None
        """Who is told of appends whose entries get their places later; None where they come with the append."""
        self._lanes = tuple(_SubscriberThread(delivery) for delivery in deliveries)
        self.curious = any(lane.delivery.key != OPERATOR for lane in self._lanes)
        """Whether there is anybody who is told more than the operator's file is."""
        self._swept_us = 0

    @property
    def is_here(self) -> bool:
        """Whether this process opened the ledger. In a child that was forked its threads are not there, and a lock that
        one of them held at that moment is held for ever.
        """
        return self._runtime.owner() == self._owner

    def hear(self, append: Append) -> None:
        """An append that is durable. Returns at once, whatever becomes of telling it."""
        if self.tells(append):
            self._wake()

    def tells(self, append: Append) -> bool:
        """Whether there is somebody to be told of it."""
        return bool(append.incidents) or (self.curious and any(event.kind in _TELLING for event in append.events))

    def wake(self) -> None:
        """Something to tell has its place in the log now. Returns at once."""
        self._wake()

    def sweep(self) -> None:
        """Tells what was left untold, by this process or another, as far as it is time for that. Returns at once."""
        now_us = self._runtime.now_us()
        if not self.is_here:
            return
        if not 0 <= now_us - self._swept_us < SWEEP_US:  # a clock that was set back keeps nobody waiting for it
            self._swept_us = now_us
            if self.sequencer is not None:
                self.sequencer.sweep()
            self._wake()

    def deliver(self, patience_s: float = CLOSE_SECONDS) -> bool:
        """Tells what can be told now, and waits for it; False where that takes longer than `patience_s`."""
        self._wake()
        return self.flush(patience_s)

    def enrol(self) -> None:
        """New subscribers begin now, or at the start where they ask for that. Raises StoreError."""
        for lane in self._lanes:
            if lane.delivery.key != OPERATOR:
                lane.delivery.enrol()
                if lane.delivery.subscriber.from_start:
                    lane.wake()

    def flush(self, patience_s: float = CLOSE_SECONDS) -> bool:
        """Waits until nothing can be delivered now; False where that takes longer than `patience_s`."""
        found = [lane.flush(patience_s) for lane in self._lanes]
        return all(found)

    def close(self, patience_s: float = CLOSE_SECONDS) -> None:
        """Ends all threads: after what is being delivered, or, past the limit, by breaking it off."""
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
            lane.wake()


def deliveries_of(
    store: LedgerStore,
    runtime: Runtime,
    sinks: Sequence[tuple[Subscriber, Sink]],
    fallback: Sink | None,
    operator: Sink | None,
    tenant: str = "",
) -> list[Delivery]:
    """One for each subscriber; and, where none of them is told of incidents, the operator's file.

    `tenant`: whose positions these are, where a program handed the subscribers in; "" for the operator's own.
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
    """The name of a position: a program's subscriber is its tenant's, and no other tenant's of that name."""
    return f"{tenant}/{name}" if tenant else name


def before_open_incidents(store: LedgerStore) -> int | None:
    """Where the operator's file begins: before the oldest incident that is open; None where none is."""
    places: list[int] = []
    last_seq = store.last_seq()  # asked first: what has no place yet gets one behind it
    for incident in store.incidents():
        version = incident.id.rpartition("-")[2]
        opening = (each for each in store.events(incident.action_id) if str(each.version) == version)
        places += [each.seq - 1 if each.seq else last_seq for each in opening]
    return min(places, default=None)
