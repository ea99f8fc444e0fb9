"""The floor below all recovery tables: the permitted actions for each finding.

`recovery.rule` checks every table, an operator's included. No table may repeat blindly, report an unverified success,
or report an unknown result as failed. No table may reverse without a reading of the effect, or omit a review, freeze or
incident demanded by the action verification specification. A table may be stricter, for example ask a person about any
executed action.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.finding import Finding
from readback.domain.recovery.action import RecoveryAction
from readback.domain.recovery.row import (
    ALWAYS,
    BELOW_CRITICAL,
    GONE,
    HIGH,
    IN_WINDOW,
    INTERNAL,
    LOW,
    MEDIUM,
    MIDWAY_NOT_DEAD,
    NO,
    READ,
    RESEND,
    REVERSIBLE,
    STALE,
    TAKE_BACK,
    YES,
    Condition,
)
from readback.domain.side_effect import SideEffect

_A, _F = RecoveryAction, Finding
Actions = frozenset[RecoveryAction]


@dataclass(frozen=True, slots=True)
class Allowed:
    """Actions permitted where any of the conditions is met."""

    actions: Actions
    when: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Floor:
    """The permitted actions for a finding. `why`: the rule, for the author of a rejected row."""

    why: str
    allowed: tuple[Allowed, ...]


def _may(actions: Actions | RecoveryAction, *when: Condition) -> Allowed:
    return Allowed(frozenset({actions}) if isinstance(actions, RecoveryAction) else actions, when or (ALWAYS,))


ALARMS: Final = frozenset({_A.FREEZE_AND_ALERT, _A.FREEZE_AND_ALARM})
FREEZES: Final = ALARMS | {_A.FREEZE_AND_RECONCILE}
INCIDENTS: Final = ALARMS | {_A.REVIEW_AND_INCIDENT}
REVIEWS: Final = FREEZES | {_A.HOLD_AND_ESCALATE, _A.REVIEW_AND_INCIDENT}
REVERSALS: Final = frozenset({_A.COMPENSATE_OR_ROLL_BACK, _A.COMPENSATE_AND_STOP, _A.BACKWARD_COMPENSATION})
FAILS: Final = frozenset({_A.FAIL, _A.REFRESH_AND_REPLAN})
CLEAN_FAILS: Final = frozenset({_A.FAIL, _A.FAIL_CLOSED})

_BELOW_HIGH: Final = tuple(one for one in SideEffect if one not in HIGH)
_MODEST: Final[Condition] = {"side_effect": _BELOW_HIGH}
_READS: Final[Condition] = {"side_effect": READ}
_UNSHOWN: Final[Condition] = {"effect_shown": NO}
_DONE: Final[Condition] = {"executed": YES}
_NOT_DONE: Final[Condition] = {"executed": NO}
_FINAL: Final[Condition] = {"within_window": NO, "maybe_stale": NO}
_FINALLY_GONE: Final[Condition] = {**GONE, **_FINAL}
_FINALLY_WRONG: Final[Condition] = {**TAKE_BACK, **_FINAL, "side_effect": (*LOW, *MEDIUM)}
_REVIEWED: Final = _may(REVIEWS)
# Repeated reads are bounded: by the window, by the remaining readers, by the late window.
_LOOKS: Final = (
    _may(_A.RETRY_VERIFICATION, IN_WINDOW),
    _may(_A.HOLD_PENDING, IN_WINDOW),
    _may(_A.FORCE_STRONG_READ, STALE),
    _may(_A.POLL_IDEMPOTENCY_RECORD, {"key_record": YES, "late_open": YES}),
)

_RESENDS: Final = _may(_A.DISPATCH_AGAIN, RESEND)

FLOOR: Final[Mapping[Finding, Floor]] = MappingProxyType(
    {
        _F.VERIFIED: Floor(
            "What is verified is accepted, or put before a person.",
            (_may(_A.ACCEPT), _REVIEWED),
        ),
        _F.NO_OP_ALLOWED: Floor(
            "A no-op that is allowed is recorded as one, or put before a person.",
            (_may(_A.RECORD_NO_OP), _REVIEWED),
        ),
        _F.FAILED_BEFORE_EFFECT: Floor("What was never dispatched has failed.", (_may(_A.FAIL),)),
        _F.AUTHORITY_MISMATCH: Floor(
            "It is looked at again while that may settle it; then it fails only where no effect is shown, the places "
            "where it could be were searched and none can follow; a shown effect is reversed or held, and of high "
            "impact always held.",
            (
                *_LOOKS,
                _RESENDS,
                _may(_A.KEEP_UNKNOWN, _UNSHOWN),
                _may(FAILS, {**_FINALLY_GONE, "searched": YES}),
                _may(REVERSALS, _FINALLY_WRONG),
                _REVIEWED,
            ),
        ),
        _F.VERIFICATION_TIMEOUT: Floor(
            "Its final state is unknown: a shown effect is reversed or held, what is irreversible or of high impact "
            "goes to a person, and only a read is reported as unverified.",
            (
                *_LOOKS[2:],
                _may(REVERSALS, {**TAKE_BACK, "side_effect": BELOW_CRITICAL}),
                _may(
                    _A.KEEP_UNKNOWN,
                    _READS,
                    {**_UNSHOWN, **_MODEST, "reversible": REVERSIBLE, "pivot_passed": NO},
                ),
                _may(_A.REPORT_UNVERIFIED, _READS),
                _REVIEWED,
            ),
        ),
        _F.PENDING_TIMEOUT: Floor(
            "The first attempt may still complete: its record is polled, or the action is frozen for a person.",
            (
                _may(_A.POLL_IDEMPOTENCY_RECORD, {"key_record": YES}),
                _LOOKS[0],
                _may(frozenset({_A.KEEP_UNKNOWN, _A.REPORT_UNVERIFIED}), {**_READS, "key_record": NO}),
                _may(REVIEWS, {"key_record": YES}, _READS),
                _may(FREEZES),
            ),
        ),
        _F.PARTIAL_SUCCESS: Floor(
            "Before the pivot what is shown is reversed or held; after it the rest is completed or held.",
            (
                _may(_A.KEEP_UNKNOWN, {**_UNSHOWN, "pivot_passed": NO}),
                _may(REVERSALS, TAKE_BACK),
                _may(_A.FORWARD_RECOVERY, {"pivot_passed": YES}),
                _REVIEWED,
            ),
        ),
        _F.STALE_STATE: Floor(
            "Another actor changed it: it is planned anew or held, and never reversed or repeated.",
            (*_LOOKS[:3], _may(_A.REFRESH_AND_REPLAN), _may(CLEAN_FAILS, _NOT_DONE), _REVIEWED),
        ),
        _F.DUPLICATE_SIDE_EFFECT: Floor(
            "A second effect is frozen, and of high impact raises the alarm; only what the contract calls equivalent "
            "below that is a replay.",
            (
                _may(ALARMS),
                _may(_A.FREEZE_AND_RECONCILE, _MODEST),
                _may(_A.RECORD_IDEMPOTENT_REPLAY, {**_MODEST, "equivalent_duplicate": YES}),
            ),
        ),
        _F.WRONG_TARGET: Floor(
            "What landed outside the authorised scope is frozen and raises the alarm; a read there goes to a person.",
            (_may(ALARMS), _may(REVIEWS, _READS)),
        ),
        _F.HIDDEN_SIDE_EFFECT: Floor(
            "A change outside the frame goes to a person, and of high impact is frozen and raises the alarm.",
            (_may(ALARMS), _may(REVIEWS, _MODEST)),
        ),
        _F.UNVERIFIABLE: Floor(
            "Only a low-risk action may be reported as unverified; everything above it goes to a person.",
            (
                _may(frozenset({_A.REPORT_UNVERIFIED, _A.KEEP_UNKNOWN}), {"side_effect": LOW}),
                _REVIEWED,
            ),
        ),
        _F.COMPENSATION_FAILED: Floor(
            "A failed reversal goes to a person, and what others may have seen is an incident.",
            (_may(INCIDENTS), _may(REVIEWS, {"side_effect": INTERNAL})),
        ),
        _F.PROVIDER_OUTAGE: Floor(
            "Nothing is executed into an outage; what was executed is held and verified again, of high impact never "
            "left as unknown.",
            (
                _may(CLEAN_FAILS | {_A.DEFER_OR_FAIL}, _NOT_DONE),
                _may(_A.HOLD_PENDING, _DONE),
                *(_may(one.actions, {**one.when[0], **_DONE}) for one in _LOOKS),
                _may(_A.KEEP_UNKNOWN, {**_MODEST, **_DONE}),
                _may(_A.REPORT_UNVERIFIED, {**_READS, **_DONE}),
                _may(REVIEWS, _DONE),
            ),
        ),
        _F.POLICY_VERSION_MISMATCH: Floor(
            "Before execution the approval is validated anew or it fails closed; after it a person decides.",
            (_may(frozenset({_A.REVALIDATE_APPROVAL, _A.FAIL_CLOSED}), _NOT_DONE), _may(REVIEWS, _DONE)),
        ),
        _F.APPROVAL_MISMATCH: Floor(
            "Before execution it fails closed; what was executed without approval is frozen and raises the alarm.",
            (_may(_A.FAIL_CLOSED, _NOT_DONE), _may(ALARMS, _DONE)),
        ),
        _F.NO_OP_FAILURE: Floor(
            "It fails only where no effect is shown, the places where it could be were searched and none can follow.",
            (*_LOOKS, _RESENDS, _may(_A.KEEP_UNKNOWN), _may(FAILS, {**_FINALLY_GONE, "searched": YES}), _REVIEWED),
        ),
        _F.TARGET_MISSING: Floor(
            "It fails only where no effect is shown, the places where it could be were searched and none can follow.",
            (*_LOOKS, _RESENDS, _may(_A.KEEP_UNKNOWN), _may(FAILS, {**_FINALLY_GONE, "searched": YES}), _REVIEWED),
        ),
        _F.REFUTED_DEAD: Floor(
            "It is tried again only where a strong reading refuted it, nothing can follow, the tool honours the key "
            "and the class is below critical; it fails only where no effect is shown and none can follow.",
            (
                *_LOOKS[2:],
                _may(_A.KEEP_UNKNOWN),
                _may(
                    _A.RETRY_SAME_KEY,
                    {**_FINALLY_GONE, "within_window": (*NO, *YES), "key_honoured": YES, "side_effect": BELOW_CRITICAL},
                ),
                _may(FAILS, {**GONE, "maybe_stale": NO}),
                _REVIEWED,
            ),
        ),
        _F.VALUE_MISMATCH: Floor(
            "A wrong value is reversed where it is ours, reversible and below high impact, and else held; what is on "
            "its way and not dead is looked at again.",
            (*_LOOKS[:3], _may(_A.KEEP_UNKNOWN, *MIDWAY_NOT_DEAD), _may(REVERSALS, _FINALLY_WRONG), _REVIEWED),
        ),
        _F.DRIFT: Floor(
            "What was verified and drifted since goes to a person: it is neither executed again nor taken back.",
            (_REVIEWED,),
        ),
        _F.COMPENSATION_REQUIRED: Floor(
            "What has to be reversed is reversed where a reading shows it, or held; it fails only where there is "
            "nothing and nothing can follow.",
            (
                _may(REVERSALS, {**TAKE_BACK, "side_effect": BELOW_CRITICAL}),
                _may(_A.KEEP_UNKNOWN, _UNSHOWN),
                _may(_A.FAIL, GONE),
                _REVIEWED,
            ),
        ),
        _F.PROPAGATION_DELAY: Floor(
            "It is kept pending and verified again, or held.",
            (*_LOOKS, _may(_A.HOLD_PENDING), _REVIEWED),
        ),
        _F.UNKNOWN: Floor(
            "Unknown is neither success nor failure: it is looked at again or kept; of high impact a person decides.",
            (*_LOOKS, _may(_A.KEEP_UNKNOWN, _MODEST), _may(_A.REPORT_UNVERIFIED, _READS), _REVIEWED),
        ),
        _F.VERIFIER_ERROR: Floor(
            "A broken verifier says nothing of the action: of high impact it goes to a person, and where it keeps "
            "failing it is an incident.",
            (
                *_LOOKS,
                _may(_A.KEEP_UNKNOWN, {**_MODEST, "repeated": NO}),
                _may(_A.REPORT_UNVERIFIED, {**_READS, "repeated": NO}),
                _may(CLEAN_FAILS, _NOT_DONE),
                _may(REVIEWS, {"repeated": NO}, IN_WINDOW),
                _may(INCIDENTS),
            ),
        ),
    }
)
"""The permitted actions for each finding (a table of ours, after the specification's rows and side-effect classes)."""

SUCCESS_ONLY_FROM: Final[Mapping[RecoveryAction, Finding]] = MappingProxyType(
    {
        _A.ACCEPT: _F.VERIFIED,
        _A.RECORD_NO_OP: _F.NO_OP_ALLOWED,
        _A.RECORD_IDEMPOTENT_REPLAY: _F.DUPLICATE_SIDE_EFFECT,
    }
)

DEMANDED: Final[Mapping[RecoveryAction, Condition]] = MappingProxyType(
    {
        **dict.fromkeys(REVERSALS, TAKE_BACK),
        _A.RETRY_SAME_KEY: {**GONE, "key_honoured": YES, "maybe_stale": NO, "side_effect": BELOW_CRITICAL},
        _A.DISPATCH_AGAIN: RESEND,
        _A.RECORD_IDEMPOTENT_REPLAY: {"equivalent_duplicate": YES},
        _A.FORWARD_RECOVERY: {"pivot_passed": YES},
        _A.DEFER_OR_FAIL: _NOT_DONE,
        _A.REVALIDATE_APPROVAL: _NOT_DONE,
        _A.FORCE_STRONG_READ: STALE,
    }
)
"""Minimum conditions in a row itself for choosing the action, regardless of the rows above."""
