"""Incidents: their severity, their cause, and the merging of repeated incidents.

A row of the recovery table opens an incident. The store keeps the records and counts repetitions. Sinks report an
incident after its record is durable.

Source: the action verification specification, "Incident workflow"; severities and causes are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.domain.finding import Finding
from readback.domain.side_effect import SideEffect


class Severity(StrEnum):
    """Urgency of an incident."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 (low) to 3 (critical)."""
        return _RANK[self]


_RANK: Final = MappingProxyType({severity: rank for rank, severity in enumerate(Severity)})
BY_CLASS: Final = MappingProxyType(
    {
        SideEffect.READ_ONLY: Severity.LOW,
        SideEffect.EPHEMERAL_WRITE: Severity.LOW,
        SideEffect.LOW_RISK_INTERNAL: Severity.MEDIUM,
        SideEffect.MEDIUM_RISK_WRITE: Severity.MEDIUM,
        SideEffect.HIGH_RISK_EXTERNAL: Severity.HIGH,
        SideEffect.CRITICAL_MUTATION: Severity.CRITICAL,
    }
)
"""The severity by side-effect class alone (a table of ours)."""

AT_LEAST: Final = MappingProxyType(
    {
        Finding.WRONG_TARGET: Severity.CRITICAL,
        Finding.APPROVAL_MISMATCH: Severity.CRITICAL,
        Finding.DUPLICATE_SIDE_EFFECT: Severity.HIGH,
        Finding.HIDDEN_SIDE_EFFECT: Severity.HIGH,
        Finding.COMPENSATION_FAILED: Severity.HIGH,
        Finding.VERIFIER_ERROR: Severity.MEDIUM,
    }
)
"""The minimum severity by finding. Findings without a row add nothing (a table of ours)."""


def severity_of(finding: Finding, side_effect: SideEffect) -> Severity:
    """The higher severity of class and finding."""
    return max(BY_CLASS[side_effect], AT_LEAST.get(finding, Severity.LOW), key=lambda severity: severity.rank)


def cause_of(finding: Finding, action_id: str, sources: Sequence[str] = ()) -> str:
    """The cause of an incident. While an incident of a cause is open, a second incident of the cause only counts.

    A repeatedly failing verifier is an incident of its source, for all actions. Any other incident belongs to its
    action.
    """
    if finding is Finding.VERIFIER_ERROR and sources:
        return f"source:{sources[0]}"
    return f"action:{action_id}:{finding.value}"


def incident_id(action_id: str, version: int) -> str:
    """The id of an incident, derived from the opening entry."""
    return f"inc-{action_id}-{version}"
