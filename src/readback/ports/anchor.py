"""Anchors: places outside the ledger where its checkpoints are kept, so that a log that was cut or rewritten is seen.

Called by the sealer's thread after a checkpoint is durable, and by `ledger verify`; never on the way of an action.
Nothing that an anchor shows is believed but signatures and proofs: whoever calls checks them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

Proof: TypeAlias = Callable[[int], list[bytes]]
"""The hashes that show that the checkpoint's log begins with its first so many entries."""


class Anchor(Protocol):
    """Keeps the newest checkpoint of one log. Safe to call from one thread at a time; answers within seconds.

    Every method raises AnchorError where the place cannot be reached, does not answer in time, or refuses, and a
    LogError where what it holds does not go together with what it is given: then it keeps what it had.
    """

    @property
    def name(self) -> str:
        """The place, as it is named in settings, without secrets. It is the same each time."""
        ...

    @property
    def shows(self) -> bool:
        """Whether it hands out what it keeps. One that does not compares by itself, in `take`."""
        ...

    def last(self) -> bytes | None:
        """The note of the checkpoint that is kept there; None where there is none yet, or it is not shown."""
        ...

    def take(self, note: bytes, size: int, proof: Proof) -> bytes:
        """Keep this checkpoint of `size` entries in place of the one before. Durable there when this returns.

        Returns signature lines to be added under the note, checked against the anchor's key; b"" where there are none.
        May be repeated with the same checkpoint.
        """
        ...
