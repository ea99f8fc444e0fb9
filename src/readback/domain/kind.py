"""The kinds of operation. A kind decides the form of proof.

Used by contracts, the engine and reconciliation.
"""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The effect of an operation on its target (the record's `operation_kind`).

    Example:
        >>> from readback import Kind, verified
        >>> def switch_on() -> None: ...
        >>> switch = verified(switch_on, read=lambda: None, strong=True, expect={"on": True})
        >>> print(switch.contract.kind.value, switch.contract.kind.mutates, Kind.READ.mutates)
        set True False
    """

    READ = "read"
    SET = "set"
    CREATE = "create"
    APPEND = "append"
    ADJUST = "adjust"
    DELETE = "delete"
    SEND = "send"

    mutates: bool
    """Whether the operation is meant to change the target."""
    needs_ours: bool
    """Whether verification requires proof of our authorship."""
    compares_before: bool
    """Whether the earlier state decides between an effect and a no-op."""
    counts_effects: bool
    """Whether a second effect of the same operation is a duplicate to search for."""

    def __init__(self, word: str) -> None:
        # Computed once: every action reads these values, and a property is a call.
        self.mutates = word != "read"
        self.compares_before = word in ("set", "delete")
        self.needs_ours = self.counts_effects = word in ("create", "append", "adjust", "send")
