"""The sealed log: tiles of hashes, signed checkpoints, and each anchor's progress. A part of the store.

Called by the sealer to extend the log, and by proofs and audit to read it; never during an action. Nothing in the log
is trusted: tiles must lead to the root under a checkpoint's signature, and audit recomputes everything from the
entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from readback.canon.frozen import dataclass
from readback.log.frontier import HashTile

# An exported log's files by path, and the check's memory: the last entry of each action.


class Tiles(Protocol):
    """The files of one exported log, by path within it (`tile/0/000`, `checkpoint`). Trusted with nothing."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file, whole or not at all. Raises StoreError on failure."""
        ...

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """The file's content, or None for a missing file. Raises LogFormatError for a larger file, and StoreError for
        an unreadable file.
        """
        ...


class Links(Protocol):
    """The number and leaf hash of each action's last entry so far, in constant memory for any number of actions."""

    def last(self, action_id: str) -> tuple[int, bytes] | None:
        """Of this action's last entry; None if there is none so far."""
        ...

    def met(self, action_id: str, version: int, leaf: bytes) -> None:
        """Add an entry of this action."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


@dataclass(frozen=True, slots=True)
class SealedHead:
    """A signed checkpoint of the first `size` entries; `note` is its bytes, cosignatures included."""

    size: int
    at_us: int
    note: bytes


@dataclass(frozen=True, slots=True)
class AnchorMark:
    """An anchor's progress. `size`: of the last accepted checkpoint, 0 for none. `said`: why the anchor refused the
    last offer, "" if accepted.
    """

    name: str
    size: int
    at_us: int
    said: str


class SealedLog(Protocol):
    """Kept in one transaction, by compare-and-swap on the last checkpoint's size. Raises as the store does."""

    def entries(self, after_seq: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        """Position, envelope and leaf hash of the next entries, at most `limit` of them."""
        ...

    def tile(self, level: int, place: int) -> bytes | None:
        """The hashes of a tile at its current width."""
        ...

    def tiles(self) -> Iterator[HashTile]:
        """Every tile, by level and position, streamed."""
        ...

    def checkpoint(self, size: int | None = None) -> SealedHead | None:
        """The last checkpoint, or the checkpoint of exactly this size."""
        ...

    def checkpoints(self) -> Iterator[SealedHead]:
        """Every checkpoint, smallest first, streamed."""
        ...

    def seal(self, after: int, tiles: Sequence[HashTile], head: SealedHead) -> bool:
        """Store a checkpoint and its tiles, each replacing a narrower tile; all or nothing.

        Returns False, with nothing stored, if the last checkpoint's size differs from `after` (0: none): another
        process sealed meanwhile.
        """
        ...

    def cosigned(self, size: int, note: bytes) -> None:
        """Store a checkpoint's note with additional signatures."""
        ...

    def anchors(self) -> list[AnchorMark]:
        """Each anchor's progress, by name."""
        ...

    def mark(self, mark: AnchorMark) -> None:
        """Replace the stored progress of an anchor."""
        ...
