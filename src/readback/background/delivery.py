"""Deliver ledger messages to one subscriber: from the stored position on, in order, at least once.

The dispatcher's threads call this, and tests call it without a thread. A delivery holds the subscriber's lease, so only
one process delivers at a time. The position moves only after the messages before it were accepted or became dead
letters. A crash anywhere repeats some messages under the same ids and loses none. No other work may wait for the
delivering thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.records.message import URGENT, Message, Naming
from readback.domain.records.subscriber import Subscriber
from readback.domain.verification.observation_signs import one_line
from readback.engine.outbox import TELLING, log_of, messages_at
from readback.errors import SinkError, StoreCorruptError
from readback.ports.runtime import Runtime
from readback.ports.sink import Sink
from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.ports.storage.store import LedgerStore, StoredEvent
from readback.ports.storage.store_rules import lease_is_live

US: Final = 1_000_000
LEASE_US: Final = 60 * US
"""How long a lease excludes other deliverers, in addition to the time limit of one message."""
RETRY_FIRST_US: Final = US
RETRY_MAX_US: Final = 600 * US
"""Bounds of the pause after a refusal. Each pause is twice the previous pause, and half of the pause is jitter."""
PAUSE_MAX_US: Final = 24 * 3600 * US
"""The longest pause a sink may ask for. A stored moment further in the future came from a wrong clock."""
KEEP_MESSAGES: Final = 64
KEEP_US: Final = US
"""The position is written after this many messages, after this much time, and whenever delivery stops. A crash repeats
no more than this.
"""
HELD_US: Final = 5 * US
"""How often to check whether another deliverer is gone."""
LAG_MAX: Final = 4096
"""A position this far behind, with no message between, is written, so that the range is not searched again."""
PIECE: Final = 256
SAID_MAX: Final = 300
Start = Callable[[LedgerStore], int | None]
"""Where a subscriber without a position begins; None if there is no message for the subscriber yet."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    said: str
    final: bool = False
    retry_after_us: int = 0


class _LostError(Exception):
    """Another deliverer holds the lease now. This one delivers nothing more, and the store kept nothing."""


class Delivery:
    """The messages of one ledger to one subscriber. `key` names the subscriber's position in the store."""

    def __init__(
        self,
        store: LedgerStore,
        runtime: Runtime,
        subscriber: Subscriber,
        key: str,
        sink: Sink,
        fallback: Sink | None = None,
        start: Start | None = None,
    ) -> None:
        self.subscriber, self.key, self.runtime = subscriber, key, runtime
        self.store, self._sink, self._fallback, self._start = store, sink, fallback, start
        self._stopping = threading.Event()
        self._log = ""
        self._clear = self._seen = 0
        """There is no message up to `_clear`, as found when the position was `_seen`."""

    def enrol(self) -> None:
        """Store a position for a new subscriber. Raises StoreError."""
        if all(one.name != self.key for one in self.store.cursors()):
            self.store.enrol(self.key, 0 if self.subscriber.from_start else self.store.last_seq())

    def look(self) -> int | None:
        """Deliver all deliverable messages. Return when to look again, or None if no message is left.

        Raises StoreError if the ledger cannot be read or written. Messages after the last written position are
        delivered again.
        """
        cursor = self._cursor()
        now_us = self.runtime.now_us()
        if cursor is None or self._stopping.is_set():
            return None
        ended = cursor.owner and (self.runtime.is_owner_dead(cursor.owner) or not _is_near(cursor.until_us, now_us))
        dead = cursor.owner if ended else ""
        if cursor.owner != dead and lease_is_live(cursor.owner, cursor.until_us, now_us):
            return min(cursor.until_us, now_us + HELD_US)
        if not self.store.letters(self.key, again=True, limit=1):
            if _waits(cursor, now_us):
                return cursor.next_us
            if not self._anything(cursor) and self._clear - cursor.after_seq < LAG_MAX:
                return None
        held = self.store.take_cursor(self.key, self.runtime.owner(), now_us, now_us + self.lease_us, dead)
        if held is None:
            return now_us + HELD_US
        try:
            return _Round(self, held).run()
        except _LostError:
            return self.runtime.now_us() + HELD_US

    def stop(self) -> None:
        """Interrupt the current delivery. An interrupted message does not count against the subscriber."""
        self._stopping.set()
        self._sink.stop()
        if self._fallback is not None:
            self._fallback.stop()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def lease_us(self) -> int:
        """A lease outlives the longest delivery of a message: both of its names, and the fallback."""
        return LEASE_US + int(4 * self.subscriber.timeout_s * US)

    def messages(self, stored: StoredEvent) -> tuple[Message, ...]:
        """All messages of an entry. A corrupt entry has no messages; `ledger verify` reports the entry."""
        if not self._log:
            self._log = log_of(self.store)
        try:
            return messages_at(self.store, self._log, stored)
        except StoreCorruptError:
            return ()

    def offer(self, message: Message) -> _Refusal | None:
        """Offer the message under each requested name. Returns None if all were accepted."""
        refusals = (_delivered(self._sink, one) for one in message.named(Naming(self.subscriber.naming)))
        return next((refusal for refusal in refusals if refusal is not None), None)

    def tell_fallback(self, message: Message) -> bool:
        """Notify the operator instead of the subscriber. Returns True if accepted, or if there is no fallback."""
        if self._fallback is None:
            return True
        return _delivered(self._fallback, replace(message, undelivered_to=self.subscriber.name)) is None

    def _cursor(self) -> Cursor | None:
        found = next((one for one in self.store.cursors() if one.name == self.key), None)
        if found is None and self._start is not None:
            begin = self._start(self.store)
            found = None if begin is None else self.store.enrol(self.key, begin)
        return found

    def _anything(self, cursor: Cursor) -> bool:
        """Whether a message for the subscriber follows the position. Asking writes nothing."""
        if cursor.after_seq < self._seen:
            self._clear = 0  # the position was moved back
        self._seen, self._clear = cursor.after_seq, max(self._clear, cursor.after_seq)
        while True:
            last_seq = self.store.last_seq()
            if last_seq < self._clear:
                self._clear = cursor.after_seq  # the log lost its end: other entries may stand there
            piece = self.store.pick(self._clear, TELLING, PIECE)
            for stored in piece:
                skip = cursor.done if stored.seq == cursor.after_seq + 1 else 0
                if any(self.subscriber.hears(message) for message in self.messages(stored)[skip:]):
                    return True
                self._clear = stored.seq
            if len(piece) < PIECE:
                self._clear = max(self._clear, last_seq)
                return False


class _Round:
    """The deliveries under one lease."""

    def __init__(self, delivery: Delivery, held: Cursor) -> None:
        self._delivery, self._held, self._cursor = delivery, held, held
        self._store, self._now_us = delivery.store, delivery.runtime.now_us
        self._unkept, self._kept_us = 0, self._now_us()

    def run(self) -> int | None:
        """Return when to look again: at once after a full delivery, since more entries may have arrived."""
        self._again()
        if _waits(self._cursor, self._now_us()):
            return self._leave(self._cursor.next_us)
        while not self._delivery.stopping:
            last_seq = self._store.last_seq()
            piece = self._store.pick(self._cursor.after_seq, TELLING, PIECE)
            for stored in piece:
                if not self._entry(stored):
                    return self._leave(self._cursor.next_us or None)
            if len(piece) < PIECE:
                # The entries of other kinds up to `last_seq` hold no messages.
                self._cursor = replace(self._cursor, after_seq=max(self._cursor.after_seq, last_seq), done=0)
                break
        return self._leave(None if self._delivery.stopping else self._now_us())

    def _entry(self, stored: StoredEvent) -> bool:
        """Deliver an entry's messages in turn. Returns False if delivery must pause here."""
        for message in self._delivery.messages(stored):
            if stored.seq == self._cursor.after_seq + 1 and message.number < self._cursor.done:
                continue
            if self._delivery.subscriber.hears(message):
                if self._delivery.stopping:
                    return False
                refusal = self._delivery.offer(message)
                if refusal is not None and not self._refused(message, refusal):
                    return False
                self._unkept += 1
            self._at(message.seq - 1, message.number + 1)
            if self._unkept >= KEEP_MESSAGES or (self._unkept and self._now_us() - self._kept_us >= KEEP_US):
                self._keep(self._cursor)
        self._at(stored.seq, 0)
        return True

    def _at(self, after_seq: int, done: int) -> None:
        """Move the position: everything before is complete."""
        self._cursor = replace(
            self._cursor, after_seq=after_seq, done=done, tried=0, since_us=0, next_us=0, said=""
        )  # fmt: skip

    def _refused(self, message: Message, refusal: _Refusal) -> bool:
        """Record a refusal. Returns True if the message is a dead letter now and delivery continues with the next."""
        delivery = self._delivery
        if delivery.stopping:
            return False  # interrupted by `stop`, not refused by the sink
        now_us, who = self._now_us(), delivery.subscriber
        tried, since_us = self._cursor.tried + 1, min(self._cursor.since_us or now_us, now_us)
        spent = tried >= who.attempts and now_us - since_us >= int(who.give_up_s * US)
        if refusal.final or spent:
            if delivery.tell_fallback(message):
                letter = DeadLetter(delivery.key, message.seq, message.number, now_us, tried, refusal.said)
                self._at(message.seq - 1, message.number + 1)
                self._keep(self._cursor, letter)
                return True
        elif tried == 1 and message.name in URGENT:
            delivery.tell_fallback(message)
        next_us = now_us + max(_pause_us(tried, delivery.runtime.jitter()), refusal.retry_after_us)
        self._cursor = replace(
            self._cursor,
            after_seq=message.seq - 1,
            done=message.number,
            tried=tried,
            since_us=since_us,
            next_us=next_us,
            said=refusal.said,
        )
        return False

    def _again(self) -> None:
        """Deliver dead letters marked for redelivery, once each."""
        for letter in self._store.letters(self._delivery.key, again=True):
            if self._delivery.stopping:
                return
            found = next(iter(self._store.scan(letter.seq - 1)), None)
            messages = self._delivery.messages(found) if found is not None else ()
            message = next((one for one in messages if one.number == letter.number), None)
            refusal = _Refusal("There is no such message.") if message is None else self._delivery.offer(message)
            if refusal is None:
                self._store.drop_letter(letter)
            elif not self._delivery.stopping:
                self._store.put_letter(replace(letter, again=False, tried=letter.tried + 1, said=refusal.said))
            self._keep(self._cursor)

    def _keep(self, cursor: Cursor, *letters: DeadLetter) -> None:
        """Write the position and renew the lease. A crash before this repeats the messages since the last write."""
        now_us = self._now_us()
        kept = replace(cursor, owner=self._held.owner, until_us=now_us + self._delivery.lease_us)
        if not self._store.keep_cursor(self._held, kept, letters):
            raise _LostError
        self._held = self._cursor = kept
        self._unkept, self._kept_us = 0, now_us

    def _leave(self, again_us: int | None) -> int | None:
        """Write the position and release the lease."""
        if not self._store.keep_cursor(self._held, replace(self._cursor, owner="")):
            raise _LostError
        return again_us


def _delivered(sink: Sink, message: Message) -> _Refusal | None:
    try:
        sink.deliver(message)
    except Exception as error:  # tidy: boundary -- a sink is foreign code: any error means a refusal
        return _refusal(error)
    return None


def _refusal(error: Exception) -> _Refusal:
    """The message of a SinkError. Of any other error only the type: the text may hold anything."""
    if not isinstance(error, SinkError):
        return _Refusal(type(error).__name__[:SAID_MAX])
    asked = error.details.get("retry_after_us", 0)
    pause = min(max(asked, 0), PAUSE_MAX_US) if isinstance(asked, int) else 0
    return _Refusal(one_line(str(error.message), SAID_MAX), bool(error.details.get("final")), pause)


def _is_near(at_us: int, now_us: int) -> bool:
    """Whether a stored moment is plausible as a future moment, on any machine's clock."""
    return at_us - now_us <= PAUSE_MAX_US + RETRY_MAX_US


def _waits(cursor: Cursor, now_us: int) -> bool:
    """Whether a retry must wait. If the clock now stands before the first refusal, the elapsed time is unknown and the
    retry runs.
    """
    return cursor.since_us <= now_us < cursor.next_us and _is_near(cursor.next_us, now_us)


def _pause_us(tried: int, jitter: float) -> int:
    longest = min(RETRY_FIRST_US << min(tried - 1, 20), RETRY_MAX_US)
    return longest // 2 + int(longest / 2 * jitter)
