"""Sequence numbers of the log on PostgreSQL: assigned by the schema's function `take_places`, and read in order.

Inherited by the store. The definition of the function (`migrations/0002_log.sql`) states the eligible entries, and the
reason why no entry can later appear before them. Nothing here delays an append.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

from readback.ports.storage.store import StoredEvent
from readback.stores.postgres.connection import row_encoding, rows
from readback.stores.postgres.connection.second_connection import SecondConnection

PIECE_ROWS: Final = 512
TAKEN_AT_ONCE_MAX: Final = 16_384
"""Most sequence numbers assigned in one transaction, for any requested number."""

_IN_PLACE: Final = "FROM place JOIN event ON event.id = place.event WHERE place.seq > %s"
_COLUMNS: Final = "place.seq, action_id, version, kind, at_us, envelope, leaf"
_ENTRIES: Final = rows.statement("SELECT place.seq, envelope, leaf", _IN_PLACE, "ORDER BY place.seq LIMIT %s")
_SCAN: Final = rows.statement("SELECT", _COLUMNS, _IN_PLACE, "ORDER BY place.seq LIMIT %s")
_PICK: Final = rows.statement(
    "SELECT", _COLUMNS, _IN_PLACE, "AND kind = ANY (string_to_array(%s, E'\\x1f')) ORDER BY place.seq LIMIT %s"
)
_LAST: Final = "SELECT coalesce(max(seq), 0) FROM place"
_WAITING: Final = (
    "SELECT id FROM event WHERE xid >= (SELECT since FROM sequencer)"
    " AND NOT EXISTS (SELECT FROM place WHERE place.event = event.id) OFFSET 0"
)
"""OFFSET 0: search by transaction in the index of unsequenced entries, and sort afterwards."""
_UNPLACED: Final = rows.statement(
    "SELECT 0::bigint, action_id, version, kind, at_us, envelope, leaf FROM (SELECT id FROM (", _WAITING,
    ") AS waiting ORDER BY id LIMIT %s) AS first JOIN event USING (id) ORDER BY id",
)  # fmt: skip


class Sequencing:
    """The part of the store port for the order of the log."""

    _many_rows: Callable[..., list[rows.Row]]
    _beside: SecondConnection
    _lock_class: int

    sequences_asynchronously = True
    """True: many processes append, and sequence numbers are assigned to committed entries."""

    def assign_sequence_numbers(self, limit: int) -> int:
        asked = (self._lock_class, min(limit, TAKEN_AT_ONCE_MAX))

        def take(connection: Any) -> int:
            found = connection.execute("SELECT take_places(%s::int, %s)", asked).fetchone()
            return cast("int", found[0])

        return self._beside.run(take)

    def unsequenced(self, limit: int) -> list[StoredEvent]:
        return [rows.stored_event(row) for row in self._many_rows(_UNPLACED, (max(limit, 0),))]

    def last_seq(self) -> int:
        return cast("int", self._many_rows(_LAST)[0][0])

    def entries(self, after_seq: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        return cast("list[tuple[int, bytes, bytes]]", self._many_rows(_ENTRIES, (after_seq, max(limit, 0))))

    def scan(self, after_seq: int = 0) -> Iterator[StoredEvent]:
        while piece := self._many_rows(_SCAN, (after_seq, PIECE_ROWS)):
            for row in piece:
                yield rows.stored_event(row)
            after_seq = cast("int", piece[-1][0])

    def pick(self, after_seq: int, kinds: Sequence[str], limit: int) -> list[StoredEvent]:
        if not kinds:
            return []
        found = self._many_rows(_PICK, (after_seq, row_encoding.texts(kinds), max(limit, 0)))
        return [rows.stored_event(row) for row in found]
