"""Audit of the sealed log: every tile and every checkpoint is built again from the entries.

Called by the audit: `read` for all entries in the order of the log, `faults` at the end. The check covers the entries
sealed at its start; other processes may seal meanwhile. Without the log's key, only a checkpoint's root is checked, not
its signature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from readback.audit.sealing.seal import Authority
from readback.log.checkpoint import Checkpoint, open_checkpoint, parse_checkpoint
from readback.log.fault import LogError
from readback.log.frontier import Frontier, HashTile
from readback.log.note import parse_note
from readback.log.tiles import HEIGHT, WIDTH
from readback.log.tree import HASH_BYTES
from readback.ports.storage.log import SealedHead, SealedLog

FAULTS_MAX: Final = 100
LOOKS_MAX: Final = 5

Found = tuple[str, str]
"""Stable code and sentence of a fault."""


class SealedAudit:
    """The sealed log, built again from the entries up to some sequence number."""

    def __init__(self, log: SealedLog, authority: Authority | None = None) -> None:
        self._log, self._authority = log, authority
        last = log.checkpoint()
        self.size = last.size if last is not None else 0
        """Number of sealed entries at the start of the check."""
        self.checkpoints = 0
        self._heads = log.checkpoints()
        self._next = next(self._heads, None)
        self._edge = Frontier()
        self._leaves: list[bytes] = []
        self._until = self._stop()
        self._origin = ""
        self._found: list[Found] = []
        while self._next is not None and self._next.size <= 0:
            self._bad("log.checkpoint", f"A checkpoint of {self._next.size} entries is stored, and nothing signs it.")
            self._advance()

    def read(self, leaves: Sequence[bytes]) -> None:
        """Add the next entries by their leaf hashes. The audit compares the hashes with the bytes."""
        at = 0
        while self._until and at < len(leaves):  # leaves after the sealed part need no memory
            some = leaves[at : at + self._until - len(self._leaves)]
            self._leaves += some
            at += len(some)
            if len(self._leaves) == self._until:
                self._flush()

    def faults(self) -> list[Found]:
        """Return all faults, after the last entry."""
        if self._edge.size + len(self._leaves) < self.size:
            said = f"The log has {self._edge.size + len(self._leaves)} entries, and was sealed with {self.size}"
            self._bad("log.cut", f"{said}: its end was cut off.")
        elif self.size:
            self._compare(self._edge.changed(), last=True)
        self._found += self._shapes()
        return self._found[:FAULTS_MAX]

    # --- as the entries come ---

    def _stop(self) -> int:
        """Return the number of leaves to collect before comparing: to the end of a tile, or to the next checkpoint. 0:
        no more.
        """
        edge = self._edge.size
        if edge >= self.size:
            return 0
        to = WIDTH - edge % WIDTH
        return min(to, self._next.size - edge) if self._next is not None and self._next.size > edge else to

    def _flush(self) -> None:
        self._edge.grow(self._leaves)
        self._leaves.clear()
        self._compare(self._edge.filled())
        while self._next is not None and self._next.size <= self._edge.size:
            self._checkpoint(self._next)
            self._advance()
        self._until = self._stop()

    def _advance(self) -> None:
        self._next = next(self._heads, None)
        if self._next is not None and self._next.size > self.size:
            self._next = None  # sealed during the check

    def _compare(self, tiles: list[HashTile], *, last: bool = False) -> None:
        """Compare computed tiles with stored tiles. An unfinished tile may have grown meanwhile."""
        for tile in tiles:
            kept = self._log.tile(tile.level, tile.place)
            if kept is None or (kept[: len(tile.hashes)] if last else kept) != tile.hashes:
                first = (tile.place << (HEIGHT * (tile.level + 1))) + 1
                there = "is not there" if kept is None else "does not match the entries"
                self._bad("log.tile", f"Tile {tile.place} of level {tile.level}, from entry {first} on, {there}.")

    def _checkpoint(self, head: SealedHead) -> None:
        self.checkpoints += 1
        try:
            found = self._opened(head)
        except LogError as error:
            self._bad(error.code, f"The checkpoint of {head.size} entries: {error.message}")
            return
        self._origin = self._origin or found.origin
        if found.origin != self._origin:
            self._bad("log.origin", f"The checkpoint of {head.size} entries is of the log {found.origin!r}.")
        elif found.size != head.size:
            self._bad("log.checkpoint", f"The checkpoint stored for {head.size} entries is of {found.size}.")
        elif found.root != self._edge.root():
            said = f"The first {head.size} entries differ from the entries under their checkpoint: they were rewritten."
            self._bad("log.rewritten", said)

    def _opened(self, head: SealedHead) -> Checkpoint:
        """Parse a checkpoint. With the log's key, verify its signature. Without the key, check the signer's name."""
        if self._authority is not None:
            return open_checkpoint(head.note, self._authority.keys, self._authority.check).checkpoint
        note = parse_note(head.note)
        found = parse_checkpoint(note.text)
        if all(each.name != found.origin for each in note.signatures):
            self._bad("log.signature", f"The checkpoint of {head.size} entries is not signed by {found.origin!r}.")
        return found

    # --- at the end ---

    def _shapes(self) -> list[Found]:
        """Report surplus or too wide tiles, and marks of missing checkpoints."""
        found: list[Found] = []
        for _ in range(LOOKS_MAX):
            before = self._log.checkpoint()
            found = [*self._wrong_tiles(before.size if before is not None else 0), *self._wrong_marks()]
            after = self._log.checkpoint()
            if not found or (after.size if after else 0) == (before.size if before else 0):
                break
        return found

    def _wrong_tiles(self, size: int) -> Iterator[Found]:
        for tile in self._log.tiles():
            level, place = tile.level, tile.place
            width = min((size >> (HEIGHT * level)) - place * WIDTH, WIDTH) if level >= 0 and place >= 0 else 0
            if width <= 0 or len(tile.hashes) != width * HASH_BYTES:
                yield (
                    "log.tile",
                    f"Tile {place} of level {level} holds {len(tile.hashes)} bytes, for {max(width, 0)} hashes.",
                )

    def _wrong_marks(self) -> Iterator[Found]:
        for mark in self._log.anchors():
            if mark.size and self._log.checkpoint(mark.size) is None:
                said = (
                    f"The anchor {mark.name} is said to have a checkpoint of {mark.size} entries, which does not exist."
                )
                yield "log.anchor", said

    def _bad(self, code: str, what: str) -> None:
        if len(self._found) < FAULTS_MAX:
            self._found.append((code, what))
