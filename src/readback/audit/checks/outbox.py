"""Audit of subscribers' positions and dead letters.

Called at the end of the audit. No entry records deliveries, so the audit cannot prove a position inside the log. It
reports impossible positions: beyond the end of the log, or at a message that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.events import open_envelope
from readback.engine.outbox import messages_at
from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.ports.storage.store import LedgerStore, StoredEvent

LETTERS_READ_MAX: Final = 100_000


@dataclass(slots=True)
class Positions:
    """Possible positions, from the log up to its end."""

    store: LedgerStore
    last_seq: int
    _counts: dict[int, int] = field(default_factory=dict)
    """Number of messages of each requested entry."""

    def compare(self) -> Iterator[tuple[int, str]]:
        """Yield (entry, fault) for each impossible position or letter."""
        cursors = {one.name: one for one in self.store.cursors()}
        for cursor in cursors.values():
            yield from self._cursor(cursor)
        for letter in self.store.letters(limit=LETTERS_READ_MAX):
            yield from self._letter(letter, cursors.get(letter.subscriber))

    def _cursor(self, cursor: Cursor) -> Iterator[tuple[int, str]]:
        named = f"Subscriber {cursor.name!r}"
        if not 0 <= cursor.after_seq <= max(self.last_seq, self.store.last_seq()):
            yield 0, f"{named} has a position after entry {cursor.after_seq}, and there is no such entry."
        elif not 0 <= cursor.done <= self._count(cursor.after_seq + 1):
            yield cursor.after_seq + 1, f"{named} took {cursor.done} messages of an entry with fewer messages."

    def _letter(self, letter: DeadLetter, cursor: Cursor | None) -> Iterator[tuple[int, str]]:
        named = f"A dead letter of subscriber {letter.subscriber!r}"
        if cursor is None:
            yield letter.seq, f"{named} exists, but the subscriber does not."
        elif not 0 <= letter.number < self._count(letter.seq):
            yield letter.seq, f"{named} is message {letter.number} of entry {letter.seq}, which does not exist."

    def _count(self, seq: int) -> int:
        if seq not in self._counts:
            self._counts[seq] = self._counted(seq)
        return self._counts[seq]

    def _counted(self, seq: int) -> int:
        found = self.store.entries(seq - 1, 1) if seq > 0 else []  # a single entry: a scan would fetch many
        if not found or found[0][0] != seq:
            return 0
        _, envelope, leaf = found[0]
        try:
            opened = open_envelope(envelope)
            event = opened.event
            stored = StoredEvent(seq, opened.action_id, opened.version, event.kind, event.at_us, envelope, leaf)
            return len(messages_at(self.store, "", stored))
        except ReadbackError:
            return 0  # another check reports the entry itself
