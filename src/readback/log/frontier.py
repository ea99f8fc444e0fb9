"""Incremental growth of a tiled log from its right edge: one unfinished tile of hashes at each level.

Called to seal a log, and to rebuild and compare sealed tiles. Tiles before the edge never change, so growth costs only
the new leaves. This module does no I/O: the caller supplies tiles and stores the changed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeAlias

from readback.canon.frozen import dataclass
from readback.log.fault import LogFormatError
from readback.log.tiles import HEIGHT, WIDTH, TileReader, parse_tile
from readback.log.tree import HASH_BYTES, NODE_PREFIX, fold

FetchTile: TypeAlias = Callable[[int, int], bytes | None]
"""Return a tile at its current width, by level and place. None if the tile is missing."""


@dataclass(frozen=True, slots=True)
class HashTile:
    """Up to 256 hashes of one level, starting at `place` times 256. Only the last tile of a level is partial, and
    grows.
    """

    level: int
    place: int
    hashes: bytes


class Frontier:
    """The right edge of a log of `size` leaves. `changed` returns new and grown tiles."""

    __slots__ = ("_edge", "_filled", "_touched", "size")

    def __init__(self) -> None:
        self.size = 0
        self._edge: list[list[bytes]] = [[]]
        self._filled: list[HashTile] = []
        self._touched = 0

    @classmethod
    def at(cls, size: int, fetch: FetchTile) -> Frontier:
        """Read a log's edge from its tiles. Raises LogFormatError if a tile is missing or too short."""
        found = cls()
        found.size = size
        found._edge = []
        level = size
        while level or not found._edge:
            place, width = divmod(level, WIDTH)
            number = len(found._edge)
            found._edge.append(parse_tile(wide_enough(fetch, number, place, width), width) if width else [])
            level = place
        return found

    def grow(self, leaves: Sequence[bytes]) -> None:
        """Append leaves, given their hashes in order."""
        at, edge = 0, self._edge[0]
        while at < len(leaves):
            more = leaves[at : at + WIDTH - len(edge)]
            edge.extend(more)
            at += len(more)
            self.size += len(more)
            self._touched = max(self._touched, 1)
            if len(edge) == WIDTH:
                self._up(0)
                edge = self._edge[0]

    def root(self) -> bytes:
        """Return the present root of the tree."""
        row: list[bytes] = []
        for edge in reversed(self._edge):
            at = 0
            while at < len(edge):
                count = 1 << ((len(edge) - at).bit_length() - 1)
                row.append(subtree(edge[at : at + count]))
                at += count
        return fold(row)

    def filled(self) -> list[HashTile]:
        """Return the tiles completed since the last call."""
        found, self._filled = self._filled, []
        return found

    def changed(self) -> list[HashTile]:
        """Return the completed tiles, and the unfinished tile of each level grown since the last call."""
        found = self.filled()
        size = self.size
        for level, edge in enumerate(self._edge[: self._touched]):
            if edge:
                found.append(HashTile(level, size // WIDTH, b"".join(edge)))
            size //= WIDTH
        self._touched = 0
        return found

    def _up(self, level: int) -> None:
        """Turn a full tile into one hash of the level above."""
        while len(edge := self._edge[level]) == WIDTH:
            place = (self.size >> (HEIGHT * (level + 1))) - 1
            self._filled.append(HashTile(level, place, b"".join(edge)))
            self._edge[level] = []
            level += 1
            if level == len(self._edge):
                self._edge.append([])
            self._edge[level].append(subtree(edge))
            self._touched = max(self._touched, level + 1)


class StoredTiles(TileReader):
    """Reads the hashes of a log of `size` leaves from tiles that may have grown since."""

    __slots__ = ("_stored",)

    def __init__(self, size: int, fetch: FetchTile) -> None:
        super().__init__(size, lambda path: b"")
        self._stored = fetch

    def _fetched(self, level: int, place: int, width: int) -> bytes:
        return wide_enough(self._stored, level, place, width)


def wide_enough(fetch: FetchTile, level: int, place: int, width: int) -> bytes:
    """Return the first `width` hashes of a tile. Raises LogFormatError if the tile has fewer."""
    found = fetch(level, place)
    if found is None or len(found) < width * HASH_BYTES:
        raise LogFormatError(f"The tile {place} of level {level} is not there, or has fewer than {width} hashes.")
    return found[: width * HASH_BYTES]


def subtree(hashes: Sequence[bytes]) -> bytes:
    """Return the root over a power of two of hashes."""
    row = list(hashes)
    while len(row) > 1:
        row = [sha256(NODE_PREFIX + row[at] + row[at + 1]).digest() for at in range(0, len(row), 2)]
    return row[0]
