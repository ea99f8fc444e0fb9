"""Escalate: send an action to review, with the reason, if no worker can continue it under its own contract.

Called by the coordinator if the loaded contract differs from the action's original contract. Needs no contract, calls
nothing, reads nothing, and uses legal transitions only.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from readback.canon import Json
from readback.domain.action.action import Action
from readback.domain.contract.freezing import freezes
from readback.domain.events import EventKind
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.engine.effects import Commit, Effects, Lease
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
"""The shortest legal path to review from every state of a due action."""


def escalate(action: Action, owner: str, detail: str, now_us: int) -> Effects[bool]:
    """Send a due action to review. Returns False, with no change, if another worker moved the action on meanwhile."""
    if action.state not in TO_REVIEW:
        raise InvariantError(
            f"Action {action.id} is {action.state.value}; an action in this state cannot be escalated."
        )
    leased = yield from Lease(action.id, now_us + LEASE_US, action.version)
    if leased.fence is None or leased.version != action.version:
        return False
    entries, path = Recorder(action, action.version), TO_REVIEW[action.state]
    if action.attempt_open:
        # The call's result is unknown and cannot be read here: record this first.
        entries.add(EventKind.RESUMED, leased.now_us, path[:1], {"owner": owner})
        path = path[1:]
    held: dict[str, Json] = {"hold": CONTRACT_CHANGED, "code": CONTRACT_CHANGED, "detail": detail, **_freeze(action)}
    entries.add(EventKind.HELD, leased.now_us, path, held)
    committed = yield from Commit(entries.append(leased.fence))
    return isinstance(committed.result, Appended)


def _freeze(action: Action) -> dict[str, Json]:
    """Freeze the resource of a critical, executed action. Other subjects of the missing contract are unknown here."""
    if not action.side_effect:  # not admitted yet: class and target are unknown
        return {}
    severe = freezes(SideEffect(action.side_effect), State.REVIEW_REQUIRED, by_row=False, executed=action.attempts > 0)
    named = tuple(subject for subject in resource_of(action.target) if subject not in action.frozen)
    return freezing(named, CONTRACT_CHANGED) if severe else {}
