"""Delivery: one subscriber is told what the ledger says, from its position on, in order, at least once.

Called by the courier, and by tests without any thread. It holds the subscriber's lease while it delivers, so that of
several processes one does; it moves the position on only after what lies before it was taken, or died: a crash anywhere
tells some messages again, under the same ids, and loses none. Nobody may wait for the thread that calls it.
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
"""How long nobody else delivers, beside the time that one message may take."""
RETRY_FIRST_US: Final = US
RETRY_MAX_US: Final = 600 * US
"""Pauses after a refusal: from the first on each is twice as long, and jittered by half."""
PAUSE_MAX_US: Final = 24 * 3600 * US
"""The longest that a sink may ask for. What is put off or held for longer was written by a clock that was wrong."""
KEEP_MESSAGES: Final = 64
KEEP_US: Final = US
"""A position is written down after so many messages or so much time, and whenever delivery stops: no more than these
are told twice after a crash."""
HELD_US: Final = 5 * US
"""While somebody else delivers, it is looked so often whether he is gone."""
LAG_MAX: Final = 4096
"""A position that lies so far behind with nothing to tell is written down, so that nobody looks there again."""
PIECE: Final = 256
SAID_MAX: Final = 300
Start = Callable[[LedgerStore], int | None]
"""Where a subscriber begins that nobody has enrolled; None where there is nothing for it yet."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    said: str
    final: bool = False
    retry_after_us: int = 0


class _LostError(Exception):
    """Somebody else has the lease now: nothing more is delivered here, and nothing was kept."""


class Delivery:
    """The messages of one ledger to one subscriber. `key` is the name of its position in the store."""

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
        """Up to `_clear` there is nothing to tell, as found when the position was `_seen`."""

    def enrol(self) -> None:
        """Where the subscriber is new, its position from now on. Raises StoreError."""
        if all(one.name != self.key for one in self.store.cursors()):
            self.store.enrol(self.key, 0 if self.subscriber.from_start else self.store.last_seq())

    def look(self) -> int | None:
        """Delivers what there is and may be delivered now; when to look again, or None where nothing is left.

        Raises StoreError where the ledger cannot be read or written; what was not written down is delivered again.
        """
        cursor = self._cursor()
        now_us = self.runtime.now_us()
        if cursor is None or self._stopping.is_set():
            return None
        ended = cursor.owner and (self.runtime.is_gone(cursor.owner) or not _is_near(cursor.until_us, now_us))
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
        """Breaks off what is being delivered; what was not taken is not counted against the subscriber."""
        self._stopping.set()
        self._sink.stop()
        if self._fallback is not None:
            self._fallback.stop()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def lease_us(self) -> int:
        """A lease outlives the longest that a message may take: both its names, and the fallback."""
        return LEASE_US + int(4 * self.subscriber.timeout_s * US)

    def messages(self, stored: StoredEvent) -> tuple[Message, ...]:
        """All messages of an entry. An entry that cannot be true tells nothing; `ledger verify` names it."""
        if not self._log:
            self._log = log_of(self.store)
        try:
            return messages_at(self.store, self._log, stored)
        except StoreCorruptError:
            return ()

    def offer(self, message: Message) -> _Refusal | None:
        """The message under the names that are asked for; None where all of them were taken."""
        refusals = (_delivered(self._sink, one) for one in message.named(Naming(self.subscriber.naming)))
        return next((refusal for refusal in refusals if refusal is not None), None)

    def tell_fallback(self, message: Message) -> bool:
        """The operator is told in the subscriber's place. True where that was taken, or there is nobody to tell."""
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
        """Whether there is a message for the subscriber behind its position. Nothing is written for asking."""
        if cursor.after_seq < self._seen:
            self._clear = 0  # somebody set it back
        self._seen, self._clear = cursor.after_seq, max(self._clear, cursor.after_seq)
        while True:
            last_seq = self.store.last_seq()
            if last_seq < self._clear:
                self._clear = cursor.after_seq  # the log lost its end, and others may stand there by now
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
    """What is delivered under one lease."""

    def __init__(self, delivery: Delivery, held: Cursor) -> None:
        self._delivery, self._held, self._cursor = delivery, held, held
        self._store, self._now_us = delivery.store, delivery.runtime.now_us
        self._unkept, self._kept_us = 0, self._now_us()

    def run(self) -> int | None:
        """When to look again; at once where everything was told, since more may have come meanwhile."""
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
                # Entries of other kinds that were there before the look hold nothing to tell.
                self._cursor = replace(self._cursor, after_seq=max(self._cursor.after_seq, last_seq), done=0)
                break
        return self._leave(None if self._delivery.stopping else self._now_us())

    def _entry(self, stored: StoredEvent) -> bool:
        """Its messages, one after the other. False where it is not gone on with now."""
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
        """What lies before this is done with."""
        self._cursor = replace(
            self._cursor, after_seq=after_seq, done=done, tried=0, since_us=0, next_us=0, said=""
        )  # fmt: skip

    def _refused(self, message: Message, refusal: _Refusal) -> bool:
        """It was not taken. True where it is dead now, and what follows it is gone on with."""
        delivery = self._delivery
        if delivery.stopping:
            return False  # we broke it off
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
        """Dead letters that somebody asked for once more: each is tried once."""
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
        """Written down, and the lease with it. A crash before this line tells again what was told since the last."""
        now_us = self._now_us()
        kept = replace(cursor, owner=self._held.owner, until_us=now_us + self._delivery.lease_us)
        if not self._store.keep_cursor(self._held, kept, letters):
            raise _LostError
        self._held = self._cursor = kept
        self._unkept, self._kept_us = 0, now_us

    def _leave(self, again_us: int | None) -> int | None:
        """Written down, and the lease given back."""
        if not self._store.keep_cursor(self._held, replace(self._cursor, owner="")):
            raise _LostError
        return again_us


def _delivered(sink: Sink, message: Message) -> _Refusal | None:
    try:
        sink.deliver(message)
    except Exception as error:  # tidy: boundary -- a sink is anybody's code: whatever it raises, it did not take it
        return _refusal(error)
    return None


def _refusal(error: Exception) -> _Refusal:
    """What a sink's error says. Of another's error only its type: its text may hold anything."""
    if not isinstance(error, SinkError):
        return _Refusal(type(error).__name__[:SAID_MAX])
    asked = error.details.get("retry_after_us", 0)
    pause = min(max(asked, 0), PAUSE_MAX_US) if isinstance(asked, int) else 0
    return _Refusal(one_line(str(error.message), SAID_MAX), bool(error.details.get("final")), pause)


def _is_near(at_us: int, now_us: int) -> bool:
    """Whether a moment that was written down can be one to come, whosever clock said it."""
    return at_us - now_us <= PAUSE_MAX_US + RETRY_MAX_US


def _waits(cursor: Cursor, now_us: int) -> bool:
    """A clock that was set back behind the first refusal says nothing of how long that is ago."""
    return cursor.since_us <= now_us < cursor.next_us and _is_near(cursor.next_us, now_us)


def _pause_us(tried: int, jitter: float) -> int:
    longest = min(RETRY_FIRST_US << min(tried - 1, 20), RETRY_MAX_US)
    return longest // 2 + int(longest / 2 * jitter)
