"""The sealed log in PostgreSQL: tiles, checkpoints and anchor marks, beside the covered entries.

Inherited by the store. One sealer works at a time. A second concurrent sealer finds the first sealer's result. The
content is opaque here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, cast

from readback.log.frontier import HashTile
from readback.ports.storage.log import AnchorMark, SealedHead
from readback.ports.storage.store import Kept, KeyRecord, StoredEvent, StoredProjection
from readback.stores.postgres.connection import row_encoding, rows
from readback.stores.postgres.connection.second_connection import SecondConnection

TILES_A_PIECE: Final = 64
HEADS_A_PIECE: Final = 512
ACTIONS_A_PIECE: Final = 128
BODY_AT_ONCE_MAX: Final = 65_536
"""Larger evidence is fetched singly, to bound memory."""

_TILE: Final = "SELECT hashes FROM tile WHERE level = %s AND place = %s"
_TILES: Final = "SELECT level, place, hashes FROM tile WHERE (level, place) > (%s, %s) ORDER BY level, place LIMIT %s"
_HEAD: Final = "SELECT size, at_us, note FROM checkpoint WHERE size = %s"
_LAST: Final = "SELECT size, at_us, note FROM checkpoint ORDER BY size DESC LIMIT 1"
_HEADS: Final = "SELECT size, at_us, note FROM checkpoint WHERE size > %s ORDER BY size LIMIT %s"
_LOCK: Final = "SELECT pg_advisory_xact_lock(%s::int, -3)"
_LAST_SIZE: Final = "SELECT coalesce(max(size), 0) FROM checkpoint"
_PUT_TILE: Final = (
    "INSERT INTO tile (level, place, hashes) VALUES (%s, %s, %s)"
    " ON CONFLICT (level, place) DO UPDATE SET hashes = excluded.hashes"
)
_PUT_HEAD: Final = "INSERT INTO checkpoint (size, at_us, note) VALUES (%s, %s, %s)"
_COSIGN: Final = "UPDATE checkpoint SET note = %s WHERE size = %s"
_ANCHORS: Final = "SELECT name, size, at_us, said FROM anchor ORDER BY name"
_PUT_MARK: Final = (
    "INSERT INTO anchor (name, size, at_us, said) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (name) DO UPDATE SET size = excluded.size, at_us = excluded.at_us, said = excluded.said"
)
_ACTIONS: Final = rows.statement(
    "SELECT", rows.STORED_COLUMNS, "FROM action WHERE action_id > %s ORDER BY action_id LIMIT %s"
)
_EVENTS_OF: Final = rows.statement(
    "SELECT", rows.EVENT_COLUMNS, rows.EVENT_FROM, "WHERE action_id > %s AND action_id <= %s",
    "ORDER BY action_id, version",
)  # fmt: skip
_TEXTS: Final = (
    "SELECT digest, media, body FROM contract_text WHERE tenant = %s AND digest = ANY (%s::bytea[])"
    " AND length(body) <= %s AND object = ''"
)
_PAYLOADS: Final = (
    "SELECT action_id, digest, media, body FROM payload WHERE tenant = %s"
    " AND action_id = ANY (string_to_array(%s, E'\\x1f')) AND length(body) <= %s AND object = ''"
)
_KEYS: Final = rows.statement(
    "SELECT", rows.KEY_COLUMNS, "FROM idempotency WHERE tenant = %s AND key_hash = ANY (string_to_array(%s, E'\\x1f'))"
)


def _raw(digest: str) -> bytes | None:
    """Return the bytes of a digest. None for an invalid digest."""
    try:
        raw = bytes.fromhex(digest)
    except ValueError:
        return None
    return raw if raw.hex() == digest else None  # capitals or blanks make another name, without evidence


class SealedQueries:
    """The sealed half of the store port. The store supplies `_many_rows`, `_beside` and `_lock_class`."""

    _many_rows: Callable[..., list[rows.Row]]
    _beside: SecondConnection
    _lock_class: int

    def histories(self) -> Iterator[tuple[StoredProjection, list[StoredEvent]]]:
        after = ""
        while piece := self._many_rows(_ACTIONS, (after, ACTIONS_A_PIECE)):
            held = [rows.stored_projection(row) for row in piece]
            last = held[-1].projection.action_id
            events: dict[str, list[StoredEvent]] = {}
            for row in self._many_rows(_EVENTS_OF, (after, last)):
                event = rows.stored_event(row)
                events.setdefault(event.action_id, []).append(event)
            for each in held:
                yield each, events.get(each.projection.action_id, [])
            after = last

    def bodies(self, tenant: str, asked: Collection[Kept]) -> dict[Kept, tuple[str, bytes]]:
        raw = [one for action_id, digest in asked if not action_id and (one := _raw(digest)) is not None]
        texts = self._many_rows(_TEXTS, (tenant, row_encoding.bodies(raw), BODY_AT_ONCE_MAX)) if raw else []
        found = {("", digest.hex()): (media, body) for digest, media, body in map(rows.plain, texts)}
        actions = sorted({action_id for action_id, _ in asked if action_id})
        kept = self._many_rows(_PAYLOADS, (tenant, row_encoding.texts(actions), BODY_AT_ONCE_MAX)) if actions else []
        for action_id, digest, media, body in map(rows.plain, kept):
            if (action_id, digest.hex()) in asked:
                found[action_id, digest.hex()] = (media, body)
        return found

    def keys(self, tenant: str, key_hashes: Sequence[str]) -> dict[str, KeyRecord]:
        found = self._many_rows(_KEYS, (tenant, row_encoding.texts(key_hashes))) if key_hashes else []
        return {record.key_hash: record for record in map(rows.key_record, found)}

    def tile(self, level: int, place: int) -> bytes | None:
        found = self._many_rows(_TILE, (level, place))
        return cast("bytes", found[0][0]) if found else None

    def tiles(self) -> Iterator[HashTile]:
        after: rows.Row = (-1, -1)
        while piece := self._many_rows(_TILES, (*after, TILES_A_PIECE)):
            for row in piece:
                yield HashTile(*row)
            after = piece[-1][:2]

    def checkpoint(self, size: int | None = None) -> SealedHead | None:
        found = self._many_rows(_LAST) if size is None else self._many_rows(_HEAD, (size,))
        return SealedHead(*found[0]) if found else None

    def checkpoints(self) -> Iterator[SealedHead]:
        after = 0
        while piece := self._many_rows(_HEADS, (after, HEADS_A_PIECE)):
            for row in piece:
                yield SealedHead(*row)
            after = cast("int", piece[-1][0])

    def seal(self, after: int, tiles: Sequence[HashTile], head: SealedHead) -> bool:
        def keep(connection: Any) -> bool:
            # The lock needs a statement of its own: the next statement sees the commit of the previous holder.
            connection.execute(_LOCK, (self._lock_class,))
            if connection.execute(_LAST_SIZE).fetchone() != (after,):
                return False
            with connection.cursor() as cursor:
                cursor.executemany(_PUT_TILE, [(tile.level, tile.place, tile.hashes) for tile in tiles])
            connection.execute(_PUT_HEAD, (head.size, head.at_us, head.note))
            return True

        return self._beside.run(keep)

    def cosigned(self, size: int, note: bytes) -> None:
        self._beside.run(lambda connection: connection.execute(_COSIGN, (note, size)))

    def anchors(self) -> list[AnchorMark]:
        return [AnchorMark(*rows.plain(row)) for row in self._many_rows(_ANCHORS)]

    def mark(self, mark: AnchorMark) -> None:
        self._beside.run(
            lambda connection: connection.execute(_PUT_MARK, (mark.name, mark.size, mark.at_us, mark.said))
        )
