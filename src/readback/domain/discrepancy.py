"""The twelve discrepancy classes.

Reconciliation names a class; the finding table and the texts for people use the class as key. A class describes the
difference. The recovery table decides the reaction.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon.frozen import dataclass


class Discrepancy(StrEnum):
    """How the authoritative state differs from the intent.

    Example:
        >>> from readback import Discrepancy, Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> str: return "ok"
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.discrepancy.value, outcome.discrepancy is Discrepancy.NO_OP_FAILURE)
        no_op_failure True
    """

    NO_OP_SUCCESS = "no_op_success"
    NO_OP_FAILURE = "no_op_failure"
    VALUE_MISMATCH = "value_mismatch"
    STALE_STATE = "stale_state"
    PARTIAL_APPLICATION = "partial_application"
    DUPLICATE_SIDE_EFFECT = "duplicate_side_effect"
    WRONG_TARGET_MODIFIED = "wrong_target_modified"
    TARGET_MISSING = "target_missing"
    PROPAGATION_DELAY = "propagation_delay"
    UNVERIFIABLE_STATE = "unverifiable_state"
    COMPENSATION_REQUIRED = "compensation_required"
    UNKNOWN_STATE = "unknown_state"

    @property
    def code(self) -> str:
        """The stable code of the class, such as `DISC-value-mismatch`."""
        return "DISC-" + self.value.replace("_", "-")

    @property
    def severity(self) -> int:
        """0 (harmless) to 11 (a security incident); of several, the highest counts."""
        return DISCREPANCIES[self].severity


@dataclass(frozen=True, slots=True)
class DiscrepancyRow:
    """Meaning of a class. `may_still_succeed`: whether success is still possible without a new action."""

    discrepancy: Discrepancy
    definition: str
    typical_recovery: str
    severity: int
    may_still_succeed: bool


_D = Discrepancy
_ROWS: Final = (
    DiscrepancyRow(
        _D.NO_OP_SUCCESS,
        "The target was already as wanted before the action, and nothing changed.",
        "Count it as an idempotent success where the contract permits that; record the no-op.",
        0,
        True,
    ),
    DiscrepancyRow(
        _D.PROPAGATION_DELAY,
        "The change is committed, and dependent views do not show the change yet.",
        "Keep it pending and verify again.",
        1,
        True,
    ),
    DiscrepancyRow(
        _D.NO_OP_FAILURE,
        "A change was required and the action changed nothing.",
        "Refresh the state; repeat only where that is safe; else escalate.",
        2,
        False,
    ),
    DiscrepancyRow(
        _D.TARGET_MISSING,
        "The object does not exist, or another actor deleted it meanwhile.",
        "Plan again, or fail and say that the target is missing.",
        3,
        False,
    ),
    DiscrepancyRow(
        _D.STALE_STATE,
        "Another actor changed the target between planning and execution.",
        "Refresh and plan again.",
        4,
        False,
    ),
    DiscrepancyRow(
        _D.VALUE_MISMATCH,
        "The record that was read does not satisfy the postconditions.",
        "Repair, compensate, or have it reviewed.",
        5,
        False,
    ),
    DiscrepancyRow(
        _D.PARTIAL_APPLICATION,
        "Some of the required effects are there and others are not.",
        "Compensate, go forward, or escalate.",
        6,
        False,
    ),
    DiscrepancyRow(
        _D.UNVERIFIABLE_STATE,
        "The target system offers no reliable way to see the result.",
        "Hold, escalate, or require a person's attestation.",
        7,
        False,
    ),
    DiscrepancyRow(
        _D.UNKNOWN_STATE,
        "It cannot be determined whether the action took effect.",
        "Keep it unknown and block a second execution until it is resolved.",
        8,
        True,
    ),
    DiscrepancyRow(
        _D.COMPENSATION_REQUIRED,
        "A committed effect has to be reversed by another action.",
        "Execute the compensation and verify it.",
        9,
        False,
    ),
    DiscrepancyRow(
        _D.DUPLICATE_SIDE_EFFECT,
        "One logical operation has more than one effect.",
        "Freeze, reconcile with the ledger, and compensate where possible.",
        10,
        False,
    ),
    DiscrepancyRow(
        _D.WRONG_TARGET_MODIFIED,
        "The action reached another resource, tenant, region, user or account than it was allowed to.",
        "Freeze and treat it as a security incident.",
        11,
        False,
    ),
)

DISCREPANCIES: Final = MappingProxyType({row.discrepancy: row for row in _ROWS})


def most_severe(found: frozenset[Discrepancy] | set[Discrepancy]) -> Discrepancy | None:
    """The most severe class of several, or None."""
    return max(found, key=lambda one: DISCREPANCIES[one].severity, default=None)
