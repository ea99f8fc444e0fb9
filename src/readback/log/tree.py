"""The Merkle tree of RFC 6962 and RFC 9162 over leaf hashes: grown leaf by leaf, without keeping the leaves.

Called by whatever reads a log from its beginning. A tree of any size is a row of perfect subtrees, the largest first;
only their roots are kept, at most 64 of them. It must not look inside a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import sha256
from typing import Final, TypeAlias

from readback.log.fault import LogFormatError

# The hash by which an event stands in a Merkle log. The store calls it for every event; it must not look

LEAF_PREFIX: Final = b"\x00"
"""RFC 6962, 2.1: keeps a leaf from being taken for an inner node, whose prefix is 0x01."""


def leaf_hash(envelope: bytes) -> bytes:
    """32 bytes: SHA-256 over 0x00 and the envelope's own bytes, as stored."""
    return sha256(LEAF_PREFIX + envelope).digest()


def leaf_hashes(envelopes: Iterable[bytes]) -> list[bytes]:
    """The same of many, in their order: who reads a whole log asks for nothing as often."""
    return [sha256(LEAF_PREFIX + envelope).digest() for envelope in envelopes]


NODE_PREFIX: Final = b"\x01"
"""RFC 6962, 2.1: keeps an inner node from being taken for a leaf."""
HASH_BYTES: Final = 32
SIZE_MAX: Final = 2**53 - 1
"""Leaves of one log: what every reader of its checkpoints keeps exactly."""
EMPTY_ROOT: Final = sha256(b"").digest()

Node: TypeAlias = tuple[int, int]
"""A perfect subtree: its height, and its place among those of that height."""
Read: TypeAlias = Callable[[int, int], bytes]
"""The hash of a perfect subtree, by height and place."""


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return sha256(NODE_PREFIX + left + right).digest()


def nodes_of(begin: int, end: int) -> Iterator[Node]:
    """The perfect subtrees that together hold the leaves from `begin` to before `end`, from left to right."""
    while begin < end:
        height = (end - begin).bit_length() - 1
        if begin:
            height = min(height, (begin & -begin).bit_length() - 1)
        yield height, begin >> height
        begin += 1 << height


def fold(hashes: list[bytes]) -> bytes:
    """The root over a row of perfect subtrees, the largest first; that of the empty tree where there are none."""
    if not hashes:
        return EMPTY_ROOT
    root = hashes[-1]
    for left in hashes[-2::-1]:
        root = node_hash(left, root)
    return root


def subtree_hash(begin: int, end: int, read: Read) -> bytes:
    """The hash of the leaves from `begin` to before `end`, where RFC 6962 makes them a subtree."""
    return fold([read(height, place) for height, place in nodes_of(begin, end)])


def path_nodes(index: int) -> frozenset[Node]:
    """Every perfect subtree that a proof about leaf `index` may need, whatever size the log will have.

    With the row of subtrees that the grown tree ends with, these are enough for each inclusion proof of that leaf, and
    for each consistency proof from the tree that ends with it.
    """
    up = range(SIZE_MAX.bit_length())
    return frozenset(node for h in up for node in ((h, index >> h), (h, (index >> h) ^ 1)))


class GrowingTree:
    """A tree to which leaves are added. `keep`: perfect subtrees whose hashes are to be kept as they come about."""

    __slots__ = ("_keep", "_kept", "_known", "_read_known", "_row", "size")

    def __init__(self, keep: Collection[Node] = ()) -> None:
        self.size = 0
        self._row: list[bytes] = []
        self._keep = frozenset(keep)
        self._kept: dict[Node, bytes] = {}
        self._known = 0
        self._read_known: Read | None = None

    @classmethod
    def going_on(cls, size: int, read: Read, keep: Collection[Node] = ()) -> GrowingTree:
        """The tree of `size` leaves whose subtrees `read` brings. It grows from there without the leaves before.

        Args:
            size: The number of leaves that the tree has already.
            read: Brings the hash of a perfect subtree of these leaves. The tree does not check it.
            keep: Perfect subtrees whose hashes the tree keeps as they come about.

        Raises:
            LogFormatError: A subtree is not there.
        """
        tree = cls(keep)
        tree.size = tree._known = size
        tree._read_known = read
        tree._row = [read(height, place) for height, place in nodes_of(0, size)]
        return tree

    def append(self, leaf: bytes) -> None:
        """One more leaf, by its hash."""
        hashed, place, height = leaf, self.size, 0
        keep, row = self._keep, self._row
        if keep and (0, place) in keep:
            self._kept[0, place] = leaf
        while place & 1:
            hashed = sha256(NODE_PREFIX + row.pop() + hashed).digest()
            place >>= 1
            height += 1
            if keep and (height, place) in keep:
                self._kept[height, place] = hashed
        row.append(hashed)
        self.size += 1

    def root(self) -> bytes:
        """The root of the tree as it is."""
        return fold(self._row)

    def read(self, height: int, place: int) -> bytes:
        """The hash of a subtree that was kept, of the leaves that the tree began with, or of the present row.

        Raises LogFormatError for any other.
        """
        if self._read_known is not None and (place + 1) << height <= self._known:
            return self._read_known(height, place)
        found = self._kept.get((height, place))
        if found is None:
            found = dict(zip(nodes_of(0, self.size), self._row, strict=True)).get((height, place))
        if found is None:
            raise LogFormatError(f"The subtree {place} of height {height} is not in a tree of {self.size} leaves.")
        return found
