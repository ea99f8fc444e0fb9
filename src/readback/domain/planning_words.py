"""What a model is told of how to go on: whether it may ask again, and what comes next. Called by reporting alone.

Source: the action verification specification, "Next-step planning".
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from readback.domain import claim_words
from readback.domain.claim import ClaimStatus, holds, worst
from readback.domain.discrepancy import Discrepancy
from readback.domain.errors.claim import NOT_STANDING
from readback.domain.freezing import CODE as FROZEN
from readback.domain.idempotency import Resolution
from readback.domain.state import TERMINAL, ReportKey, State
from readback.domain.verdict import Why

if TYPE_CHECKING:
    from readback.domain.reporting import ReportInput

_K = ReportKey
# What an enum is asked for by its name costs as much as a call.
_COMPLETED, _NOT_EXECUTED, _ATTEMPTED = _K.COMPLETED, _K.NOT_EXECUTED, _K.ATTEMPTED
_SUCCESS, _STALE, _NONE = State.RECONCILED_SUCCESS, Discrepancy.STALE_STATE, Resolution.NONE
_NOT_REVERSED, _ATTESTED_DONE = State.COMPENSATION_FAILED, Resolution.ATTESTED_DONE

_NEXT: Final = MappingProxyType(
    {
        _K.NOT_EXECUTED: "do not count on it; wait for what holds it, or plan without it.",
        _K.ATTEMPTED: "wait for verification; start nothing that depends on it.",
        _K.PENDING: "wait, poll or defer; start nothing that depends on it.",
        _K.RECONCILING: "wait; start nothing that depends on it.",
        _K.COMPLETED: "go on with the next dependent step.",
        _K.PARTIAL: "leave recovery to the system, ask the user, or escalate; do nothing that depends on it.",
        _K.FAILED: "repair the cause, plan anew, or stop.",
        _K.COMPENSATED: "plan anew from the reversed state.",
        _K.ROLLED_BACK: "plan anew from the unchanged state.",
        _K.UNKNOWN: "reconcile first; start nothing that depends on it.",
        _K.REVIEW: "stop this line of work until a person has decided.",
    }
)

_NEXT_OF: Final = MappingProxyType(
    {
        Discrepancy.WRONG_TARGET_MODIFIED: "stop everything on this target: it is handled as an incident.",
        Discrepancy.STALE_STATE: "read the present state and plan anew from it.",
    }
)

_NEXT_ATTESTED: Final = MappingProxyType(
    {
        Resolution.ATTESTED_DONE: "build on it only where a person's word is enough; it is attested, and not verified.",
        Resolution.ATTESTED_NOT_DONE: "ask for it again under the same operation, or plan without it.",
    }
)

_IN_DOUBT: Final = frozenset({_ATTEMPTED, _K.PENDING, _K.RECONCILING, _K.UNKNOWN})
_REPETITION: Final = MappingProxyType(
    {
        _COMPLETED: "do not repeat this action; it is done.",
        _K.PARTIAL: "do not repeat this action; parts of it are done.",
        _K.REVIEW: "do not repeat this action; a person has to decide first.",
    }
)
_NEW_OPERATION: Final = "do not repeat this action as it is; a new intention needs a new operation."


def repetition(report: ReportInput, key: ReportKey, may_repeat: bool) -> str:
    """Whether the same may be asked for again, and why."""
    if key is _NOT_EXECUTED and report.reason == FROZEN:
        return "not now: it is refused again until a person has lifted the freeze."
    if key is _NOT_EXECUTED and report.reason == NOT_STANDING:
        return claim_words.NOT_AS_IT_IS
    if may_repeat:
        if report.resolution is Resolution.ATTESTED_NOT_DONE:
            return "allowed: a person attested that it was not done."
        return "allowed: nothing of this attempt exists or can still appear."
    if report.resolution is _ATTESTED_DONE:
        return "do not repeat this action; a person attested that it was done."
    if report.said and _retracted(report):
        return _NEW_OPERATION
    if key is _NOT_EXECUTED and report.state in (State.PROPOSED, State.VALIDATED):
        return "do not propose this action again; it is waiting to be executed."
    if key not in _IN_DOUBT:
        return _REPETITION.get(key, _NEW_OPERATION)
    if report.state is State.ABANDONED:
        return "do not repeat this action; its result is unknown and work on it was stopped."
    if report.why is Why.UNVERIFIABLE:
        return "do not repeat this action; its result is unknown and cannot be verified."
    return "do not repeat this action; its result is unknown and being verified."


def next_step(report: ReportInput, key: ReportKey) -> str:
    """What is to be done now."""
    if report.state is _NOT_REVERSED:
        return "leave it to a person: the reversal failed, and the state has to be recovered by hand."
    if key is _NOT_EXECUTED and report.reason == FROZEN:
        return _NEXT[ReportKey.REVIEW]
    if (key is _NOT_EXECUTED and report.reason == NOT_STANDING) or (report.fallen and key is _COMPLETED):
        return claim_words.PLAN_AGAIN
    if report.said and _retracted(report):
        return _NEXT_OF[_STALE]
    if report.resolution is not _NONE:
        return _NEXT_ATTESTED[report.resolution]
    if key is _COMPLETED:
        return _NEXT[key]
    if key is _ATTEMPTED and report.why is Why.UNVERIFIABLE:
        return "do not count on it; ask the user, or plan without it."
    if key is _NOT_EXECUTED and report.state in TERMINAL:
        return _NEXT[ReportKey.FAILED]
    if report.discrepancy is None or (report.discrepancy is _STALE and key is not ReportKey.FAILED):
        return _NEXT[key]  # a stale plan's: still what is open is waited for, or a person decides first
    return _NEXT_OF.get(report.discrepancy, _NEXT[key])


def _retracted(report: ReportInput) -> bool:
    """A success that somebody was told of, and that was taken back."""
    told = report.state is _SUCCESS
    return told and not holds(report.said) and worst(report.said) == ClaimStatus.RETRACTED
