"""The sealed log in SQLite: tiles, checkpoints and anchor marks, beside the covered entries.

Called by the store, which inherits the queries and sends the changes to its writer. The content is opaque here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, groupby, starmap
from operator import itemgetter
from typing import Any, Final, cast

from readback.canon.frozen import dataclass
from readback.errors import StoreCorruptError
from readback.log.frontier import HashTile
from readback.ports.storage.log import AnchorMark, SealedHead
from readback.ports.storage.store import Kept, KeyRecord, StoredEvent, StoredProjection
from readback.stores.sqlite import rows
from readback.stores.sqlite.transaction import Transaction

TILES_A_PIECE: Final = 64
HEADS_A_PIECE: Final = 512
ACTIONS_A_PIECE: Final = 128
BODY_AT_ONCE_MAX: Final = 65_536
"""Larger evidence is fetched singly, to bound memory."""

_BYTES: Final = frozenset({bytes})
_ENVELOPE: Final = itemgetter(1)
_LEAF: Final = itemgetter(2)
_ENTRIES: Final = "SELECT seq, envelope, leaf FROM event WHERE seq > ? ORDER BY seq LIMIT ?"
_TILE: Final = "SELECT hashes FROM tile WHERE level = ? AND place = ?"
_TILES: Final = "SELECT level, place, hashes FROM tile WHERE (level, place) > (?, ?) ORDER BY level, place LIMIT ?"
_HEAD: Final = "SELECT size, at_us, note FROM checkpoint WHERE size = ?"
_LAST: Final = "SELECT size, at_us, note FROM checkpoint ORDER BY size DESC LIMIT 1"
_HEADS: Final = "SELECT size, at_us, note FROM checkpoint WHERE size > ? ORDER BY size LIMIT ?"
_LAST_SIZE: Final = "SELECT max(size) FROM checkpoint"
_PUT_TILE: Final = (
    "INSERT INTO tile (level, place, hashes) VALUES (?, ?, ?)"
    " ON CONFLICT (level, place) DO UPDATE SET hashes = excluded.hashes"
)
_PUT_HEAD: Final = "INSERT INTO checkpoint (size, at_us, note) VALUES (?, ?, ?)"
_COSIGN: Final = "UPDATE checkpoint SET note = ? WHERE size = ?"
_ANCHORS: Final = "SELECT name, size, at_us, said FROM anchor ORDER BY name"
_PUT_MARK: Final = (
    "INSERT INTO anchor (name, size, at_us, said) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET size = excluded.size, at_us = excluded.at_us, said = excluded.said"
)


@dataclass(frozen=True, slots=True)
class SealWork:
    """Store a checkpoint with its tiles. Result: whether the checkpoint was stored."""

    after: int
    tiles: tuple[HashTile, ...]
    head: SealedHead

    def apply(self, transaction: Transaction) -> bool:
        found = transaction.one(_LAST_SIZE, ())
        if (found[0] if found else None) != (self.after or None):
            return False
        for tile in self.tiles:
            transaction.one(_PUT_TILE, (tile.level, tile.place, tile.hashes))
        transaction.one(_PUT_HEAD, (self.head.size, self.head.at_us, self.head.note))
        return True


@dataclass(frozen=True, slots=True)
class CosignWork:
    """Store a note with more signatures."""

    size: int
    note: bytes

    def apply(self, transaction: Transaction) -> None:
        transaction.one(_COSIGN, (self.note, self.size))


@dataclass(frozen=True, slots=True)
class MarkWork:
    """Store an anchor's progress."""

    mark: AnchorMark

    def apply(self, transaction: Transaction) -> None:
        transaction.one(_PUT_MARK, (self.mark.name, self.mark.size, self.mark.at_us, self.mark.said))


def _of_tenant(columns: str, table: str, name: str, more: str = "") -> str:
    """Return rows of one tenant by one column, in batches."""
    marks = ", ".join("?" * rows.LOOKED_UP_AT_ONCE)
    return rows.statement("SELECT", columns, "FROM", table, "WHERE tenant = ? AND", name, "IN (", marks, ")", more)


_TEXTS: Final = _of_tenant("digest, media, body", "contract_text", "digest")
_PAYLOADS: Final = rows.statement(
    "SELECT action_id, digest, media, body FROM payload WHERE tenant = ? AND action_id IN (",
    ", ".join("?" * rows.LOOKED_UP_AT_ONCE), f") AND length(body) <= {BODY_AT_ONCE_MAX}",
)  # fmt: skip
_KEYS: Final = _of_tenant(rows.KEY_COLUMNS, "idempotency", "key_hash")
_ACTIONS: Final = rows.statement(
    "SELECT", rows.STORED_COLUMNS, "FROM action WHERE action_id > ? ORDER BY action_id LIMIT ?"
)
_EVENTS_OF: Final = rows.statement(
    "SELECT", rows.EVENT_COLUMNS, "FROM event WHERE action_id > ? AND action_id <= ? ORDER BY action_id, version"
)


def _raw(digest: str) -> bytes | None:
    """Return the bytes of a digest. None for an invalid digest."""
    try:
        raw = bytes.fromhex(digest)
    except ValueError:
        return None
    return raw if raw.hex() == digest else None  # capitals or blanks make another name, without evidence


def _named(digests: Sequence[str]) -> dict[bytes, str]:
    """Return each digest by its bytes, without invalid digests."""
    try:
        raws = [*map(bytes.fromhex, digests)]
    except ValueError:
        raws = []
    if [*map(bytes.hex, raws)] == [*digests]:
        return dict(zip(raws, digests, strict=True))
    return {raw: digest for digest in digests if (raw := _raw(digest)) is not None}


class SealedQueries:
    """The sealed half of the store port. The store supplies `_many_rows` and `_submit`."""

    _many_rows: Callable[..., list[rows.Row]]

    def _submit(self, work: SealWork | CosignWork | MarkWork, weight: int = 1) -> object:
        raise NotImplementedError

    sequences_asynchronously = False
    """False: each append is one transaction of one writer, and assigns the sequence numbers at once."""

    def assign_sequence_numbers(self, limit: int) -> int:
        return 0

    def unsequenced(self, limit: int) -> list[StoredEvent]:
        return []

    def entries(self, after_seq: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        found = cast("list[tuple[int, bytes, bytes]]", self._many_rows(_ENTRIES, (after_seq, limit)))
        if not _BYTES.issuperset(map(type, chain(map(_ENVELOPE, found), map(_LEAF, found)))):
            for seq, envelope, leaf in found:
                if type(envelope) is not bytes or type(leaf) is not bytes:  # pages of a truncated file
                    raise StoreCorruptError(f"Entry {seq} of the ledger has no bytes, or no leaf hash.")
        return found

    def histories(self) -> Iterator[tuple[StoredProjection, list[StoredEvent]]]:
        after = ""
        while piece := self._many_rows(_ACTIONS, (after, ACTIONS_A_PIECE)):
            held = [rows.stored_projection(row) for row in piece]
            last = held[-1].projection.action_id
            found = groupby(self._many_rows(_EVENTS_OF, (after, last)), itemgetter(1))
            events = {action_id: [*starmap(StoredEvent, of_action)] for action_id, of_action in found}
            for each in held:  # the audit reports entries without action
                yield each, events.get(each.projection.action_id, [])
            after = last

    def bodies(self, tenant: str, asked: Collection[Kept]) -> dict[Kept, tuple[str, bytes]]:
        named = _named([digest for action_id, digest in asked if not action_id])
        texts: list[Any] = self._of_tenant(_TEXTS, tenant, [*named])
        found: dict[Kept, tuple[str, bytes]] = {("", named[raw]): (media, body) for raw, media, body in texts}
        actions = dict.fromkeys(action_id for action_id, _ in asked if action_id)
        payloads: list[Any] = self._of_tenant(_PAYLOADS, tenant, [*actions])
        for action_id, raw, media, body in payloads:
            name = (action_id, raw.hex())
            if name in asked:
                found[name] = (media, body)
        return found

    def keys(self, tenant: str, key_hashes: Sequence[str]) -> dict[str, KeyRecord]:
        found: list[Any] = self._of_tenant(_KEYS, tenant, key_hashes)
        return {record.key_hash: record for record in starmap(KeyRecord, found)}

    def _of_tenant(self, sql: str, tenant: str, names: Sequence[rows.Value]) -> list[rows.Row]:
        found: list[rows.Row] = []
        for at in range(0, len(names), rows.LOOKED_UP_AT_ONCE):
            some = names[at : at + rows.LOOKED_UP_AT_ONCE]
            found += self._many_rows(sql, (tenant, *some, *[None] * (rows.LOOKED_UP_AT_ONCE - len(some))))
        return found

    def tile(self, level: int, place: int) -> bytes | None:
        found = self._many_rows(_TILE, (level, place))
        return cast("bytes", found[0][0]) if found else None

    def tiles(self) -> Iterator[HashTile]:
        after: rows.Row = (-1, -1)
        while piece := self._many_rows(_TILES, (*after, TILES_A_PIECE)):
            for row in piece:
                yield HashTile(*row)  # type: ignore[arg-type]  # the columns stand in the order of the fields
            after = piece[-1][:2]

    def checkpoint(self, size: int | None = None) -> SealedHead | None:
        found = self._many_rows(_LAST) if size is None else self._many_rows(_HEAD, (size,))
        return SealedHead(*found[0]) if found else None  # type: ignore[arg-type]

    def checkpoints(self) -> Iterator[SealedHead]:
        after = 0
        while piece := self._many_rows(_HEADS, (after, HEADS_A_PIECE)):
            for row in piece:
                yield SealedHead(*row)  # type: ignore[arg-type]
            after = cast("int", piece[-1][0])

    def seal(self, after: int, tiles: Sequence[HashTile], head: SealedHead) -> bool:
        return cast("bool", self._submit(SealWork(after, tuple(tiles), head)))

    def cosigned(self, size: int, note: bytes) -> None:
        self._submit(CosignWork(size, note))

    def anchors(self) -> list[AnchorMark]:
        return [AnchorMark(*row) for row in self._many_rows(_ANCHORS)]  # type: ignore[arg-type]

    def mark(self, mark: AnchorMark) -> None:
        self._submit(MarkWork(mark))
