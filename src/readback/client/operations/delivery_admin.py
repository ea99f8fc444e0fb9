"""Message delivery for operators: each subscriber's position, dead letters, and past messages.

Called by `readback events`. A session sees the operator's own subscribers and those of its tenant, and messages of its
tenant alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from readback.bootstrap import Settings
from readback.canon.frozen import dataclass
from readback.client.session import Session
from readback.domain.records.message import EventName, Message
from readback.domain.records.subscriber import OPERATOR, STAND_IN, Subscriber
from readback.engine.outbox import TELLING, log_of, messages_at
from readback.errors import NotFoundError, StoreCorruptError, UsageError
from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.ports.storage.store import LedgerStore, StoredEvent

LETTERS_MAX: Final = 10_000
PIECE: Final = 256
WAITING_MAX: Final = 1_000
"""The highest number of messages counted."""


@dataclass(frozen=True, slots=True)
class Position:
    """A subscriber's position. `cursor`: None before the first delivery; `waiting`: undelivered messages, counted up to
    WAITING_MAX, and None where only a program knows the subscription; `where`: "" for a subscriber unknown to the
    settings.
    """

    name: str
    where: str
    cursor: Cursor | None
    waiting: int | None
    letters: int


@dataclass(frozen=True, slots=True)
class DeadLetterMessage:
    """An undelivered message, and the reason why delivery ended."""

    letter: DeadLetter
    message: Message


def positions(session: Session, settings: Settings, unread: set[int], *, count: bool = True) -> list[Position]:
    """Return every subscriber visible to this session, by name. `unread` collects unreadable entries.

    Without `count` the waiting messages are not counted, so no entry is read.
    """
    store, tenant = session.store, session.scope.tenant
    known = {each.name: each for each in settings.subscribers}
    cursors = {one.name: one for one in store.cursors() if _seen(one.name, tenant)}
    letters = store.letters(limit=LETTERS_MAX)
    return [
        Position(
            name,
            _where(known.get(name), name),
            cursors.get(name),
            _waiting(store, cursors.get(name), known.get(name) or (STAND_IN if name == OPERATOR else None), unread)
            if count
            else None,
            sum(1 for one in letters if one.subscriber == name),
        )
        for name in sorted({*known, *cursors})
    ]


def _waiting(store: LedgerStore, cursor: Cursor | None, subscriber: Subscriber | None, unread: set[int]) -> int | None:
    if cursor is None or subscriber is None:
        return 0 if cursor is None else None
    heard = (one for one in _messages(store, cursor.after_seq, unread) if subscriber.hears(one))
    return sum(1 for _ in islice(heard, WAITING_MAX))


def dead_letters(
    session: Session, unread: set[int], subscriber: str = "", *, limit: int = LETTERS_MAX
) -> list[DeadLetterMessage]:
    """Return up to `limit` dead letters of this tenant, of one subscriber or all, in the order of the log.

    `unread` collects unreadable entries; the result lacks their letters.
    """
    store, tenant = session.store, session.scope.tenant
    log = log_of(store)
    found: list[DeadLetterMessage] = []
    for letter in store.letters(subscriber, limit=LETTERS_MAX):
        message = _message(store, log, letter, unread) if _seen(letter.subscriber, tenant) else None
        if message is not None and message.tenant == tenant:
            found.append(DeadLetterMessage(letter, message))
        if len(found) >= limit:
            break
    return found


def resend(
    session: Session, chosen: Iterable[DeadLetterMessage]
) -> tuple[list[DeadLetterMessage], list[DeadLetterMessage]]:
    """Request dead letters again, and deliver as many as possible here: (accepted, rejected).

    Where another process has the subscriber, that process delivers.
    """
    asked = list(chosen)
    for one in asked:
        session.store.put_letter(replace(one.letter, again=True))
    session.courier.deliver()
    left = {(one.subscriber, one.seq, one.number) for one in session.store.letters(limit=LETTERS_MAX)}
    still = [one for one in asked if (one.letter.subscriber, one.letter.seq, one.letter.number) in left]
    return [one for one in asked if one not in still], still


def begin(session: Session, name: str, after_seq: int) -> Cursor:
    """Set a subscriber's next position. Raises NotFoundError, UsageError."""
    store, now_us = session.store, session.runtime.now_us()
    if not _seen(name, session.scope.tenant) or name not in {one.name for one in store.cursors()}:
        raise NotFoundError(
            f"There is no subscriber {name!r}.", remedy="Run `readback events list` to see the subscribers."
        )
    if not 0 <= after_seq <= store.last_seq():
        raise UsageError(f"There is no entry {after_seq}.", remedy="Run `readback events list` to see the positions.")
    held = store.take_cursor(name, session.runtime.owner(), now_us, now_us + 1)
    moved = Cursor(name, after_seq)
    if held is None or not store.keep_cursor(held, moved):
        raise UsageError(f"A delivery to {name!r} is in progress.", remedy="Try it again.")
    return moved


def told(session: Session, after_seq: int, names: frozenset[EventName], unread: set[int]) -> Iterator[Message]:
    """Return this tenant's messages after a place in the log, in order. `unread` collects unreadable entries."""
    tenant = session.scope.tenant
    return (one for one in _messages(session.store, after_seq, unread) if one.tenant == tenant and one.name in names)


def _messages(store: LedgerStore, after_seq: int, unread: set[int]) -> Iterator[Message]:
    log = log_of(store)
    while piece := store.pick(after_seq, TELLING, PIECE):
        for stored in piece:
            yield from _messages_at(store, log, stored, unread)
        after_seq = piece[-1].seq


def _messages_at(store: LedgerStore, log: str, stored: StoredEvent, unread: set[int]) -> tuple[Message, ...]:
    """Return the messages as subscribers receive them: an inconsistent entry produces no message, and blocks none."""
    try:
        return messages_at(store, log, stored)
    except StoreCorruptError:
        unread.add(stored.seq)
        return ()


def _message(store: LedgerStore, log: str, letter: DeadLetter, unread: set[int]) -> Message | None:
    stored = next(iter(store.pick(letter.seq - 1, TELLING, 1)), None)
    if stored is None or stored.seq != letter.seq:
        return None
    return next((one for one in _messages_at(store, log, stored, unread) if one.number == letter.number), None)


def _seen(name: str, tenant: str) -> bool:
    """A program's subscriber is visible to its tenant; the operator's own are visible to every reader of the ledger."""
    owner, slash, _ = name.rpartition("/")
    return not slash or owner == tenant


def _where(subscriber: Subscriber | None, name: str) -> str:
    if subscriber is None:
        return "the file beside the ledger" if name == OPERATOR else "a program" if "/" in name else ""
    if subscriber.webhook:  # by its host alone, and a command by its program: the rest may be, or hold, a credential
        return "/".join(subscriber.webhook.split("/", 3)[:3]).partition("?")[0]
    return subscriber.file or next(iter(subscriber.command), "")
