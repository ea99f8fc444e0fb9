"""The part of the audit that compares the log with checkpoints that were kept elsewhere: cut, rewritten, forked.

Called by audit: `read` for all entries in the order of the log, `faults` at the end. The signatures of the checkpoints
have been checked by whoever opened them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from readback.log.checkpoint import Checkpoint
from readback.log.tree import GrowingTree


class Heads:
    """Checkpoints that a log has to go on from."""

    __slots__ = ("_kept", "_roots", "_tree", "_wanted")

    def __init__(self, kept: Sequence[Checkpoint]) -> None:
        self._kept = sorted(kept, key=lambda each: each.size)
        self._wanted = {each.size for each in kept}
        self._tree = GrowingTree()
        self._roots: dict[int, bytes] = {}
        self._note()

    def read(self, leaves: Sequence[bytes]) -> None:
        """The next entries, by their leaf hashes, which audit compares with their bytes."""
        for leaf in leaves:
            self._tree.append(leaf)
            if self._tree.size in self._wanted:
                self._note()

    def faults(self) -> Iterator[tuple[str, str]]:
        """Code and sentence of everything that does not fit."""
        for one, other in pairwise(self._kept):
            if one.origin != other.origin:
                yield "log.origin", f"The checkpoints are of two logs, {one.origin!r} and {other.origin!r}."
            elif one.size == other.size and one.root != other.root:
                yield "log.fork", f"Two checkpoints of {one.size} entries differ: the log was shown in two forms."
        for each in self._kept:
            root = self._roots.get(each.size)
            if root is None:
                said = f"The log has {self._tree.size} entries, and a checkpoint covers {each.size}"
                yield "log.cut", f"{said}: its end was cut off."
            elif root != each.root:
                said = f"The first {each.size} entries are not those that the checkpoint covers: they were rewritten."
                yield "log.rewritten", said

    def said(self) -> str:
        """What can be told of the log's end, in place of that nothing can."""
        last = self._kept[-1]
        sizes = " and ".join(str(each.size) for each in self._kept)
        return f"checked against the checkpoint of {sizes} entries signed by {last.origin}; not beyond it"

    def _note(self) -> None:
        self._roots[self._tree.size] = self._tree.root()
