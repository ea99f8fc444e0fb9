"""Rows named by a digest, in flat memory: about fifty bytes a row. A dictionary of texts takes two hundred.

The folds of a trace keep calls, evidence and claims in such rows. Rows hold no objects.
"""

from __future__ import annotations

from array import array
from typing import Final

DIGEST_BYTES: Final = 32
_SLOTS_MIN: Final = 64
_EMPTY: Final = 0


class DigestRows:
    """Digests in order of arrival, without repetition, with look-ups in constant time."""

    __slots__ = ("_keys", "_mask", "_slots")

    def __init__(self) -> None:
        self._keys = bytearray()
        self._mask = _SLOTS_MIN - 1
        self._slots = array("I", bytes(4 * _SLOTS_MIN))

    def __len__(self) -> int:
        return len(self._keys) // DIGEST_BYTES

    def find(self, digest: bytes) -> int:
        """Return the row, or -1."""
        return self._slots[self._slot(digest)] - 1

    def add(self, digest: bytes) -> tuple[int, bool]:
        """Return the row, and whether it is new."""
        slot = self._slot(digest)
        if (held := self._slots[slot]) != _EMPTY:
            return held - 1, False
        row = len(self)
        self._keys += digest
        self._slots[slot] = row + 1
        if 3 * (row + 1) > 2 * len(self._slots):
            self._grow()
        return row, True

    def digest(self, row: int) -> bytes:
        """Return the digest of a row."""
        return bytes(self._keys[row * DIGEST_BYTES : (row + 1) * DIGEST_BYTES])

    def _slot(self, digest: bytes) -> int:
        """Return the slot of a digest, or a free slot. The process's own hash prevents chosen collisions."""
        slots, keys, mask = self._slots, self._keys, self._mask
        at = hash(digest) & mask
        while (held := slots[at]) != _EMPTY:
            start = (held - 1) * DIGEST_BYTES
            if keys[start : start + DIGEST_BYTES] == digest:
                return at
            at = (at + 1) & mask
        return at

    def _grow(self) -> None:
        size = 2 * len(self._slots)
        self._mask = size - 1
        self._slots = slots = array("I", bytes(4 * size))
        for row in range(len(self)):
            at = hash(self.digest(row)) & self._mask
            while slots[at] != _EMPTY:
                at = (at + 1) & self._mask
            slots[at] = row + 1
