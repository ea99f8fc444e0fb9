"""The statuses of the action ledger entry for each state and judgement.

The record uses them. In doubt the weaker status is used: VERIFIED requires a verified verdict. COMMITTED requires a
reading of our effect, or a state only reachable with an effect.

Source: the action verification specification, "Action ledger entry".
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.domain.action.action import Action
from readback.domain.idempotency import KeyStatus
from readback.domain.state import (
    NOT_ATTEMPTED,
    STATUS,
    ExecutionStatus,
    ReconciliationStatus,
    State,
    VerificationStatus,
)
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.observation import ObservationStatus


class Effect(StrEnum):
    """Knowledge about the effect of all attempts together."""

    NONE_MADE = "none_made"
    """Nothing was dispatched: no attempt, or provably no departure."""
    SHOWN = "shown"
    """A reading shows the effect, or its reversal was verified."""
    NONE = "none"
    """A search found no effect, and none can follow."""
    OPEN = "open"
    """The effect may exist or not."""


_E, _V, _S = ExecutionStatus, VerificationStatus, State
_N, _X, _A, _P, _C, _F, _U = (
    _E.NOT_EXECUTED,
    _E.EXECUTING,
    _E.ACCEPTED,
    _E.PENDING,
    _E.COMMITTED,
    _E.FAILED,
    _E.UNKNOWN,
)
_EFFECTS: Final = (Effect.NONE_MADE, Effect.SHOWN, Effect.NONE, Effect.OPEN)
_EXECUTION_ROWS: Final = {
    # state: nothing dispatched, shown, none and none can follow, open
    _S.PROPOSED: (_N, _C, _F, _U),
    _S.VALIDATED: (_N, _C, _F, _U),
    _S.EXECUTING: (_X, _X, _X, _X),
    _S.ACCEPTED: (_A, _C, _A, _A),
    _S.PENDING: (_P, _C, _P, _P),
    _S.COMMITTED: (_N, _C, _C, _C),
    _S.PARTIALLY_COMMITTED: (_N, _C, _C, _C),
    _S.RECONCILED_SUCCESS: (_N, _C, _C, _C),
    _S.RECONCILIATION_FAILED: (_N, _C, _F, _U),
    _S.FAILED: (_N, _C, _F, _U),
    _S.VERIFICATION_TIMEOUT: (_N, _C, _F, _U),
    _S.UNKNOWN: (_N, _C, _U, _U),
    _S.COMPENSATING: (_N, _C, _F, _U),
    _S.COMPENSATED: (_N, _C, _C, _C),
    _S.COMPENSATION_FAILED: (_N, _C, _F, _U),
    _S.FORWARD_RECOVERY: (_N, _C, _F, _U),
    _S.ROLLED_BACK: (_N, _F, _F, _F),
    _S.REVIEW_REQUIRED: (_N, _C, _F, _U),
    _S.ABANDONED: (_N, _C, _F, _U),
}
EXECUTION: Final = MappingProxyType(
    {
        (state, effect): said
        for state, row in _EXECUTION_ROWS.items()
        for effect, said in zip(_EFFECTS, row, strict=True)
    }
)
"""Every state with every knowledge of its effect. ROLLED_BACK: the staged change was dropped before it was visible."""

_VERDICTS: Final = (Verdict.VERIFIED, Verdict.REFUTED, Verdict.UNDETERMINED, Verdict.NOT_CHECKED)
_YES, _NO, _WAIT, _LATE, _CANNOT, _NOT_YET = (
    _V.VERIFIED,
    _V.FAILED,
    _V.PENDING,
    _V.TIMEOUT,
    _V.UNVERIFIABLE,
    _V.NOT_STARTED,
)
_VERIFICATION_ROWS: Final = {
    # state: verified, refuted, undetermined, not checked. Before an attempt, a verdict belongs to an earlier
    # attempt and does not count. UNKNOWN stays undecided despite any reading: an effect may still land.
    _S.PROPOSED: (_NOT_YET, _NOT_YET, _NOT_YET, _NOT_YET),
    _S.VALIDATED: (_NOT_YET, _NOT_YET, _NOT_YET, _NOT_YET),
    _S.EXECUTING: (_NOT_YET, _NOT_YET, _NOT_YET, _NOT_YET),
    _S.ACCEPTED: (_WAIT, _WAIT, _WAIT, _WAIT),
    _S.PENDING: (_WAIT, _WAIT, _WAIT, _WAIT),
    _S.COMMITTED: (_YES, _NO, _WAIT, _WAIT),
    _S.PARTIALLY_COMMITTED: (_YES, _NO, _WAIT, _WAIT),
    _S.RECONCILED_SUCCESS: (_YES, _NO, _CANNOT, _CANNOT),
    _S.RECONCILIATION_FAILED: (_YES, _NO, _CANNOT, _CANNOT),
    _S.FAILED: (_YES, _NO, _CANNOT, _CANNOT),
    _S.VERIFICATION_TIMEOUT: (_YES, _NO, _LATE, _LATE),
    _S.UNKNOWN: (_LATE, _LATE, _CANNOT, _WAIT),
    _S.COMPENSATING: (_YES, _NO, _CANNOT, _CANNOT),
    _S.COMPENSATED: (_YES, _NO, _CANNOT, _CANNOT),
    _S.COMPENSATION_FAILED: (_YES, _NO, _CANNOT, _CANNOT),
    _S.FORWARD_RECOVERY: (_YES, _NO, _WAIT, _WAIT),
    _S.ROLLED_BACK: (_YES, _NO, _CANNOT, _CANNOT),
    _S.REVIEW_REQUIRED: (_YES, _NO, _CANNOT, _CANNOT),
    _S.ABANDONED: (_YES, _NO, _CANNOT, _CANNOT),
}
VERIFICATION: Final = MappingProxyType(
    {
        (state, verdict): said
        for state, row in _VERIFICATION_ROWS.items()
        for verdict, said in zip(_VERDICTS, row, strict=True)
    }
)
"""Every state with every verdict, after a dispatch."""

OUT_OF_TIME: Final = frozenset({Why.PROPAGATING, Why.TIMEOUT, Why.SETTLING, Why.UNREACHABLE})
"""Reasons for an open verdict that more time could have closed: TIMEOUT in place of UNVERIFIABLE."""

KEY: Final = MappingProxyType({status: status.value for status in KeyStatus})
"""The entry's status for each status of an idempotency record."""

NEVER_LEFT: Final = MappingProxyType(
    {status: status is ObservationStatus.NOT_DISPATCHED for status in ObservationStatus}
)
"""Observations that prove no dispatch. Any other observation leaves the effect open."""


def effect_of(action: Action) -> Effect:
    """The recorded knowledge about the action's effect."""
    j = action.judgement
    if action.attempts == 0:
        return Effect.NONE_MADE
    if j.effect_shown or j.verdict == Verdict.VERIFIED or action.state is State.COMPENSATED:
        return Effect.SHOWN
    seen = action.observation
    if action.attempts == 1 and seen is not None and _never_left(seen.get("status"), seen.get("dispatched")):
        return Effect.NONE_MADE
    return Effect.NONE if j.verdict == Verdict.REFUTED and j.dead else Effect.OPEN


def _never_left(status: object, dispatched: object) -> bool:
    return dispatched is False and NEVER_LEFT[ObservationStatus(str(status))]


def execution_status(action: Action) -> ExecutionStatus:
    """The entry's `execution.status`."""
    return EXECUTION[action.state, effect_of(action)]


def verification_status(action: Action) -> VerificationStatus:
    """The entry's `verification.status`."""
    if effect_of(action) is Effect.NONE_MADE and action.state in NOT_ATTEMPTED:
        return NOT_ATTEMPTED[action.state].verification
    said = VERIFICATION[action.state, Verdict(action.judgement.verdict)]
    if said is VerificationStatus.UNVERIFIABLE and Why(action.judgement.why) in OUT_OF_TIME:
        return VerificationStatus.TIMEOUT
    return said


def reconciliation_status(action: Action) -> ReconciliationStatus:
    """The entry's `reconciliation.status`."""
    if effect_of(action) is Effect.NONE_MADE and action.state in NOT_ATTEMPTED:
        return NOT_ATTEMPTED[action.state].reconciliation
    return STATUS[action.state].reconciliation
