"""The sealed log: tiles of hashes, signed checkpoints, and what each anchor was given. A part of the store.

Called by the sealer, which extends it; by proofs and audit, which read it; never on the way of an action. Nothing in it
is believed: tiles have to lead to the root that a checkpoint's signature covers, and audit makes all of it again from
the entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from readback.canon.frozen import dataclass
from readback.log.frontier import HashTile

# Where an exported log lies, and what its check remembers: files by path, and the last entry of each action.


class Tiles(Protocol):
    """The files of one exported log, by their path within it (`tile/0/000`, `checkpoint`). Trusted with nothing."""

    def write(self, path: str, data: bytes) -> None:
        """Put a file there, whole or not at all. Raises StoreError where it cannot be written."""
        ...

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """What the file holds, or None where there is none. Raises LogFormatError for one that is larger, and
        StoreError where it cannot be read."""
        ...


class Links(Protocol):
    """The number and leaf hash of the last entry that was met of each action, in flat memory however many there are."""

    def last(self, action_id: str) -> tuple[int, bytes] | None:
        """Of the last entry of this action; None where none was met."""
        ...

    def met(self, action_id: str, version: int, leaf: bytes) -> None:
        """One more entry of this action."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


@dataclass(frozen=True, slots=True)
class SealedHead:
    """A signed checkpoint of the first `size` entries; `note` is its bytes, cosignatures included."""

    size: int
    at_us: int
    note: bytes


@dataclass(frozen=True, slots=True)
class AnchorMark:
    """How far an anchor was told. `size`: of the last checkpoint that it took, 0 where it took none; `said`: why it did
    not take the last one that it was offered, "" where it did.
    """

    name: str
    size: int
    at_us: int
    said: str


class SealedLog(Protocol):
    """Kept in one transaction, by compare-and-swap on the last checkpoint's size. Raises as the store does."""

    def entries(self, after_seq: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        """Place, envelope and leaf hash of the next entries, at most `limit` of them."""
        ...

    def tile(self, level: int, place: int) -> bytes | None:
        """The hashes of a tile as wide as it is by now."""
        ...

    def tiles(self) -> Iterator[HashTile]:
        """Every tile, by level and place, streamed."""
        ...

    def checkpoint(self, size: int | None = None) -> SealedHead | None:
        """The last checkpoint, or that of exactly this size."""
        ...

    def checkpoints(self) -> Iterator[SealedHead]:
        """Every checkpoint, the smallest first, streamed."""
        ...

    def seal(self, after: int, tiles: Sequence[HashTile], head: SealedHead) -> bool:
        """Keep a checkpoint and the tiles that it needs, each in place of a narrower one; all or nothing.

        False, and nothing kept, where the last checkpoint has another size than `after` (0: there is none): somebody
        else sealed meanwhile.
        """
        ...

    def cosigned(self, size: int, note: bytes) -> None:
        """Keep the note of a checkpoint with more signatures than it had."""
        ...

    def anchors(self) -> list[AnchorMark]:
        """How far each anchor was told, by name."""
        ...

    def mark(self, mark: AnchorMark) -> None:
        """Remember how far an anchor was told, in place of what was known."""
        ...
