"""The recovery decision table: what is done about each finding in each situation.

Rows REC-01 to REC-21 are the action verification specification's ("Recovery decision table"), in the
order printed there; rows RB-* are ours, for the findings it has no row for and for the cases its
conditions leave open. The most severe finding is decided on; within a finding the first row that
matches wins. The engine calls `decide`; nothing else chooses a recovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from readback.domain.finding import Finding
from readback.domain.recovery_rule import (
    EFFECTS,
    ActionEffect,
    Condition,
    RecoveryAction,
    RecoveryTable,
    Reversal,
    Row,
    Situation,
    situations_of,
)
from readback.domain.side_effect import ReviewTrigger, SideEffect, depth

__all__ = [
    "DEFAULT_TABLE",
    "EFFECTS",
    "ActionEffect",
    "RecoveryAction",
    "RecoveryTable",
    "Reversal",
    "Row",
    "Situation",
    "decide",
    "review_trigger",
    "situations_of",
]

_F, _A = Finding, RecoveryAction
_YES, _NO = (True,), (False,)
_LOW = (SideEffect.READ_ONLY, SideEffect.EPHEMERAL_WRITE, SideEffect.LOW_RISK_INTERNAL)
_MEDIUM = (SideEffect.MEDIUM_RISK_WRITE,)
_HIGH = (SideEffect.HIGH_RISK_EXTERNAL, SideEffect.CRITICAL_MUTATION)
_READ = (SideEffect.READ_ONLY,)
_WRITES = tuple(one for one in SideEffect if one is not SideEffect.READ_ONLY)
_INTERNAL = (SideEffect.READ_ONLY, SideEffect.EPHEMERAL_WRITE)
_EXTERNAL = tuple(one for one in SideEffect if one not in _INTERNAL)
_REVERSIBLE = (Reversal.ROLLBACK_OPEN, Reversal.COMPENSABLE)
_ALWAYS: Final[Condition] = MappingProxyType({})
_IN_WINDOW: Final[Condition] = {"within_window": _YES}
_STALE: Final[Condition] = {"maybe_stale": _YES}
_GONE: Final[Condition] = {"dead": _YES, "late_open": _NO, "effect_shown": _NO}
"""No effect was seen and none can follow."""


def _seed(
    number: int, finding: Finding, action: RecoveryAction, label: str, why: str, *when: Condition
) -> Row:
    return Row(f"REC-{number:02d}", finding, when or (_ALWAYS,), action, label, why, ours=False)


def _own(row_id: str, finding: Finding, action: RecoveryAction, why: str, *when: Condition) -> Row:
    label = finding.value.replace("_", " ").capitalize()
    return Row(f"RB-{row_id}", finding, when or (_ALWAYS,), action, label, why, ours=True)


_SETTLED: Final = (
    _own("verified", _F.VERIFIED, _A.ACCEPT, "Every postcondition holds over the authoritative state."),
    _own(
        "no-op-allowed",
        _F.NO_OP_ALLOWED,
        _A.RECORD_NO_OP,
        "The state is as intended, and the contract permits that nothing had to change.",
    ),
    _own(
        "failed-before-effect",
        _F.FAILED_BEFORE_EFFECT,
        _A.FAIL,
        "Provably nothing was dispatched: there is nothing to verify and nothing to reverse.",
    ),
)

_MISMATCH = "Observation / Authority Mismatch"
_AUTHORITY_MISMATCH: Final = (
    _seed(
        1,
        _F.AUTHORITY_MISMATCH,
        _A.RETRY_VERIFICATION,
        _MISMATCH,
        "The write may still be propagating; nothing is told yet.",
        _IN_WINDOW,
    ),
    _seed(
        2,
        _F.AUTHORITY_MISMATCH,
        _A.FORCE_STRONG_READ,
        _MISMATCH,
        "A replica, cache or stale endpoint settles nothing: ask the source of record.",
        _STALE,
    ),
    _own(
        "mismatch-late",
        _F.AUTHORITY_MISMATCH,
        _A.KEEP_UNKNOWN,
        "No effect is shown, so there is nothing to reverse; but one may still land.",
        {"effect_shown": _NO, "late_open": _YES},
        {"effect_shown": _NO, "dead": _NO},
    ),
    _own(
        "mismatch-dead",
        _F.AUTHORITY_MISMATCH,
        _A.FAIL,
        "No effect is shown, the places where it could be were searched, and none can follow.",
        {**_GONE, "searched": _YES},
    ),
    _own(
        "mismatch-elsewhere",
        _F.AUTHORITY_MISMATCH,
        _A.HOLD_AND_ESCALATE,
        "The tool claims an effect that is not here, and nobody could look elsewhere.",
        {**_GONE, "searched": _NO},
    ),
    _seed(
        3,
        _F.AUTHORITY_MISMATCH,
        _A.COMPENSATE_OR_ROLL_BACK,
        _MISMATCH,
        "The action did not produce the required state, and what it did can be taken back.",
        {
            "effect_shown": _YES,
            "reversible": _REVERSIBLE,
            "pivot_passed": _NO,
            "side_effect": (*_LOW, *_MEDIUM),
        },
    ),
    _seed(
        4,
        _F.AUTHORITY_MISMATCH,
        _A.HOLD_AND_ESCALATE,
        _MISMATCH,
        "Irreversible or of high impact: recovery without a person is unsafe.",
        {"reversible": (Reversal.NONE,)},
        {"pivot_passed": _YES},
        {"side_effect": _HIGH},
    ),
)

_TIMEOUTS: Final = (
    _own(
        "timeout-read",
        _F.VERIFICATION_TIMEOUT,
        _A.REPORT_UNVERIFIED,
        "A read has no effect to hold; its answer is reported as unavailable.",
        {"side_effect": _READ},
    ),
    _seed(
        5,
        _F.VERIFICATION_TIMEOUT,
        _A.COMPENSATE_AND_STOP,
        "Verification Timeout",
        "The effect that was seen is taken back, so that it does not stay pending for ever.",
        {"reversible": _REVERSIBLE, "pivot_passed": _NO, "effect_shown": _YES},
    ),
    _own(
        "timeout-no-effect",
        _F.VERIFICATION_TIMEOUT,
        _A.KEEP_UNKNOWN,
        "Reversible, but no effect was seen: a compensation could reverse what never happened.",
        {
            "reversible": _REVERSIBLE,
            "pivot_passed": _NO,
            "effect_shown": _NO,
            "side_effect": (*_LOW, *_MEDIUM),
        },
    ),
    _own(
        "timeout-no-effect-high",
        _F.VERIFICATION_TIMEOUT,
        _A.HOLD_AND_ESCALATE,
        "Of high impact, reversible, and no effect was seen: a person decides.",
        {"reversible": _REVERSIBLE, "pivot_passed": _NO, "effect_shown": _NO, "side_effect": _HIGH},
    ),
    _seed(
        6,
        _F.VERIFICATION_TIMEOUT,
        _A.HOLD_AND_ESCALATE,
        "Verification Timeout",
        "The final state is unknown, and must not be tried again blindly.",
        {"pivot_passed": _YES},
        {"reversible": (Reversal.NONE,)},
    ),
    _seed(
        7,
        _F.PENDING_TIMEOUT,
        _A.POLL_IDEMPOTENCY_RECORD,
        "Pending Timeout",
        "The first attempt may still complete; its record says when.",
        {"key_record": _YES},
    ),
    _own(
        "pending-in-window",
        _F.PENDING_TIMEOUT,
        _A.RETRY_VERIFICATION,
        "The window is open: the effect may yet be read back.",
        {"key_record": _NO, "within_window": _YES},
    ),
    _seed(
        8,
        _F.PENDING_TIMEOUT,
        _A.FREEZE_AND_RECONCILE,
        "Pending Timeout",
        "A second attempt could leave a second effect.",
        {"key_record": _NO, "side_effect": _WRITES},
    ),
    _own(
        "pending-read",
        _F.PENDING_TIMEOUT,
        _A.REPORT_UNVERIFIED,
        "A read leaves no effect; its answer is reported as unavailable.",
        {"key_record": _NO, "side_effect": _READ},
    ),
)

_PARTIAL_AND_STALE: Final = (
    _own(
        "partial-no-effect",
        _F.PARTIAL_SUCCESS,
        _A.KEEP_UNKNOWN,
        "A part is said to be done, but no reading shows it.",
        {"effect_shown": _NO, "pivot_passed": _NO},
    ),
    _seed(
        9,
        _F.PARTIAL_SUCCESS,
        _A.BACKWARD_COMPENSATION,
        "Partial Success",
        "Before the pivot the completed steps are reversed.",
        {"pivot_passed": _NO, "effect_shown": _YES, "reversible": _REVERSIBLE},
    ),
    _own(
        "partial-irreversible",
        _F.PARTIAL_SUCCESS,
        _A.HOLD_AND_ESCALATE,
        "Before the pivot, but nothing can take the completed steps back.",
        {"pivot_passed": _NO, "effect_shown": _YES, "reversible": (Reversal.NONE,)},
    ),
    _seed(
        10,
        _F.PARTIAL_SUCCESS,
        _A.FORWARD_RECOVERY,
        "Partial Success",
        "After the pivot the remaining idempotent steps are completed.",
        {"pivot_passed": _YES},
    ),
    _seed(
        11,
        _F.STALE_STATE,
        _A.REFRESH_AND_REPLAN,
        "Stale State Error",
        "Another actor changed the state: the plan must start from what is there now.",
    ),
)

_DUPLICATE_AND_TARGET: Final = (
    _seed(
        12,
        _F.DUPLICATE_SIDE_EFFECT,
        _A.FREEZE_AND_ALERT,
        "Duplicate Side Effect",
        "A second effect of such an operation may need incident handling and compensation.",
        {"side_effect": _HIGH},
    ),
    _seed(
        13,
        _F.DUPLICATE_SIDE_EFFECT,
        _A.RECORD_IDEMPOTENT_REPLAY,
        "Duplicate Side Effect",
        "The state is equivalent and the contract allows it; the trace records the duplicate.",
        {"equivalent_duplicate": _YES},
    ),
    _own(
        "duplicate",
        _F.DUPLICATE_SIDE_EFFECT,
        _A.FREEZE_AND_RECONCILE,
        "One operation has two effects, and no contract calls that equivalent.",
        {"equivalent_duplicate": _NO},
    ),
    _seed(
        14,
        _F.WRONG_TARGET,
        _A.FREEZE_AND_ALARM,
        "Wrong Target Modified",
        "It may be a security incident or a broken data boundary.",
        {"side_effect": _WRITES},
    ),
    _own(
        "wrong-target-read",
        _F.WRONG_TARGET,
        _A.HOLD_AND_ESCALATE,
        "A read crossed a data boundary: nothing was modified, but a person must know.",
        {"side_effect": _READ},
    ),
    _own(
        "hidden-effect-high",
        _F.HIDDEN_SIDE_EFFECT,
        _A.FREEZE_AND_ALERT,
        "A change outside the frame of an action of high impact is an incident.",
        {"side_effect": _HIGH},
    ),
    _own(
        "hidden-effect",
        _F.HIDDEN_SIDE_EFFECT,
        _A.HOLD_AND_ESCALATE,
        "The action changed more than it may; no compensation is written for that.",
    ),
)

_UNVERIFIABLE_AND_OUTAGE: Final = (
    _seed(
        15,
        _F.UNVERIFIABLE,
        _A.REPORT_UNVERIFIED,
        "Unverifiable Result",
        "Reported as unverified; a verified completion is not claimed.",
        {"side_effect": _LOW},
    ),
    _seed(
        16,
        _F.UNVERIFIABLE,
        _A.HOLD_AND_ESCALATE,
        "Unverifiable Result",
        "What has a high impact must be verified independently.",
        {"side_effect": _HIGH},
    ),
    _own(
        "unverifiable-medium",
        _F.UNVERIFIABLE,
        _A.HOLD_AND_ESCALATE,
        "An operational write is too much to be left unverified.",
        {"side_effect": _MEDIUM},
    ),
    _seed(
        17,
        _F.COMPENSATION_FAILED,
        _A.REVIEW_AND_INCIDENT,
        "Compensation Failure",
        "The state may stay inconsistent.",
        {"side_effect": _EXTERNAL},
    ),
    _own(
        "compensation-failed-local",
        _F.COMPENSATION_FAILED,
        _A.HOLD_AND_ESCALATE,
        "Nobody outside saw it, but the workspace is not as it was.",
        {"side_effect": _INTERNAL},
    ),
    _seed(
        18,
        _F.PROVIDER_OUTAGE,
        _A.DEFER_OR_FAIL,
        "Provider Outage",
        "Nothing is executed into an outage in which it cannot be verified.",
        {"executed": _NO},
    ),
    _seed(
        19,
        _F.PROVIDER_OUTAGE,
        _A.HOLD_PENDING,
        "Provider Outage",
        "Verification is tried again; nothing is executed twice, and unknown stays unknown.",
        {"executed": _YES},
    ),
    _seed(
        20,
        _F.POLICY_VERSION_MISMATCH,
        _A.REVALIDATE_APPROVAL,
        "Policy Version Mismatch",
        "What the old policy approved may not be approved any more.",
        {"executed": _NO},
    ),
    _own(
        "policy-after",
        _F.POLICY_VERSION_MISMATCH,
        _A.HOLD_AND_ESCALATE,
        "It was executed under a policy that no longer holds: a person decides what that means.",
        {"executed": _YES},
    ),
    _seed(
        21,
        _F.APPROVAL_MISMATCH,
        _A.FAIL_CLOSED,
        "Approval Token Mismatch",
        "A replayed approval or a substituted payload must not get through.",
        {"executed": _NO},
    ),
    _own(
        "approval-after",
        _F.APPROVAL_MISMATCH,
        _A.FREEZE_AND_ALARM,
        "Something was executed that nobody approved.",
        {"executed": _YES},
    ),
)


def _look_again(name: str, finding: Finding) -> tuple[Row, Row]:
    """Re-verify comes before anything else: again within the window, then strongly."""
    return (
        _own(
            f"{name}-in-window",
            finding,
            _A.RETRY_VERIFICATION,
            "The window is open: the next reading may say otherwise.",
            _IN_WINDOW,
        ),
        _own(f"{name}-stale", finding, _A.FORCE_STRONG_READ, "Only a strong reading settles it.", _STALE),
    )


_NO_EFFECT: Final = (
    *_look_again("no-op", _F.NO_OP_FAILURE),
    _own(
        "no-op-late",
        _F.NO_OP_FAILURE,
        _A.KEEP_UNKNOWN,
        "Nothing has changed yet, but an effect may still land.",
        {"late_open": _YES},
        {"dead": _NO},
    ),
    _own(
        "no-op-failed",
        _F.NO_OP_FAILURE,
        _A.FAIL,
        "Nothing changed here or elsewhere, and nothing can follow.",
        {"searched": _YES},
    ),
    _own(
        "no-op-elsewhere",
        _F.NO_OP_FAILURE,
        _A.HOLD_AND_ESCALATE,
        "Nothing changed here, and nobody could look elsewhere.",
    ),
    *_look_again("missing", _F.TARGET_MISSING),
    _own(
        "missing-late",
        _F.TARGET_MISSING,
        _A.KEEP_UNKNOWN,
        "The target is missing, but an effect may still land.",
        {"late_open": _YES},
        {"dead": _NO},
    ),
    _own("missing", _F.TARGET_MISSING, _A.FAIL, "There is no such target: it fails, and says so."),
    _own(
        "refuted-stale",
        _F.REFUTED_DEAD,
        _A.FORCE_STRONG_READ,
        "Only a strong reading refutes.",
        _STALE,
    ),
    _own(
        "refuted-late",
        _F.REFUTED_DEAD,
        _A.KEEP_UNKNOWN,
        "It is not dead yet: absence is not failure.",
        {"late_open": _YES},
        {"dead": _NO},
    ),
    _own(
        "refuted-effect",
        _F.REFUTED_DEAD,
        _A.HOLD_AND_ESCALATE,
        "It is said to have no effect, and a reading shows one: the evidence contradicts itself.",
        {"effect_shown": _YES},
    ),
    _own(
        "refuted-retry",
        _F.REFUTED_DEAD,
        _A.RETRY_SAME_KEY,
        "Refuted, dead, and the tool executes one key once: the same attempt may be made again.",
        {
            **_GONE,
            "maybe_stale": _NO,
            "key_honoured": _YES,
            "repeated": _NO,
            "side_effect": tuple(one for one in _WRITES if one is not SideEffect.CRITICAL_MUTATION),
        },
    ),
    _own("refuted", _F.REFUTED_DEAD, _A.FAIL, "There is no effect and none can follow."),
)

_WRONG_EFFECT: Final = (
    *_look_again("value", _F.VALUE_MISMATCH),
    _own(
        "value-reverse",
        _F.VALUE_MISMATCH,
        _A.COMPENSATE_OR_ROLL_BACK,
        "Our effect is there, is not as required, and can be taken back.",
        {
            "effect_shown": _YES,
            "reversible": _REVERSIBLE,
            "pivot_passed": _NO,
            "side_effect": (*_LOW, *_MEDIUM),
        },
    ),
    _own(
        "value-hold",
        _F.VALUE_MISMATCH,
        _A.HOLD_AND_ESCALATE,
        "The values are wrong, and it is irreversible, of high impact, or not shown to be ours.",
    ),
    _own(
        "required-reverse",
        _F.COMPENSATION_REQUIRED,
        _A.BACKWARD_COMPENSATION,
        "A committed effect has to be reversed, and can be.",
        {
            "effect_shown": _YES,
            "reversible": _REVERSIBLE,
            "pivot_passed": _NO,
            "side_effect": tuple(one for one in SideEffect if one is not SideEffect.CRITICAL_MUTATION),
        },
    ),
    _own(
        "required-late",
        _F.COMPENSATION_REQUIRED,
        _A.KEEP_UNKNOWN,
        "No effect is shown, so there is nothing to reverse; but one may still land.",
        {"effect_shown": _NO, "late_open": _YES},
        {"effect_shown": _NO, "dead": _NO},
    ),
    _own(
        "required-nothing",
        _F.COMPENSATION_REQUIRED,
        _A.FAIL,
        "There is nothing to reverse and nothing can follow.",
        _GONE,
    ),
    _own(
        "required-hold",
        _F.COMPENSATION_REQUIRED,
        _A.HOLD_AND_ESCALATE,
        "It has to be reversed and no rule may do that alone.",
    ),
)

_OPEN: Final = (
    _own(
        "propagation-in-window",
        _F.PROPAGATION_DELAY,
        _A.RETRY_VERIFICATION,
        "It is committed, and what depends on it lags.",
        _IN_WINDOW,
    ),
    _own(
        "propagation-late",
        _F.PROPAGATION_DELAY,
        _A.HOLD_PENDING,
        "It is kept pending and looked at more slowly, until the deadline.",
    ),
    *_look_again("unknown", _F.UNKNOWN),
    _own(
        "unknown-record",
        _F.UNKNOWN,
        _A.POLL_IDEMPOTENCY_RECORD,
        "The record under the key may settle it.",
        {"key_record": _YES, "late_open": _YES},
    ),
    _own(
        "unknown-high",
        _F.UNKNOWN,
        _A.HOLD_AND_ESCALATE,
        "Unknown and of high impact: a person decides.",
        {"side_effect": _HIGH},
    ),
    _own(
        "unknown",
        _F.UNKNOWN,
        _A.KEEP_UNKNOWN,
        "It stays unknown, and blocks a second execution.",
    ),
    _own(
        "verifier-in-window",
        _F.VERIFIER_ERROR,
        _A.RETRY_VERIFICATION,
        "The verifier may recover while the window is open.",
        _IN_WINDOW,
    ),
    _own(
        "verifier-repeated",
        _F.VERIFIER_ERROR,
        _A.REVIEW_AND_INCIDENT,
        "A verifier that keeps failing is an incident.",
        {"repeated": _YES},
    ),
    _own(
        "verifier-high",
        _F.VERIFIER_ERROR,
        _A.HOLD_AND_ESCALATE,
        "Undetermined and of high impact: a person decides.",
        {"side_effect": _HIGH},
    ),
    _own(
        "verifier",
        _F.VERIFIER_ERROR,
        _A.KEEP_UNKNOWN,
        "A broken verifier says nothing about the action.",
    ),
)

DEFAULT_TABLE: Final = RecoveryTable(
    (
        *_AUTHORITY_MISMATCH,
        *_TIMEOUTS,
        *_PARTIAL_AND_STALE,
        *_DUPLICATE_AND_TARGET,
        *_UNVERIFIABLE_AND_OUTAGE,
        *_SETTLED,
        *_NO_EFFECT,
        *_WRONG_EFFECT,
        *_OPEN,
    )
)
"""The table that is used unless an operator brings another."""


def decide(finding: Finding, situation: Situation, table: RecoveryTable = DEFAULT_TABLE) -> Row:
    """The row that says what is done. Deterministic: the same arguments always give the same row."""
    return table.decide(finding, situation)


_TRIGGER_OF: Final[Mapping[Finding, ReviewTrigger]] = MappingProxyType(
    {
        _F.AUTHORITY_MISMATCH: ReviewTrigger.MISMATCH,
        _F.VALUE_MISMATCH: ReviewTrigger.MISMATCH,
        _F.NO_OP_FAILURE: ReviewTrigger.MISMATCH,
        _F.HIDDEN_SIDE_EFFECT: ReviewTrigger.MISMATCH,
        _F.PARTIAL_SUCCESS: ReviewTrigger.PARTIAL,
        _F.STALE_STATE: ReviewTrigger.STALE,
        _F.DUPLICATE_SIDE_EFFECT: ReviewTrigger.DUPLICATE,
        _F.WRONG_TARGET: ReviewTrigger.WRONG_TENANT,
        _F.PROVIDER_OUTAGE: ReviewTrigger.UNREACHABLE,
        _F.VERIFICATION_TIMEOUT: ReviewTrigger.TIMEOUT,
        _F.PENDING_TIMEOUT: ReviewTrigger.TIMEOUT,
    }
)


def review_trigger(finding: Finding, situation: Situation) -> ReviewTrigger | None:
    """Which of the class's review triggers a finding pulls, beside what the row itself opens.

    None while verification is still open: a mismatch within the window is not one yet.
    """
    if situation.within_window or (situation.maybe_stale and finding is not Finding.VERIFIED):
        return None
    wanted = depth(situation.side_effect).review_on
    if ReviewTrigger.ALWAYS in wanted:
        return ReviewTrigger.ALWAYS
    if situation.repeated and finding is not Finding.VERIFIED and ReviewTrigger.REPEATED_MISMATCH in wanted:
        return ReviewTrigger.REPEATED_MISMATCH
    trigger = _TRIGGER_OF.get(finding)
    return trigger if trigger in wanted else None
