"""Escalate: an action that nobody can go on with by its own terms goes to a person, and says why.

Called by attend, when the contract at hand is not the one that an action began with. It needs no contract: it moves the
action by legal transitions only, calls nothing, and reads nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from types import MappingProxyType
from typing import Final

from readback.canon import Json
from readback.domain.action.action import Action
from readback.domain.contract.freezing import freezes
from readback.domain.events import EventKind
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.engine.effects import Commit, Committed, Effect, EffectResult, Lease, Leased
from readback.engine.entries.recorder import Recorder
from readback.engine.entries.side_records import freezing, resource_of
from readback.errors import InvariantError
from readback.ports.storage.store import Appended

CONTRACT_CHANGED: Final = "contract.changed"
LEASE_US: Final = 15_000_000
_S = State

TO_REVIEW: Final = MappingProxyType(
    {
        _S.PROPOSED: (_S.VALIDATED, _S.REVIEW_REQUIRED),
        _S.VALIDATED: (_S.REVIEW_REQUIRED,),
        _S.EXECUTING: (_S.UNKNOWN, _S.REVIEW_REQUIRED),
        _S.ACCEPTED: (_S.PENDING, _S.UNKNOWN, _S.REVIEW_REQUIRED),
        _S.PENDING: (_S.UNKNOWN, _S.REVIEW_REQUIRED),
        _S.COMMITTED: (_S.RECONCILIATION_FAILED, _S.REVIEW_REQUIRED),
        _S.PARTIALLY_COMMITTED: (_S.REVIEW_REQUIRED,),
        _S.RECONCILIATION_FAILED: (_S.REVIEW_REQUIRED,),
        _S.VERIFICATION_TIMEOUT: (_S.REVIEW_REQUIRED,),
        _S.UNKNOWN: (_S.REVIEW_REQUIRED,),
        _S.COMPENSATING: (_S.REVIEW_REQUIRED,),
        _S.COMPENSATION_FAILED: (_S.REVIEW_REQUIRED,),
        _S.FORWARD_RECOVERY: (_S.REVIEW_REQUIRED,),
        _S.REVIEW_REQUIRED: (),
    }
)
"""The shortest legal way to review from every state in which an action can be due."""


def escalate(action: Action, owner: str, detail: str, now_us: int) -> Generator[Effect, EffectResult, bool]:
    """Puts a due action before a person. False where somebody else moved it on meanwhile; then nothing was done."""
    if action.state not in TO_REVIEW:
        raise InvariantError(f"Action {action.id} is {action.state.value}; that is nothing to escalate from.")
    leased = yield Lease(action.id, now_us + LEASE_US, action.version)
    assert isinstance(leased, Leased)
    if leased.fence is None or leased.version != action.version:
        return False
    entries, path = Recorder(action, action.version), TO_REVIEW[action.state]
    if action.attempt_open:
        # What became of the call is not known, and nobody here can read it: that is recorded first.
        entries.add(EventKind.RESUMED, leased.now_us, path[:1], {"owner": owner})
        path = path[1:]
    held: dict[str, Json] = {"hold": CONTRACT_CHANGED, "code": CONTRACT_CHANGED, "detail": detail, **_freeze(action)}
    entries.add(EventKind.HELD, leased.now_us, path, held)
    committed = yield Commit(entries.append(leased.fence))
    assert isinstance(committed, Committed)
    return isinstance(committed.result, Appended)


def _freeze(action: Action) -> dict[str, Json]:
    """What was critical and executed stays frozen; what else its contract names nobody here can say."""
    if not action.side_effect:  # nobody who knows its contract has looked at it: nor is its target known
        return {}
    severe = freezes(SideEffect(action.side_effect), State.REVIEW_REQUIRED, by_row=False, executed=action.attempts > 0)
    named = tuple(subject for subject in resource_of(action.target) if subject not in action.frozen)
    return freezing(named, CONTRACT_CHANGED) if severe else {}
