"""Rows for the findings outside the action verification specification's recovery table.

They are ours: no-ops, wrong values, missing targets, propagation, required compensation, unknown states, broken
verifiers, and settled results. First match wins.
"""

from __future__ import annotations

from typing import Final

from readback.domain.finding import Finding
from readback.domain.recovery.action import RecoveryAction
from readback.domain.recovery.row import (
    BELOW_CRITICAL,
    GONE,
    HIGH,
    IN_WINDOW,
    LOW,
    MEDIUM,
    MIDWAY_NOT_DEAD,
    NO,
    NOT_DEAD,
    STALE,
    TAKE_BACK,
    UNSHOWN_NOT_DEAD,
    WRITES,
    YES,
    look_again,
    own_rows,
    resend,
)

_F, _A = Finding, RecoveryAction

OWN_ROWS: Final = (
    *own_rows(_F.VERIFIED, ("verified", _A.ACCEPT, "Every postcondition holds over the authoritative state.")),
    *own_rows(
        _F.NO_OP_ALLOWED,
        (
            "no-op-allowed",
            _A.RECORD_NO_OP,
            "The state is as intended, and the contract permits that nothing had to change.",
        ),
    ),
    *own_rows(
        _F.FAILED_BEFORE_EFFECT,
        (
            "failed-before-effect",
            _A.FAIL,
            "Provably nothing was dispatched: there is nothing to verify and nothing to reverse.",
        ),
    ),
    *own_rows(
        _F.NO_OP_FAILURE,
        resend("no-op"),
        *look_again("no-op"),
        ("no-op-late", _A.KEEP_UNKNOWN, "Nothing has changed yet, but an effect may still land.", *NOT_DEAD),
        (
            "no-op-failed",
            _A.FAIL,
            "Nothing changed here or elsewhere, and nothing can follow.",
            {"searched": YES, "effect_shown": NO},
        ),
        ("no-op-elsewhere", _A.HOLD_AND_ESCALATE, "Nothing changed here, and other places could not be searched."),
    ),
    *own_rows(
        _F.TARGET_MISSING,
        resend("missing"),
        *look_again("missing"),
        ("missing-late", _A.KEEP_UNKNOWN, "The target is missing, but an effect may still land.", *NOT_DEAD),
        (
            "missing-shown",
            _A.HOLD_AND_ESCALATE,
            "The target is missing and a reading shows an effect: both cannot be.",
            {"effect_shown": YES},
        ),
        (
            "missing",
            _A.FAIL,
            "There is no such target here, there is nothing elsewhere, and nothing can follow.",
            {"searched": YES},
        ),
        (
            "missing-elsewhere",
            _A.HOLD_AND_ESCALATE,
            "The target is missing here, and the effect may be elsewhere.",
        ),
    ),
    *own_rows(
        _F.REFUTED_DEAD,
        ("refuted-stale", _A.FORCE_STRONG_READ, "Only a strong reading refutes.", STALE),
        ("refuted-late", _A.KEEP_UNKNOWN, "It is not dead yet: absence is not failure.", *NOT_DEAD),
        (
            "refuted-effect",
            _A.HOLD_AND_ESCALATE,
            "The action is reported without effect, and a reading shows an effect: the evidence is contradictory.",
            {"effect_shown": YES},
        ),
        (
            "refuted-retry",
            _A.RETRY_SAME_KEY,
            "Refuted, dead, and the tool executes one key once: the same attempt may be made again.",
            {**GONE, "maybe_stale": NO, "key_honoured": YES, "repeated": NO, "side_effect": (*WRITES[:-1],)},
        ),
        ("refuted", _A.FAIL, "There is no effect and none can follow."),
    ),
    *own_rows(
        _F.VALUE_MISMATCH,
        *look_again("value"),
        (
            "value-late",
            _A.KEEP_UNKNOWN,
            "The change is on its way and not dead yet: the state may still become as required.",
            *MIDWAY_NOT_DEAD,
        ),
        (
            "value-reverse",
            _A.COMPENSATE_OR_ROLL_BACK,
            "Our effect is there, is not as required, and can be taken back.",
            {**TAKE_BACK, "side_effect": (*LOW, *MEDIUM)},
        ),
        (
            "value-hold",
            _A.HOLD_AND_ESCALATE,
            "The values are wrong, and the effect is irreversible, of high impact, or not shown to be ours.",
        ),
    ),
    *own_rows(
        _F.DRIFT,
        (
            "drift",
            _A.HOLD_AND_ESCALATE,
            "The state held, and holds no more. A person decides. Nothing is executed or reversed.",
        ),
    ),
    *own_rows(
        _F.COMPENSATION_REQUIRED,
        (
            "required-reverse",
            _A.BACKWARD_COMPENSATION,
            "A committed effect has to be reversed, and can be.",
            {**TAKE_BACK, "side_effect": BELOW_CRITICAL},
        ),
        (
            "required-late",
            _A.KEEP_UNKNOWN,
            "No effect is shown, so there is nothing to reverse. An effect may still land.",
            *UNSHOWN_NOT_DEAD,
        ),
        ("required-nothing", _A.FAIL, "There is nothing to reverse and nothing can follow.", GONE),
        (
            "required-hold",
            _A.HOLD_AND_ESCALATE,
            "The effect must be reversed, and no rule may reverse the effect alone.",
        ),
    ),
    *own_rows(
        _F.PROPAGATION_DELAY,
        (
            "propagation-in-window",
            _A.RETRY_VERIFICATION,
            "The change is committed, and dependent views lag.",
            IN_WINDOW,
        ),
        ("propagation-late", _A.HOLD_PENDING, "The action stays pending, with slower reads until the deadline."),
    ),
    *own_rows(
        _F.UNKNOWN,
        *look_again("unknown"),
        (
            "unknown-record",
            _A.POLL_IDEMPOTENCY_RECORD,
            "The record under the key may decide.",
            {"key_record": YES, "late_open": YES},
        ),
        ("unknown-high", _A.HOLD_AND_ESCALATE, "Unknown and of high impact: a person decides.", {"side_effect": HIGH}),
        ("unknown", _A.KEEP_UNKNOWN, "The state stays unknown, and blocks a second execution."),
    ),
    *own_rows(
        _F.VERIFIER_ERROR,
        (
            "verifier-before",
            _A.FAIL_CLOSED,
            "Nothing is executed while the verifier is faulty.",
            {"executed": NO},
        ),
        ("verifier-in-window", _A.RETRY_VERIFICATION, "The verifier may recover while the window is open.", IN_WINDOW),
        (
            "verifier-repeated",
            _A.REVIEW_AND_INCIDENT,
            "A repeatedly failing verifier is an incident.",
            {"repeated": YES},
        ),
        (
            "verifier-high",
            _A.HOLD_AND_ESCALATE,
            "Undetermined and of high impact: a person decides.",
            {"side_effect": HIGH},
        ),
        ("verifier", _A.KEEP_UNKNOWN, "A broken verifier says nothing about the action."),
    ),
)
