"""The recovery decision table: the reaction to each finding in each situation.

Rows REC-01 to REC-21 are the action verification specification's ("Recovery decision table"), in the printed order.
Rows RB-* are ours: for findings without a row there, and for cases left open by its conditions. The most severe finding
counts; within a finding the first matching row wins. The engine calls `decide`; nothing else chooses a recovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from readback.domain.finding import Finding
from readback.domain.recovery.action import EFFECTS, ActionEffect, RecoveryAction
from readback.domain.recovery.rows import PRINTED_ROWS
from readback.domain.recovery.rows_own import OWN_ROWS
from readback.domain.recovery.rule import (
    RecoveryTable,
    Reversal,
    Row,
    Situation,
    situations_of,
)
from readback.domain.side_effect import ReviewTrigger, depth

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

_F = Finding
DEFAULT_TABLE: Final = RecoveryTable((*PRINTED_ROWS, *OWN_ROWS))
"""The table used unless an operator supplies another."""


def decide(finding: Finding, situation: Situation, table: RecoveryTable = DEFAULT_TABLE) -> Row:
    """Return the deciding row. Deterministic: the same arguments always give the same row."""
    return table.decide(finding, situation)


_ALWAYS: Final = ReviewTrigger.ALWAYS
_TRIGGER_OF: Final[Mapping[Finding, ReviewTrigger]] = MappingProxyType(
    {
        _F.AUTHORITY_MISMATCH: ReviewTrigger.MISMATCH,
        _F.VALUE_MISMATCH: ReviewTrigger.MISMATCH,
        _F.NO_OP_FAILURE: ReviewTrigger.MISMATCH,
        _F.REFUTED_DEAD: ReviewTrigger.MISMATCH,
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
    """Return the class's review trigger for a finding, beside the row's own review.

    None while verification is open: a mismatch within the window does not count yet.
    """
    if situation.within_window or (situation.maybe_stale and finding is not Finding.VERIFIED):
        return None
    wanted = depth(situation.side_effect).review_on
    if _ALWAYS in wanted:
        return _ALWAYS
    if situation.repeated and finding is not Finding.VERIFIED and ReviewTrigger.REPEATED_MISMATCH in wanted:
        return ReviewTrigger.REPEATED_MISMATCH
    trigger = _TRIGGER_OF.get(finding)
    return trigger if trigger in wanted else None
