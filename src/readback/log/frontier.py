"""A tiled log that is grown from where it ended: its right edge, one unfinished tile of hashes at each level.

Called where a log is sealed, and where what was sealed is made again and compared. Everything before the edge stays as
it is, so that growing costs what is new. It opens nothing: whoever calls brings tiles and takes what changed.
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
"""A tile by its level and place, as wide as it is by now; None where there is none."""


@dataclass(frozen=True, slots=True)
class HashTile:
    """Up to 256 hashes of one level, from `place` times 256 on. Only the last of a level has fewer; it grows."""

    level: int
    place: int
    hashes: bytes


class Frontier:
    """The edge of a log of `size` leaves. What it has made or changed since it was read is in `changed`."""

    __slots__ = ("_edge", "_filled", "_touched", "size")

    def __init__(self) -> None:
        self.size = 0
        self._edge: list[list[bytes]] = [[]]
        self._filled: list[HashTile] = []
        self._touched = 0

    @classmethod
    def at(cls, size: int, fetch: FetchTile) -> Frontier:
        """The edge of a log, out of its tiles. Raises LogFormatError where one is not there, or too short."""
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
        """More leaves, by their hashes, in order."""
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
        """The root of the tree as it is."""
        row: list[bytes] = []
        for edge in reversed(self._edge):
            at = 0
            while at < len(edge):
                count = 1 << ((len(edge) - at).bit_length() - 1)
                row.append(subtree(edge[at : at + count]))
                at += count
        return fold(row)

    def filled(self) -> list[HashTile]:
        """The tiles that were filled since this was asked last."""
        found, self._filled = self._filled, []
        return found

    def changed(self) -> list[HashTile]:
        """Those, and the unfinished ones at each level that has grown."""
        found = self.filled()
        size = self.size
        for level, edge in enumerate(self._edge[: self._touched]):
            if edge:
                found.append(HashTile(level, size // WIDTH, b"".join(edge)))
            size //= WIDTH
        self._touched = 0
        return found

    def _up(self, level: int) -> None:
        """A tile is full: it becomes one hash of the level above."""
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
    """The hashes of a log of `size` leaves out of tiles that may have grown since."""

    __slots__ = ("_stored",)

    def __init__(self, size: int, fetch: FetchTile) -> None:
        super().__init__(size, lambda path: b"")
        self._stored = fetch

    def _fetched(self, level: int, place: int, width: int) -> bytes:
        return wide_enough(self._stored, level, place, width)


def wide_enough(fetch: FetchTile, level: int, place: int, width: int) -> bytes:
    """The first `width` hashes of a tile. Raises LogFormatError where it has fewer."""
    found = fetch(level, place)
    if found is None or len(found) < width * HASH_BYTES:
        raise LogFormatError(f"The tile {place} of level {level} is not there, or has fewer than {width} hashes.")
    return found[: width * HASH_BYTES]


def subtree(hashes: Sequence[bytes]) -> bytes:
    """The root over a power of two of hashes, made in one go."""
    row = list(hashes)
    while len(row) > 1:
        row = [sha256(NODE_PREFIX + row[at] + row[at + 1]).digest() for at in range(0, len(row), 2)]
    return row[0]
