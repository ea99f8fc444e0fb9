"""Anchors: places outside the ledger for its checkpoints, to detect a cut or rewritten log.

Called by the sealer's thread after a checkpoint is durable, and by `ledger verify`; never during an action. The caller
trusts only signatures and proofs, and checks both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

Proof: TypeAlias = Callable[[int], list[bytes]]
"""The hashes of a consistency proof: the checkpoint's log begins with its first so many entries."""


class Anchor(Protocol):
    """Keeps the newest checkpoint of one log. Safe to call from one thread at a time; answers within seconds.

    Every method raises AnchorError if the place is unreachable, times out, or refuses. Every method raises LogError if
    the stored checkpoint contradicts the new one; the anchor then keeps the stored checkpoint.
    """

    @property
    def name(self) -> str:
        """The place as named in settings, without secrets. Constant."""
        ...

    @property
    def shows(self) -> bool:
        """Whether the anchor returns its checkpoint. An anchor without this compares by itself, in `take`."""
        ...

    def last(self) -> bytes | None:
        """The note of the stored checkpoint; None if there is none yet, or if the anchor does not return it."""
        ...

    def take(self, note: bytes, size: int, proof: Proof) -> bytes:
        """Replace the stored checkpoint by this one of `size` entries. Durable on return.

        Returns signature lines for the note, checked against the anchor's key; b"" for none. The call may be repeated
        with the same checkpoint.
        """
        ...
