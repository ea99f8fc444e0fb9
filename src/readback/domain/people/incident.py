"""Incidents: what somebody has to be called for, how urgently, and when two of them are one.

Asked by the lifecycle when a row of the recovery table opens one. The store keeps the records and counts repetitions;
a sink tells them, after they are durable.

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
    """How urgent an incident is."""

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
"""What a class makes of an incident by itself (a table of ours)."""

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
"""What a finding makes of it whatever the class; the others add nothing (a table of ours)."""


def severity_of(finding: Finding, side_effect: SideEffect) -> Severity:
    """The more urgent of what the class and the finding say."""
    return max(BY_CLASS[side_effect], AT_LEAST.get(finding, Severity.LOW), key=lambda severity: severity.rank)


def cause_of(finding: Finding, action_id: str, sources: Sequence[str] = ()) -> str:
    """What an incident is about: while one of a cause is open, a second one only counts.

    A verifier that keeps failing is its source's incident, whichever action met it; everything else is its action's.
    """
    if finding is Finding.VERIFIER_ERROR and sources:
        return f"source:{sources[0]}"
    return f"action:{action_id}:{finding.value}"


def incident_id(action_id: str, version: int) -> str:
    """The id of an incident: the entry that opened it."""
    return f"inc-{action_id}-{version}"
