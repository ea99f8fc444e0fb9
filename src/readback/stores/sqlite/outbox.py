"""Positions of subscribers and dead letters: the outbox part of the store, for reading and writing.

Called by the store, which sends the changes through its group commit. This module decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Final, TypeAlias, cast

from readback.canon.frozen import dataclass
from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.stores.sqlite import rows
from readback.stores.sqlite.transaction import Transaction

CURSOR_COLUMNS: Final = ", ".join(field.name for field in fields(Cursor))
LETTER_COLUMNS: Final = ", ".join(field.name for field in fields(DeadLetter))
_NOTHING: Final = "0, 0, 0, 0, '', '', 0"

SELECT_CURSORS: Final = rows.statement("SELECT", CURSOR_COLUMNS, "FROM subscriber ORDER BY name")
SELECT_CURSOR: Final = rows.statement("SELECT", CURSOR_COLUMNS, "FROM subscriber WHERE name = ?")
ENROL: Final = rows.statement(
    "INSERT OR IGNORE INTO subscriber (", CURSOR_COLUMNS, ") VALUES (?, ?,", _NOTHING, ")"
)  # fmt: skip
TAKE_CURSOR: Final = rows.statement(
    "UPDATE subscriber SET owner = :owner, until_us = :until",
    "WHERE name = :name AND (owner IN ('', :dead) OR until_us <= :now) RETURNING", CURSOR_COLUMNS,
)  # fmt: skip
KEEP_CURSOR: Final = (
    "UPDATE subscriber SET after_seq = ?, done = ?, tried = ?, since_us = ?, next_us = ?, said = ?, owner = ?,"
    " until_us = ? WHERE name = ? AND owner = ? AND until_us = ? RETURNING 1"
)
SELECT_LETTERS: Final = rows.statement("SELECT", LETTER_COLUMNS, "FROM dead_letter")
PUT_LETTER: Final = rows.statement(
    "INSERT OR REPLACE INTO dead_letter (", LETTER_COLUMNS, ") VALUES (?, ?, ?, ?, ?, ?, ?)"
)  # fmt: skip
CHANGE_LETTER: Final = (
    "UPDATE dead_letter SET died_us = ?, tried = ?, said = ?, again = ?"
    " WHERE subscriber = ? AND seq = ? AND number = ? RETURNING 1"
)
DROP_LETTER: Final = "DELETE FROM dead_letter WHERE subscriber = ? AND seq = ? AND number = ?"

_moved = attrgetter("after_seq", "done", "tried", "since_us", "next_us", "said", "owner", "until_us", "name")
_place = attrgetter("subscriber", "seq", "number")


def cursor(row: rows.Row) -> Cursor:
    return Cursor(*row)  # type: ignore[arg-type]  # the columns stand in the order of the fields


def letter(row: rows.Row) -> DeadLetter:
    subscriber, seq, number, died_us, tried, said, again = cast("tuple[str, int, int, int, int, str, int]", row)
    return DeadLetter(subscriber, seq, number, died_us, tried, said, bool(again))


@dataclass(frozen=True, slots=True)
class EnrolWork:
    """Create a new subscriber's position. Result: the subscriber's position, existing or new."""

    name: str
    after_seq: int

    def apply(self, transaction: Transaction) -> Cursor:
        transaction.flush()
        transaction.one(ENROL, (self.name, self.after_seq))
        found = transaction.one(SELECT_CURSOR, (self.name,))
        assert found is not None
        return cursor(found)


@dataclass(frozen=True, slots=True)
class TakeCursorWork:
    """Acquire the right to deliver. Result: the position, or None."""

    name: str
    owner: str
    now_us: int
    until_us: int
    dead: str

    def apply(self, transaction: Transaction) -> Cursor | None:
        transaction.flush()
        values: dict[str, rows.Value] = {
            "name": self.name,
            "owner": self.owner,
            "now": self.now_us,
            "until": self.until_us,
            "dead": self.dead,
        }
        found = transaction.one(TAKE_CURSOR, values)
        return None if found is None else cursor(found)


@dataclass(frozen=True, slots=True)
class KeepCursorWork:
    """Advance a position, with the dead letters on the way. Result: whether the lease was still held."""

    held: Cursor
    cursor: Cursor
    letters: tuple[DeadLetter, ...]

    def apply(self, transaction: Transaction) -> bool:
        transaction.flush()
        kept = transaction.one(KEEP_CURSOR, (*_moved(self.cursor), self.held.owner, self.held.until_us))
        if kept is not None:
            for one in self.letters:
                transaction.one(PUT_LETTER, (*_place(one), one.died_us, one.tried, one.said, int(one.again)))
        return kept is not None


@dataclass(frozen=True, slots=True)
class PutLetterWork:
    """Change a dead letter. Result: whether the letter exists."""

    letter: DeadLetter

    def apply(self, transaction: Transaction) -> bool:
        transaction.flush()
        one = self.letter
        return (
            transaction.one(CHANGE_LETTER, (one.died_us, one.tried, one.said, int(one.again), *_place(one))) is not None
        )


@dataclass(frozen=True, slots=True)
class DropLetterWork:
    """Remove a dead letter after a late delivery."""

    letter: DeadLetter

    def apply(self, transaction: Transaction) -> None:
        transaction.flush()
        transaction.one(DROP_LETTER, _place(self.letter))


OutgoingWork: TypeAlias = EnrolWork | TakeCursorWork | KeepCursorWork | PutLetterWork | DropLetterWork


class Outgoing:
    """The outbox half of the store port. The inheriting store supplies reading and writing."""

    _rows: Callable[[str, rows.Row], list[rows.Row]]

    def _submit(self, work: OutgoingWork, weight: int = 1) -> object:
        raise NotImplementedError

    def cursors(self) -> list[Cursor]:
        return [cursor(row) for row in self._rows(SELECT_CURSORS, ())]

    def enrol(self, name: str, after_seq: int) -> Cursor:
        return cast("Cursor", self._submit(EnrolWork(name, after_seq)))

    def take_cursor(self, name: str, owner: str, now_us: int, until_us: int, dead: str = "") -> Cursor | None:
        return cast("Cursor | None", self._submit(TakeCursorWork(name, owner, now_us, until_us, dead)))

    def keep_cursor(self, held: Cursor, cursor: Cursor, letters: Sequence[DeadLetter] = ()) -> bool:
        return cast("bool", self._submit(KeepCursorWork(held, cursor, tuple(letters))))

    def letters(self, subscriber: str = "", *, again: bool = False, limit: int = 1000) -> list[DeadLetter]:
        asked: list[rows.Value] = [subscriber] if subscriber else []
        conditions = (["subscriber = ?"] if subscriber else []) + (["again = 1"] if again else [])
        where = "WHERE " + " AND ".join(conditions) if conditions else ""
        sql = rows.statement(SELECT_LETTERS, where, "ORDER BY seq, number, subscriber LIMIT ?")
        return [letter(row) for row in self._rows(sql, (*asked, max(limit, 0)))]

    def put_letter(self, letter: DeadLetter) -> bool:
        return cast("bool", self._submit(PutLetterWork(letter)))

    def drop_letter(self, letter: DeadLetter) -> None:
        self._submit(DropLetterWork(letter))
