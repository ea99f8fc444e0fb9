"""The Merkle tree of RFC 6962 and RFC 9162 over leaf hashes: appended leaf by leaf, without storing the leaves.

Called by readers of a log from its beginning. A tree of any size is a row of perfect subtrees, the largest first. Only
their roots are stored, at most 64. This module must not look inside a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import sha256
from typing import Final, TypeAlias

from readback.log.fault import LogFormatError

LEAF_PREFIX: Final = b"\x00"
"""RFC 6962, 2.1: separates a leaf from an inner node, whose prefix is 0x01."""


def leaf_hash(envelope: bytes) -> bytes:
    """Return 32 bytes: SHA-256 over 0x00 and the stored bytes of the envelope."""
    return sha256(LEAF_PREFIX + envelope).digest()


def leaf_hashes(envelopes: Iterable[bytes]) -> list[bytes]:
    """Return the hashes of many leaves, in order. This is the most frequent call of a full read."""
    return [sha256(LEAF_PREFIX + envelope).digest() for envelope in envelopes]


NODE_PREFIX: Final = b"\x01"
"""RFC 6962, 2.1: separates an inner node from a leaf."""
HASH_BYTES: Final = 32
SIZE_MAX: Final = 2**53 - 1
"""Most leaves of one log: every reader of a checkpoint handles this number exactly."""
EMPTY_ROOT: Final = sha256(b"").digest()

Node: TypeAlias = tuple[int, int]
"""A perfect subtree: its height, and its place among the subtrees of this height."""
Read: TypeAlias = Callable[[int, int], bytes]
"""Return the hash of a perfect subtree, by height and place."""


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return sha256(NODE_PREFIX + left + right).digest()


def nodes_of(begin: int, end: int) -> Iterator[Node]:
    """Return the perfect subtrees over the leaves from `begin` to before `end`, from left to right."""
    while begin < end:
        height = (end - begin).bit_length() - 1
        if begin:
            height = min(height, (begin & -begin).bit_length() - 1)
        yield height, begin >> height
        begin += 1 << height


def fold(hashes: list[bytes]) -> bytes:
    """Return the root over a row of perfect subtrees, the largest first. No subtrees: the root of the empty tree."""
    if not hashes:
        return EMPTY_ROOT
    root = hashes[-1]
    for left in hashes[-2::-1]:
        root = node_hash(left, root)
    return root


def subtree_hash(begin: int, end: int, read: Read) -> bytes:
    """Return the hash of the leaves from `begin` to before `end`, for a range RFC 6962 defines as a subtree."""
    return fold([read(height, place) for height, place in nodes_of(begin, end)])


def path_nodes(index: int) -> frozenset[Node]:
    """Return every perfect subtree needed for a proof about leaf `index`, at any later size of the log.

    Together with the final row of subtrees of the grown tree, these nodes suffice for each inclusion proof of this
    leaf, and for each consistency proof from the tree ending with this leaf.
    """
    up = range(SIZE_MAX.bit_length())
    return frozenset(node for h in up for node in ((h, index >> h), (h, (index >> h) ^ 1)))


class GrowingTree:
    """A tree for appending leaves. `keep`: perfect subtrees whose hashes are retained during growth."""

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
        """Return the tree of `size` leaves with the subtrees from `read`. The tree grows without the earlier leaves.

        Args:
            size: Number of leaves already in the tree.
            read: Returns the hash of a perfect subtree of these leaves. The tree does not verify the hash.
            keep: Perfect subtrees whose hashes the tree retains during growth.

        Raises:
            LogFormatError: A subtree is missing.
        """
        tree = cls(keep)
        tree.size = tree._known = size
        tree._read_known = read
        tree._row = [read(height, place) for height, place in nodes_of(0, size)]
        return tree

    def append(self, leaf: bytes) -> None:
        """Append one leaf, given its hash."""
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
        """Return the present root of the tree."""
        return fold(self._row)

    def read(self, height: int, place: int) -> bytes:
        """Return the hash of a retained subtree, of an initial subtree, or of the present row.

        Raises LogFormatError for any other subtree.
        """
        if self._read_known is not None and (place + 1) << height <= self._known:
            return self._read_known(height, place)
        found = self._kept.get((height, place))
        if found is None:
            found = dict(zip(nodes_of(0, self.size), self._row, strict=True)).get((height, place))
        if found is None:
            raise LogFormatError(f"The subtree {place} of height {height} is not in a tree of {self.size} leaves.")
        return found
