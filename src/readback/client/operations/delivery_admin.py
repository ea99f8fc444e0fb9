"""What an operator asks about telling: how far each subscriber is, what died, what there was to tell.

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
"""So many messages are counted; more are not told apart."""


@dataclass(frozen=True, slots=True)
class Position:
    """How a subscriber stands. `cursor`: None where it was never told anything; `waiting`: messages it is still to be
    told, counted up to WAITING_MAX, and None where only a program knows which it hears; `where`: "" where the settings
    do not know it.
    """

    name: str
    where: str
    cursor: Cursor | None
    waiting: int | None
    letters: int


@dataclass(frozen=True, slots=True)
class DeadLetterMessage:
    """What was to be delivered, and why delivery ended."""

    letter: DeadLetter
    message: Message


def positions(session: Session, settings: Settings, unread: set[int]) -> list[Position]:
    """Every subscriber that this session may see, by name. `unread` takes the entries that cannot be read."""
    store, tenant = session.store, session.scope.tenant
    known = {each.name: each for each in settings.subscribers}
    cursors = {one.name: one for one in store.cursors() if _seen(one.name, tenant)}
    letters = store.letters(limit=LETTERS_MAX)
    return [
        Position(
            name,
            _where(known.get(name), name),
            cursors.get(name),
            _waiting(store, cursors.get(name), known.get(name) or (STAND_IN if name == OPERATOR else None), unread),
            sum(1 for one in letters if one.subscriber == name),
        )
        for name in sorted({*known, *cursors})
    ]


def _waiting(store: LedgerStore, cursor: Cursor | None, subscriber: Subscriber | None, unread: set[int]) -> int | None:
    if cursor is None or subscriber is None:
        return 0 if cursor is None else None
    heard = (one for one in _messages(store, cursor.after_seq, unread) if subscriber.hears(one))
    return sum(1 for _ in islice(heard, WAITING_MAX))


def dead_letters(session: Session, unread: set[int], subscriber: str = "") -> list[DeadLetterMessage]:
    """This tenant's dead letters, in the order of the log; of one subscriber or all. `unread` takes the entries
    that cannot be read, and whose letters are not here.
    """
    store, tenant = session.store, session.scope.tenant
    log = log_of(store)
    found: list[DeadLetterMessage] = []
    for letter in store.letters(subscriber, limit=LETTERS_MAX):
        message = _message(store, log, letter, unread) if _seen(letter.subscriber, tenant) else None
        if message is not None and message.tenant == tenant:
            found.append(DeadLetterMessage(letter, message))
    return found


def resend(
    session: Session, chosen: Iterable[DeadLetterMessage]
) -> tuple[list[DeadLetterMessage], list[DeadLetterMessage]]:
    """Asks for dead letters once more, and delivers what can be delivered here: (taken, not taken).

    What cannot, because another process has the subscriber, is delivered by that one.
    """
    asked = list(chosen)
    for one in asked:
        session.store.put_letter(replace(one.letter, again=True))
    session.courier.deliver()
    left = {(one.subscriber, one.seq, one.number) for one in session.store.letters(limit=LETTERS_MAX)}
    still = [one for one in asked if (one.letter.subscriber, one.letter.seq, one.letter.number) in left]
    return [one for one in asked if one not in still], still


def begin(session: Session, name: str, after_seq: int) -> Cursor:
    """Sets where a subscriber goes on from. Raises NotFoundError, UsageError."""
    store, now_us = session.store, session.runtime.now_us()
    if not _seen(name, session.scope.tenant) or name not in {one.name for one in store.cursors()}:
        raise NotFoundError(f"There is no subscriber {name!r}.", remedy="Look at `readback events list`.")
    if not 0 <= after_seq <= store.last_seq():
        raise UsageError(f"There is no entry {after_seq}.", remedy="Look at `readback events list` for positions.")
    held = store.take_cursor(name, session.runtime.owner(), now_us, now_us + 1)
    moved = Cursor(name, after_seq)
    if held is None or not store.keep_cursor(held, moved):
        raise UsageError(f"Something is being delivered to {name!r} just now.", remedy="Try it again.")
    return moved


def told(session: Session, after_seq: int, names: frozenset[EventName], unread: set[int]) -> Iterator[Message]:
    """This tenant's messages behind a place in the log, in order. `unread` takes the entries that cannot be read."""
    tenant = session.scope.tenant
    return (one for one in _messages(session.store, after_seq, unread) if one.tenant == tenant and one.name in names)


def _messages(store: LedgerStore, after_seq: int, unread: set[int]) -> Iterator[Message]:
    log = log_of(store)
    while piece := store.pick(after_seq, TELLING, PIECE):
        for stored in piece:
            yield from _messages_at(store, log, stored, unread)
        after_seq = piece[-1].seq


def _messages_at(store: LedgerStore, log: str, stored: StoredEvent, unread: set[int]) -> tuple[Message, ...]:
    """As subscribers get them: an entry that cannot be true tells nothing, and holds nothing up."""
    try:
        return messages_at(store, log, stored)
    except StoreCorruptError:
        unread.add(stored.seq)
        return ()


def _message(store: LedgerStore, log: str, letter: DeadLetter, unread: set[int]) -> Message | None:
    stored: StoredEvent | None = next(iter(store.scan(letter.seq - 1)), None)
    if stored is None:
        return None
    return next((one for one in _messages_at(store, log, stored, unread) if one.number == letter.number), None)


def _seen(name: str, tenant: str) -> bool:
    """A program's subscriber is its tenant's; the operator's own are everybody's who may look at the ledger."""
    owner, slash, _ = name.rpartition("/")
    return not slash or owner == tenant


def _where(subscriber: Subscriber | None, name: str) -> str:
    if subscriber is None:
        return "the file beside the ledger" if name == OPERATOR else "a program" if "/" in name else ""
    if subscriber.webhook:  # by its host alone, and a command by its program: the rest may be, or hold, a credential
        return "/".join(subscriber.webhook.split("/", 3)[:3]).partition("?")[0]
    return subscriber.file or next(iter(subscriber.command), "")
