"""The kinds of operation. A kind decides what a proof is.

Used by contracts, the engine and reconciliation. Holds no behaviour beyond these questions.
"""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What an operation does to the state it is aimed at (the record's `operation_kind`)."""

    READ = "read"
    SET = "set"
    CREATE = "create"
    APPEND = "append"
    ADJUST = "adjust"
    DELETE = "delete"
    SEND = "send"

    mutates: bool
    """Whether the operation is meant to change anything."""
    needs_ours: bool
    """Whether it is verified only where the state is shown to be our doing."""
    compares_before: bool
    """Whether what was there before decides between an effect and a no-op."""
    counts_effects: bool
    """Whether a second effect of the same operation is a duplicate worth looking for."""

    def __init__(self, word: str) -> None:
        # Answered once: every action asks, and a property is a call.
        self.mutates = word != "read"
        self.compares_before = word in ("set", "delete")
        self.needs_ours = self.counts_effects = word in ("create", "append", "adjust", "send")
