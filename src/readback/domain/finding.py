"""Findings: the keys of the recovery table.

A discrepancy class describes the state. A finding adds the conclusion permitted by the evidence. `FINDING_OF` maps the
classes with a finding independent of further evidence.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.domain.discrepancy import Discrepancy


class Finding(StrEnum):
    """The conclusion of reconciliation, in the recovery table's terms."""

    VERIFIED = "verified"
    NO_OP_ALLOWED = "no_op_allowed"
    AUTHORITY_MISMATCH = "authority_mismatch"
    """The tool claimed success and the authoritative state denies it."""
    VERIFICATION_TIMEOUT = "verification_timeout"
    PENDING_TIMEOUT = "pending_timeout"
    """The execution itself timed out, and its result is open."""
    PARTIAL_SUCCESS = "partial_success"
    STALE_STATE = "stale_state"
    DUPLICATE_SIDE_EFFECT = "duplicate_side_effect"
    WRONG_TARGET = "wrong_target"
    UNVERIFIABLE = "unverifiable"
    COMPENSATION_FAILED = "compensation_failed"
    PROVIDER_OUTAGE = "provider_outage"
    POLICY_VERSION_MISMATCH = "policy_version_mismatch"
    APPROVAL_MISMATCH = "approval_mismatch"
    NO_OP_FAILURE = "no_op_failure"
    VALUE_MISMATCH = "value_mismatch"
    TARGET_MISSING = "target_missing"
    PROPAGATION_DELAY = "propagation_delay"
    COMPENSATION_REQUIRED = "compensation_required"
    UNKNOWN = "unknown"
    VERIFIER_ERROR = "verifier_error"
    FAILED_BEFORE_EFFECT = "failed_before_effect"
    """The failure provably precedes dispatch, so verification is unnecessary."""
    REFUTED_DEAD = "refuted_dead"
    """A strong, complete reading shows no effect, and none can follow."""
    HIDDEN_SIDE_EFFECT = "hidden_side_effect"
    """A change outside the paths allowed by the contract."""
    DRIFT = "drift"
    """A later reading contradicts the verified success."""

    @property
    def severity(self) -> int:
        """0 (verified) upwards; of several findings the most severe counts."""
        return _SEVERITY[self]


_F = Finding
_BY_SEVERITY: Final = (
    _F.VERIFIED,
    _F.NO_OP_ALLOWED,
    _F.PROPAGATION_DELAY,
    _F.FAILED_BEFORE_EFFECT,
    _F.REFUTED_DEAD,
    _F.NO_OP_FAILURE,
    _F.TARGET_MISSING,
    _F.STALE_STATE,
    _F.AUTHORITY_MISMATCH,
    _F.VALUE_MISMATCH,
    _F.PARTIAL_SUCCESS,
    _F.DRIFT,
    _F.PROVIDER_OUTAGE,
    _F.PENDING_TIMEOUT,
    _F.VERIFICATION_TIMEOUT,
    _F.UNVERIFIABLE,
    _F.UNKNOWN,
    _F.VERIFIER_ERROR,
    _F.POLICY_VERSION_MISMATCH,
    _F.APPROVAL_MISMATCH,
    _F.COMPENSATION_REQUIRED,
    _F.HIDDEN_SIDE_EFFECT,
    _F.DUPLICATE_SIDE_EFFECT,
    _F.COMPENSATION_FAILED,
    _F.WRONG_TARGET,
)
_SEVERITY: Final = MappingProxyType({finding: rank for rank, finding in enumerate(_BY_SEVERITY)})

_D = Discrepancy
FINDING_OF: Final = MappingProxyType(
    {
        _D.NO_OP_SUCCESS: _F.NO_OP_ALLOWED,
        _D.NO_OP_FAILURE: _F.NO_OP_FAILURE,
        _D.VALUE_MISMATCH: _F.VALUE_MISMATCH,
        _D.STALE_STATE: _F.STALE_STATE,
        _D.PARTIAL_APPLICATION: _F.PARTIAL_SUCCESS,
        _D.DUPLICATE_SIDE_EFFECT: _F.DUPLICATE_SIDE_EFFECT,
        _D.WRONG_TARGET_MODIFIED: _F.WRONG_TARGET,
        _D.TARGET_MISSING: _F.TARGET_MISSING,
        _D.PROPAGATION_DELAY: _F.PROPAGATION_DELAY,
        _D.UNVERIFIABLE_STATE: _F.UNVERIFIABLE,
        _D.COMPENSATION_REQUIRED: _F.COMPENSATION_REQUIRED,
        _D.UNKNOWN_STATE: _F.UNKNOWN,
    }
)
"""The finding of each class where no further evidence decides (a table of ours)."""


def most_severe(findings: frozenset[Finding] | set[Finding]) -> Finding | None:
    """The most severe finding of several, or None."""
    return max(findings, key=lambda one: one.severity, default=None)
