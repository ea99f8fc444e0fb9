"""The kinds of operation. A kind decides what a proof is.

Used by contracts, the engine and reconciliation. Holds no behaviour beyond these questions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What an operation does to the state it is aimed at (the record's `operation_kind`)."""

    READ = "read"
    SET = "set"
    CREATE = "create"
    APPEND = "append"
    ADJUST = "adjust"
    DELETE = "delete"
    SEND = "send"

    @property
    def mutates(self) -> bool:
        """Whether the operation is meant to change anything."""
        return self is not _READ_KIND

    @property
    def needs_ours(self) -> bool:
        """Whether it is verified only where the state is shown to be our doing."""
        return self in _EFFECTS

    @property
    def compares_before(self) -> bool:
        """Whether what was there before decides between an effect and a no-op."""
        return self in (_SET, _DELETE)

    @property
    def counts_effects(self) -> bool:
        """Whether a second effect of the same operation is a duplicate worth looking for."""
        return self in _EFFECTS


_READ_KIND: Final = Kind.READ
_SET: Final = Kind.SET
_DELETE: Final = Kind.DELETE


_EFFECTS = frozenset({Kind.CREATE, Kind.APPEND, Kind.ADJUST, Kind.SEND})
