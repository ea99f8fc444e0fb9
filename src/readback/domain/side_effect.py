"""The six side-effect classes and the verification depth of each.

The action verification specification's verification-depth table as data, plus our own limits for cases left open there.
Loading checks contracts against the table, and the engine takes its defaults from the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon import Json, envelope_bytes, sha256_hex
from readback.canon.frozen import dataclass

_SECOND_US: Final = 1_000_000
_MINUTE_US: Final = 60 * _SECOND_US


class _Ranked(StrEnum):
    """Words ordered by definition."""

    rank: int
    """From 0 for the first. Stored as an attribute, since every action reads ranks and a property is a call."""

    def __init__(self, _word: str) -> None:
        self.rank = len(type(self).__members__)


class SideEffect(_Ranked):
    """The side-effect class of a contract, from harmless (rank 0) to critical (rank 5).

    Example:
        >>> from readback import SideEffect, verified
        >>> def switch_on() -> None: ...
        >>> switch = verified(switch_on, read=lambda: None, strong=True, expect={"on": True})
        >>> print(switch.contract.side_effect.value, SideEffect.CRITICAL_MUTATION.rank)
        low_risk_internal 5
    """

    READ_ONLY = "read_only"
    EPHEMERAL_WRITE = "ephemeral_write"
    LOW_RISK_INTERNAL = "low_risk_internal"
    MEDIUM_RISK_WRITE = "medium_risk_write"
    HIGH_RISK_EXTERNAL = "high_risk_external"
    CRITICAL_MUTATION = "critical_mutation"

    @property
    def ledger_name(self) -> str:
        """The spelling in the ledger schema."""
        return self.value.upper()


class Consistency(_Ranked):
    """Guaranteed freshness of a reading: rank 0 (cached) to 3 (strong).

    Example:
        >>> from readback import Consistency, verified
        >>> def switch_on() -> None: ...
        >>> switch = verified(switch_on, read=lambda: None, strong=True, expect={"on": True})
        >>> print(switch.contract.readers[0].consistency.value)
        strong
        >>> print(Consistency.CACHED.rank, Consistency.STRONG.rank)
        0 3
    """

    CACHED = "cached"
    REPLICA = "replica"
    SESSION = "session"
    STRONG = "strong"


class Independence(_Ranked):
    """Distance of a reading's path from the action's: rank 0 (the call itself, verifies nothing) to 3.

    Example:
        >>> from readback import Independence, verified
        >>> def switch_on() -> None: ...
        >>> switch = verified(switch_on, read=lambda: None, strong=True, expect={"on": True})
        >>> print(switch.contract.readers[0].independence.value)
        other_client
        >>> print(Independence.SAME_CALL.rank, Independence.OTHER_SYSTEM.rank)
        0 3
    """

    SAME_CALL = "same_call"
    SAME_CLIENT = "same_client"
    OTHER_CLIENT = "other_client"
    OTHER_SYSTEM = "other_system"


class ReviewTrigger(StrEnum):
    """Reasons for a review, by class (the table's last column)."""

    SENSITIVE_BOUNDARY = "sensitive_boundary"
    TENANT_MISMATCH = "tenant_mismatch"
    POLICY_VIOLATION = "policy_violation"
    SANDBOX_ESCAPE = "sandbox_escape"
    UNAUTHORIZED_PATH = "unauthorized_path"
    DESTRUCTIVE = "destructive"
    REPEATED_MISMATCH = "repeated_mismatch"
    WRONG_TENANT = "wrong_tenant"
    PARTIAL = "partial"
    STALE = "stale"
    DECLINED = "declined"
    MISMATCH = "mismatch"
    DUPLICATE = "duplicate"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    ALWAYS = "always"


class UnverifiedClaim(StrEnum):
    """Reporting of an action that no system of record can confirm."""

    REPORT_UNVERIFIED = "report_unverified"
    """May be reported as done without verification, in exactly such words."""
    HOLD_FOR_REVIEW = "hold_for_review"
    """Held for a person, with no other report."""


@dataclass(frozen=True, slots=True)
class Depth:
    """A row of the verification-depth table. Texts are for people; the other fields are enforced."""

    side_effect: SideEffect
    required_check: str
    source: str
    fallback: str
    latency_tolerance: str
    review_trigger: str
    checks: tuple[str, ...]
    """Named checks required of a contract's reading, identity and postconditions."""
    minimum_consistency: Consistency
    minimum_independence: Independence
    quorum_min: int
    """Required number of agreeing, completed readings."""
    needs_before: bool
    """Whether set and delete need a reading taken before execution."""
    needs_after_evidence: bool
    """Whether a confirmation must prove that it is later than the action."""
    operation_required: bool
    """Whether the caller must name the operation. Otherwise each proposal gets a fresh operation."""
    find_at_close: bool
    """Whether effects are counted again when the window closes."""
    identity_required: tuple[str, ...]
    """Identity names that a contract maps onto the reading or declares as not offered."""
    identity_essential: tuple[str, ...]
    """Identity names never declared as not offered. Without such a name the class is too high."""
    review_on: frozenset[ReviewTrigger]
    repeated_mismatch_limit: int
    """Number of consecutive mismatches of a contract before a review."""
    unverifiable_allowed: UnverifiedClaim
    default_within_us: int
    default_polls_us: tuple[int, ...]
    default_timeout_us: int


_POLLS_US: Final = (0, 2 * _SECOND_US, 4 * _SECOND_US, 8 * _SECOND_US)

_ROWS: Final = (
    Depth(
        side_effect=SideEffect.READ_ONLY,
        required_check="The answer belongs to the parameters that were asked for, to the tenant in scope and "
        "to the source that was meant, and arrived whole.",
        source="An approved endpoint of the source, a signed answer, or a read path bound to the permission scope.",
        fallback="Read again, read another approved source, or answer that it is unavailable.",
        latency_tolerance="Low; as a rule synchronous.",
        review_trigger="A sensitive data boundary, another tenant's data, or a violated policy.",
        checks=("request_parameters", "tenant_scope", "source_identity", "response_integrity"),
        minimum_consistency=Consistency.REPLICA,
        minimum_independence=Independence.SAME_CLIENT,
        quorum_min=1,
        needs_before=False,
        needs_after_evidence=False,
        operation_required=False,
        find_at_close=False,
        identity_required=("tenant",),
        identity_essential=(),
        review_on=frozenset(
            {ReviewTrigger.SENSITIVE_BOUNDARY, ReviewTrigger.TENANT_MISMATCH, ReviewTrigger.POLICY_VIOLATION}
        ),
        repeated_mismatch_limit=5,
        unverifiable_allowed=UnverifiedClaim.REPORT_UNVERIFIED,
        default_within_us=10 * _SECOND_US,
        default_polls_us=_POLLS_US,
        default_timeout_us=30 * _SECOND_US,
    ),
    Depth(
        side_effect=SideEffect.EPHEMERAL_WRITE,
        required_check="The path lies in the sandbox, the file is there with the size or hash that was "
        "meant, and nothing left the sandbox.",
        source="A monitor of the sandboxed file system, or the workspace's manifest.",
        fallback="Roll the local artefact back, or mark the workspace dirty.",
        latency_tolerance="Low; synchronous.",
        review_trigger="An escape from the sandbox, an unauthorised path, or a destructive operation.",
        checks=("sandbox_path", "existence", "size_or_hash", "no_escape", "workspace_manifest"),
        minimum_consistency=Consistency.STRONG,
        minimum_independence=Independence.SAME_CLIENT,
        quorum_min=1,
        needs_before=False,
        needs_after_evidence=False,
        operation_required=False,
        find_at_close=False,
        identity_required=(),
        identity_essential=(),
        review_on=frozenset({ReviewTrigger.SANDBOX_ESCAPE, ReviewTrigger.UNAUTHORIZED_PATH, ReviewTrigger.DESTRUCTIVE}),
        repeated_mismatch_limit=5,
        unverifiable_allowed=UnverifiedClaim.REPORT_UNVERIFIED,
        default_within_us=2 * _SECOND_US,
        default_polls_us=_POLLS_US,
        default_timeout_us=30 * _SECOND_US,
    ),
    Depth(
        side_effect=SideEffect.LOW_RISK_INTERNAL,
        required_check="A read after the write, from the source of record: object id, tenant, version, actor "
        "and the changed fields.",
        source="The primary database, the authoritative service, or a strongly consistent read endpoint.",
        fallback="Verify again; a stale replica never settles a success.",
        latency_tolerance="Low to moderate.",
        review_trigger="Repeated mismatches, or another tenant's object.",
        checks=("object_id", "tenant_id", "version", "actor", "changed_fields"),
        minimum_consistency=Consistency.SESSION,
        minimum_independence=Independence.SAME_CLIENT,
        quorum_min=1,
        needs_before=True,
        needs_after_evidence=True,
        operation_required=False,
        find_at_close=False,
        identity_required=("target", "tenant"),
        identity_essential=("target",),
        review_on=frozenset({ReviewTrigger.REPEATED_MISMATCH, ReviewTrigger.WRONG_TENANT}),
        repeated_mismatch_limit=3,
        unverifiable_allowed=UnverifiedClaim.REPORT_UNVERIFIED,
        default_within_us=30 * _SECOND_US,
        default_polls_us=_POLLS_US,
        default_timeout_us=30 * _SECOND_US,
    ),
    Depth(
        side_effect=SideEffect.MEDIUM_RISK_WRITE,
        required_check="The difference between before and after, the workflow's status, the acting party in "
        "the audit trail, and what was queued downstream.",
        source="The application's service, its primary database, the workflow engine, or an event ledger.",
        fallback="Keep it pending, verify again, compensate or escalate, by discrepancy.",
        latency_tolerance="Moderate.",
        review_trigger="Partial success, stale state, or repeated mismatches.",
        checks=("before_after_diff", "workflow_status", "audit_actor", "downstream_queue"),
        minimum_consistency=Consistency.SESSION,
        minimum_independence=Independence.OTHER_CLIENT,
        quorum_min=1,
        needs_before=True,
        needs_after_evidence=True,
        operation_required=True,
        find_at_close=False,
        identity_required=("target", "tenant", "actor"),
        identity_essential=("target",),
        review_on=frozenset(
            {
                ReviewTrigger.PARTIAL,
                ReviewTrigger.STALE,
                ReviewTrigger.REPEATED_MISMATCH,
                ReviewTrigger.WRONG_TENANT,
            }
        ),
        repeated_mismatch_limit=3,
        unverifiable_allowed=UnverifiedClaim.HOLD_FOR_REVIEW,
        default_within_us=_MINUTE_US,
        default_polls_us=_POLLS_US,
        default_timeout_us=_MINUTE_US,
    ),
    Depth(
        side_effect=SideEffect.HIGH_RISK_EXTERNAL,
        required_check="The provider's transaction id, delivery status, recipient or target, amount, "
        "idempotency key, and what the outside can see.",
        source="The third party's ledger, the provider's verification endpoint, the gateway's ledger, "
        "or a delivery status endpoint.",
        fallback="Keep the action pending. Report the action as done only after verification.",
        latency_tolerance="Moderate to asynchronous.",
        review_trigger="A decline, a mismatch, a duplicate, an unreachable provider, or a verification timeout.",
        checks=(
            "provider_transaction_id",
            "delivery_status",
            "recipient_or_target",
            "amount",
            "idempotency_key",
            "externally_visible_state",
        ),
        minimum_consistency=Consistency.SESSION,
        minimum_independence=Independence.OTHER_CLIENT,
        quorum_min=1,
        needs_before=True,
        needs_after_evidence=True,
        operation_required=True,
        find_at_close=True,
        identity_required=("target", "tenant", "account"),
        identity_essential=("target",),
        review_on=frozenset(
            {
                ReviewTrigger.DECLINED,
                ReviewTrigger.MISMATCH,
                ReviewTrigger.DUPLICATE,
                ReviewTrigger.UNREACHABLE,
                ReviewTrigger.TIMEOUT,
                ReviewTrigger.WRONG_TENANT,
            }
        ),
        repeated_mismatch_limit=1,
        unverifiable_allowed=UnverifiedClaim.HOLD_FOR_REVIEW,
        default_within_us=5 * _MINUTE_US,
        default_polls_us=_POLLS_US,
        default_timeout_us=_MINUTE_US,
    ),
    Depth(
        side_effect=SideEffect.CRITICAL_MUTATION,
        required_check="Several sources reconciled, the approval verified, the policy version checked, "
        "the ledger entry written, and the state verified after the action.",
        source="An immutable ledger, the security audit trail, a consensus system, the production "
        "controller, or the regulated system of record.",
        fallback="Fail closed, hold, freeze what is affected, and require an operator's review.",
        latency_tolerance="Often asynchronous.",
        review_trigger="Always: before the commit, or right after it where an emergency policy was used.",
        checks=(
            "multi_source_reconciliation",
            "approval",
            "policy_version",
            "audit_ledger_entry",
            "post_action_verification",
        ),
        minimum_consistency=Consistency.STRONG,
        minimum_independence=Independence.OTHER_SYSTEM,
        quorum_min=2,
        needs_before=True,
        needs_after_evidence=True,
        operation_required=True,
        find_at_close=True,
        identity_required=("target", "tenant", "actor", "permission_scope"),
        identity_essential=("target", "tenant", "actor"),
        review_on=frozenset(ReviewTrigger),
        repeated_mismatch_limit=1,
        unverifiable_allowed=UnverifiedClaim.HOLD_FOR_REVIEW,
        default_within_us=10 * _MINUTE_US,
        default_polls_us=_POLLS_US,
        default_timeout_us=_MINUTE_US,
    ),
)

DEPTHS: Final = MappingProxyType({row.side_effect: row for row in _ROWS})


def _plain(value: object) -> Json:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, frozenset):
        return [*sorted(str(each) for each in value)]
    if isinstance(value, str):
        return str(value)  # the member's text
    assert value is None or isinstance(value, int)
    return value


def depths_version(rows: Iterable[Depth]) -> str:
    """The hash of every field of every row."""
    return sha256_hex(envelope_bytes([{f.name: _plain(getattr(row, f.name)) for f in fields(row)} for row in rows]))


DEPTHS_VERSION: Final = depths_version(_ROWS)
"""The version of the verification policy, which every action names."""


def depth(side_effect: SideEffect) -> Depth:
    """The verification depth of a class."""
    return DEPTHS[side_effect]
