"""Positions of subscribers and dead letters: the outbox part of the store, for reading and writing.

Inherited by the store. This module decides nothing. The database's clock decides on a position's lease, as on every
lease.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.stores.postgres.connection import rows
from readback.stores.postgres.connection.connect import Connection
from readback.stores.postgres.connection.second_connection import SecondConnection

CURSOR_COLUMNS: Final = ", ".join(field.name for field in fields(Cursor))
LETTER_COLUMNS: Final = ", ".join(field.name for field in fields(DeadLetter))

_CURSORS: Final = rows.statement("SELECT", CURSOR_COLUMNS, "FROM subscriber ORDER BY name")
_CURSOR: Final = rows.statement("SELECT", CURSOR_COLUMNS, "FROM subscriber WHERE name = %s")
_ENROL: Final = rows.statement(
    "INSERT INTO subscriber (", CURSOR_COLUMNS, ", ends_us) VALUES (%s, %s, 0, 0, 0, 0, '', '', 0, 0)",
    "ON CONFLICT (name) DO NOTHING",
)  # fmt: skip
_TAKE: Final = rows.statement(
    "UPDATE subscriber SET owner = %(owner)s, until_us = %(until)s,",
    "ends_us = CASE WHEN %(own)s THEN clock_us() + (%(until)s - %(now)s) ELSE %(until)s END",
    "WHERE name = %(name)s AND (owner IN ('', %(dead)s)",
    "OR ends_us <= CASE WHEN %(own)s THEN clock_us() ELSE %(now)s END) RETURNING", CURSOR_COLUMNS,
)  # fmt: skip
_KEEP: Final = (
    # The extension of the lease is a duration, equal by any clock.
    "UPDATE subscriber SET after_seq = %s, done = %s, tried = %s, since_us = %s, next_us = %s, said = %s, owner = %s,"
    " ends_us = ends_us + (%s - until_us), until_us = %s WHERE name = %s AND owner = %s AND until_us = %s RETURNING 1"
)
_LETTERS: Final = rows.statement("SELECT", LETTER_COLUMNS, "FROM dead_letter")
_PUT_LETTER: Final = rows.statement(
    "INSERT INTO dead_letter (", LETTER_COLUMNS, ") VALUES (%s, %s, %s, %s, %s, %s, %s)",
    "ON CONFLICT (seq, number, subscriber) DO UPDATE SET died_us = excluded.died_us, tried = excluded.tried,",
    "said = excluded.said, again = excluded.again",
)  # fmt: skip
_CHANGE_LETTER: Final = (
    "UPDATE dead_letter SET died_us = %s, tried = %s, said = %s, again = %s"
    " WHERE subscriber = %s AND seq = %s AND number = %s RETURNING 1"
)
_DROP_LETTER: Final = "DELETE FROM dead_letter WHERE subscriber = %s AND seq = %s AND number = %s"

_place = attrgetter("subscriber", "seq", "number")


def _cursor(row: rows.Row) -> Cursor:
    return Cursor(*rows.plain(row))


class Outgoing:
    """The outbox half of the store port. The inheriting store supplies reading and writing."""

    _many_rows: Callable[..., list[rows.Row]]
    _beside: SecondConnection
    _own_clock: bool

    def cursors(self) -> list[Cursor]:
        return [_cursor(row) for row in self._many_rows(_CURSORS)]

    def enrol(self, name: str, after_seq: int) -> Cursor:
        def change(connection: Connection) -> Cursor:
            connection.execute(_ENROL, (name, after_seq))
            found = connection.execute(_CURSOR, (name,)).fetchone()
            assert found is not None
            return _cursor(found)

        return self._beside.run(change)

    def take_cursor(self, name: str, owner: str, now_us: int, until_us: int, dead: str = "") -> Cursor | None:
        values: dict[str, Any] = {
            "name": name,
            "owner": owner,
            "now": now_us,
            "until": until_us,
            "dead": dead,
            "own": self._own_clock,
        }
        found = self._beside.run(lambda connection: connection.execute(_TAKE, values).fetchone())
        return None if found is None else _cursor(found)

    def keep_cursor(self, held: Cursor, cursor: Cursor, letters: Sequence[DeadLetter] = ()) -> bool:
        moved = (cursor.after_seq, cursor.done, cursor.tried, cursor.since_us, cursor.next_us, cursor.said)
        lease = (cursor.owner, cursor.until_us, cursor.until_us, cursor.name, held.owner, held.until_us)

        def change(connection: Connection) -> bool:
            if connection.execute(_KEEP, (*moved, *lease)).fetchone() is None:
                return False
            for one in letters:
                connection.execute(_PUT_LETTER, (*_place(one), one.died_us, one.tried, one.said, one.again))
            return True

        return self._beside.run(change)

    def letters(self, subscriber: str = "", *, again: bool = False, limit: int = 1000) -> list[DeadLetter]:
        asked: list[Any] = [subscriber] if subscriber else []
        conditions = (["subscriber = %s"] if subscriber else []) + (["again"] if again else [])
        where = "WHERE " + " AND ".join(conditions) if conditions else ""
        sql = rows.statement(_LETTERS, where, "ORDER BY seq, number, subscriber LIMIT %s")
        return [DeadLetter(*rows.plain(row)) for row in self._many_rows(sql, (*asked, max(limit, 0)))]

    def put_letter(self, letter: DeadLetter) -> bool:
        values = (letter.died_us, letter.tried, letter.said, letter.again, *_place(letter))
        return self._beside.run(lambda connection: connection.execute(_CHANGE_LETTER, values).fetchone()) is not None

    def drop_letter(self, letter: DeadLetter) -> None:
        self._beside.run(lambda connection: connection.execute(_DROP_LETTER, _place(letter)))
