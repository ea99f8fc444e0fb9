"""A log as a folder of files (C2SP tlog-tiles): hash tiles of height 8, entry bundles, partial files at the right edge.

Called to export a log and to verify an export: the folder must equal the output of `TileWriter` byte for byte. This
module names and fills files, and opens none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final

from readback.log.fault import LogFormatError
from readback.log.tree import HASH_BYTES, NODE_PREFIX, SIZE_MAX, GrowingTree, fold, leaf_hash, node_hash

HEIGHT: Final = 8
WIDTH: Final = 1 << HEIGHT
TILE_BYTES: Final = WIDTH * HASH_BYTES
ENTRY_MAX_BYTES: Final = 65_535
BUNDLE_MAX_BYTES: Final = WIDTH * (2 + ENTRY_MAX_BYTES)
LEVELS_MAX: Final = -(-SIZE_MAX.bit_length() // HEIGHT)
TILES_READ_MAX: Final = 64
"""Tiles cached by a reader. A proof needs two or three of each level."""
CHECKPOINT: Final = "checkpoint"

File = tuple[str, bytes]
"""A path in the folder, and the file's content."""


def tile_path(level: int, place: int, width: int = WIDTH) -> str:
    """Return the path of a hash tile: `tile/0/x001/x234/067`, with the suffix `.p/17` for a tile of width 17."""
    return f"tile/{level}/{_place(place)}{_part(width)}"


def bundle_path(place: int, width: int = WIDTH) -> str:
    """Return the path of an entry bundle."""
    return f"tile/entries/{_place(place)}{_part(width)}"


def bundles_of(size: int) -> Iterator[tuple[int, int]]:
    """Return place and width of each entry bundle (and each lowest tile) of a log."""
    whole, rest = divmod(size, WIDTH)
    yield from ((place, WIDTH) for place in range(whole))
    if rest:
        yield whole, rest


def bundle_bytes(entries: list[bytes]) -> bytes:
    """Encode entries, each after its length in two bytes. Raises LogFormatError for an entry that is too long."""
    if any(len(entry) > ENTRY_MAX_BYTES for entry in entries):
        raise LogFormatError(f"An entry has more than {ENTRY_MAX_BYTES} bytes.")
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def parse_bundle(data: bytes, width: int) -> list[bytes]:
    """Parse a bundle of exactly `width` entries. Raises LogFormatError for any other number."""
    entries: list[bytes] = []
    at = 0
    while at < len(data) and len(entries) < width:
        begin = at + 2
        at = begin + int.from_bytes(data[at:begin], "big")
        if begin > len(data) or at > len(data):
            raise LogFormatError("A bundle of entries ends inside an entry.")
        entries.append(data[begin:at])
    if at != len(data) or len(entries) != width:
        raise LogFormatError(f"A bundle of entries does not hold exactly {width} of them.")
    return entries


def parse_tile(data: bytes, width: int) -> list[bytes]:
    """Parse a tile of exactly `width` hashes. Raises LogFormatError for any other number."""
    if len(data) != width * HASH_BYTES:
        raise LogFormatError(f"A tile has {len(data)} bytes in place of {width * HASH_BYTES}.")
    return [data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)]


class TileWriter:
    """Produces the files of a log from its entries in order. Holds at most one tile of each level."""

    __slots__ = ("_entries", "_levels", "_places", "tree")

    def __init__(self) -> None:
        self.tree = GrowingTree()
        self._entries: list[bytes] = []
        self._levels: list[list[bytes]] = [[]]
        self._places: list[int] = [0]

    def add(self, entry: bytes) -> Iterator[File]:
        """Add one entry and yield each completed file. Raises LogFormatError for an entry over the limit."""
        leaf = leaf_hash(entry)
        self._entries.append(entry)
        self.tree.append(leaf)
        if len(self._entries) == WIDTH:
            yield bundle_path(self._places[0]), bundle_bytes(self._entries)
            self._entries = []
        yield from self._up(0, leaf)

    def finish(self) -> Iterator[File]:
        """Yield the partial files at the right edge. No entry can be added afterwards."""
        if self._entries:
            yield bundle_path(self._places[0], len(self._entries)), bundle_bytes(self._entries)
        for level, hashes in enumerate(self._levels):
            if hashes:
                yield tile_path(level, self._places[level], len(hashes)), b"".join(hashes)

    def _up(self, level: int, hashed: bytes) -> Iterator[File]:
        hashes = self._levels[level]
        hashes.append(hashed)
        if len(hashes) < WIDTH:
            return
        yield tile_path(level, self._places[level]), b"".join(hashes)
        self._places[level] += 1
        self._levels[level] = []
        if level + 1 == len(self._levels):
            self._levels.append([])
            self._places.append(0)
        yield from self._up(level + 1, perfect(hashes))


class TileReader:
    """Reads hashes of perfect subtrees of a log of `size` leaves from its tiles.

    `fetch` returns a file by its path. Its bytes are untrusted: verify the resulting proof.
    """

    __slots__ = ("_fetch", "_size", "_tiles")

    def __init__(self, size: int, fetch: Callable[[str], bytes]) -> None:
        self._size = size
        self._fetch = fetch
        self._tiles: dict[tuple[int, int], list[list[bytes]]] = {}
        """Each tile with the subtrees inside it, by height. Proofs of neighbours share most tiles."""

    def read(self, height: int, place: int) -> bytes:
        """Return the hash of a subtree. Raises LogFormatError for a missing subtree or a malformed tile."""
        if height < 0 or place < 0 or (place + 1) << height > self._size:
            raise LogFormatError(f"The subtree {place} of height {height} is not in a tree of {self._size} leaves.")
        level, inside = divmod(height, HEIGHT)
        tile, at = divmod(place, WIDTH >> inside)
        return self._tile(level, tile)[inside][at]

    def _tile(self, level: int, place: int) -> list[list[bytes]]:
        found = self._tiles.get((level, place))
        if found is None:
            width = min((self._size >> (HEIGHT * level)) - place * WIDTH, WIDTH)
            found = _subtrees(parse_tile(self._fetched(level, place, width), width))
            if len(self._tiles) >= TILES_READ_MAX:
                self._tiles.clear()
            self._tiles[level, place] = found
        return found

    def _fetched(self, level: int, place: int, width: int) -> bytes:
        return self._fetch(tile_path(level, place, width))


def _subtrees(row: list[bytes]) -> list[list[bytes]]:
    """Return the hashes of a tile, and above them the roots of each perfect subtree of two, four, eight and so on."""
    rows = [row]
    while len(row) > 1:
        row = [sha256(NODE_PREFIX + row[at] + row[at + 1]).digest() for at in range(0, len(row) - 1, 2)]
        rows.append(row)
    return rows


def perfect(hashes: list[bytes]) -> bytes:
    """Return the root over a power of two of hashes."""
    while len(hashes) > 1:
        pairs = iter(hashes)
        hashes = [node_hash(left, right) for left, right in zip(pairs, pairs, strict=True)]
    return fold(hashes)


def _place(place: int) -> str:
    digits = str(place)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    parts = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    return "/".join([*(f"x{part}" for part in parts[:-1]), parts[-1]])


def _part(width: int) -> str:
    return "" if width == WIDTH else f".p/{width}"
