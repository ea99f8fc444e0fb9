"""Rows for the findings in the action verification specification's recovery table.

A line beginning with a number is the specification's row of the same number, in its order. A line beginning with a name
is ours and covers a case left open by the specification's conditions. First match wins.
"""

from __future__ import annotations

from typing import Final

from readback.domain.finding import Finding
from readback.domain.recovery.action import RecoveryAction
from readback.domain.recovery.row import (
    BELOW_CRITICAL,
    CRITICAL,
    EXTERNAL,
    GONE,
    HIGH,
    IN_WINDOW,
    INTERNAL,
    LOW,
    MEDIUM,
    NO,
    NOTHING_SHOWN,
    READ,
    STALE,
    TAKE_BACK,
    UNSHOWN_NOT_DEAD,
    WRITES,
    YES,
    Reversal,
    own_rows,
    resend,
    rows,
)

_F, _A = Finding, RecoveryAction

PRINTED_ROWS: Final = (
    *rows(
        _F.AUTHORITY_MISMATCH,
        "Observation / Authority Mismatch",
        resend("mismatch"),
        (1, _A.RETRY_VERIFICATION, "The write may still be propagating. No result is reported yet.", IN_WINDOW),
        (2, _A.FORCE_STRONG_READ, "A replica or cache settles nothing: ask the source of record.", STALE),
        (
            "mismatch-late",
            _A.KEEP_UNKNOWN,
            "No effect is shown, so there is nothing to reverse. An effect may still land.",
            *UNSHOWN_NOT_DEAD,
        ),
        (
            "mismatch-dead",
            _A.FAIL,
            "No effect is shown, all other places were searched, and no effect can follow.",
            {**GONE, "searched": YES},
        ),
        (
            "mismatch-elsewhere",
            _A.HOLD_AND_ESCALATE,
            "The tool claims an effect, the effect is not here, and other places could not be searched.",
            {**GONE, "searched": NO},
        ),
        (
            3,
            _A.COMPENSATE_OR_ROLL_BACK,
            "The action did not produce the required state, and its effect is reversible.",
            {**TAKE_BACK, "side_effect": (*LOW, *MEDIUM)},
        ),
        (
            4,
            _A.HOLD_AND_ESCALATE,
            "Irreversible or of high impact: recovery without a person is unsafe.",
            {"reversible": (Reversal.NONE,)},
            {"pivot_passed": YES},
            {"side_effect": HIGH},
        ),
    ),
    *rows(
        _F.VERIFICATION_TIMEOUT,
        "Verification Timeout",
        (
            "timeout-read",
            _A.REPORT_UNVERIFIED,
            "A read has no effect to hold; its answer is reported as unavailable.",
            {"side_effect": READ},
        ),
        (
            5,
            _A.COMPENSATE_AND_STOP,
            "The visible effect is reversed, so that the action does not stay pending for ever.",
            {**TAKE_BACK, "side_effect": BELOW_CRITICAL},
        ),
        (
            "timeout-no-effect",
            _A.KEEP_UNKNOWN,
            "Reversible, but no effect was seen: a compensation could reverse an effect that never happened.",
            {**NOTHING_SHOWN, "side_effect": (*LOW, *MEDIUM)},
        ),
        (
            "timeout-hold",
            _A.HOLD_AND_ESCALATE,
            "Of high impact and no effect was seen, or critical: a person decides.",
            {**NOTHING_SHOWN, "side_effect": HIGH},
            {"side_effect": CRITICAL},
        ),
        (
            6,
            _A.HOLD_AND_ESCALATE,
            "The final state is unknown, and a blind retry is not permitted.",
            {"pivot_passed": YES},
            {"reversible": (Reversal.NONE,)},
        ),
    ),
    *rows(
        _F.PENDING_TIMEOUT,
        "Pending Timeout",
        (7, _A.POLL_IDEMPOTENCY_RECORD, "The first attempt may still complete.", {"key_record": YES}),
        (
            "pending-in-window",
            _A.RETRY_VERIFICATION,
            "The window is open: the effect may yet be read back.",
            {"key_record": NO, "within_window": YES},
        ),
        (8, _A.FREEZE_AND_RECONCILE, "A retry could leave a second effect.", {"key_record": NO, "side_effect": WRITES}),
        (
            "pending-read",
            _A.REPORT_UNVERIFIED,
            "A read leaves no effect; its answer is reported as unavailable.",
            {"key_record": NO, "side_effect": READ},
        ),
    ),
    *rows(
        _F.PARTIAL_SUCCESS,
        "Partial Success",
        (
            "partial-no-effect",
            _A.KEEP_UNKNOWN,
            "The tool reports a finished part, but no reading shows the part.",
            {"effect_shown": NO, "pivot_passed": NO},
        ),
        (9, _A.BACKWARD_COMPENSATION, "Before the pivot the completed steps are reversed.", TAKE_BACK),
        (
            "partial-irreversible",
            _A.HOLD_AND_ESCALATE,
            "Before the pivot, but nothing can take the completed steps back.",
            {"pivot_passed": NO, "effect_shown": YES, "reversible": (Reversal.NONE,)},
        ),
        (10, _A.FORWARD_RECOVERY, "After the pivot the remaining steps are completed.", {"pivot_passed": YES}),
    ),
    *rows(
        _F.STALE_STATE,
        "Stale State Error",
        (11, _A.REFRESH_AND_REPLAN, "Another actor changed the state. The plan must start from the present state."),
    ),
    *rows(
        _F.DUPLICATE_SIDE_EFFECT,
        "Duplicate Side Effect",
        (
            12,
            _A.FREEZE_AND_ALERT,
            "A second effect of such an operation may need incident handling and compensation.",
            {"side_effect": HIGH},
        ),
        (
            13,
            _A.RECORD_IDEMPOTENT_REPLAY,
            "The state is equivalent and the contract allows it; the trace records the duplicate.",
            {"equivalent_duplicate": YES},
        ),
        (
            "duplicate",
            _A.FREEZE_AND_RECONCILE,
            "One operation has two effects, and no contract calls that equivalent.",
            {"equivalent_duplicate": NO},
        ),
    ),
    *rows(
        _F.WRONG_TARGET,
        "Wrong Target Modified",
        (14, _A.FREEZE_AND_ALARM, "It may be a security incident or a broken data boundary.", {"side_effect": WRITES}),
        (
            "wrong-target-read",
            _A.HOLD_AND_ESCALATE,
            "A read crossed a data boundary: nothing was modified, but a person must know.",
            {"side_effect": READ},
        ),
    ),
    *own_rows(
        _F.HIDDEN_SIDE_EFFECT,
        (
            "hidden-effect-high",
            _A.FREEZE_AND_ALERT,
            "A change outside the frame of an action of high impact is an incident.",
            {"side_effect": HIGH},
        ),
        (
            "hidden-effect",
            _A.HOLD_AND_ESCALATE,
            "The action made a change outside its frame, and no compensation covers the change.",
        ),
    ),
    *rows(
        _F.UNVERIFIABLE,
        "Unverifiable Result",
        (
            15,
            _A.REPORT_UNVERIFIED,
            "Reported as unverified; a verified completion is not claimed.",
            {"side_effect": LOW},
        ),
        (16, _A.HOLD_AND_ESCALATE, "High impact must be verified independently.", {"side_effect": HIGH}),
        (
            "unverifiable-medium",
            _A.HOLD_AND_ESCALATE,
            "An operational write is too much to be left unverified.",
            {"side_effect": MEDIUM},
        ),
    ),
    *rows(
        _F.COMPENSATION_FAILED,
        "Compensation Failure",
        (17, _A.REVIEW_AND_INCIDENT, "The state may stay inconsistent.", {"side_effect": EXTERNAL}),
        (
            "compensation-failed-local",
            _A.HOLD_AND_ESCALATE,
            "The failure stayed inside, but the workspace is not restored.",
            {"side_effect": INTERNAL},
        ),
    ),
    *rows(
        _F.PROVIDER_OUTAGE,
        "Provider Outage",
        (
            18,
            _A.DEFER_OR_FAIL,
            "Nothing is executed during an outage, since verification is impossible.",
            {"executed": NO},
        ),
        (
            19,
            _A.HOLD_PENDING,
            "Verification is tried again; nothing is executed twice, and unknown stays unknown.",
            {"executed": YES},
        ),
    ),
    *rows(
        _F.POLICY_VERSION_MISMATCH,
        "Policy Version Mismatch",
        (20, _A.REVALIDATE_APPROVAL, "The new policy may not approve the action any more.", {"executed": NO}),
        (
            "policy-after",
            _A.HOLD_AND_ESCALATE,
            "The action ran under an outdated policy. A person decides.",
            {"executed": YES},
        ),
    ),
    *rows(
        _F.APPROVAL_MISMATCH,
        "Approval Token Mismatch",
        (21, _A.FAIL_CLOSED, "A replayed approval or a substituted payload must not get through.", {"executed": NO}),
        ("approval-after", _A.FREEZE_AND_ALARM, "An action was executed without an approval.", {"executed": YES}),
    ),
)
