"""Escalate: an action that nobody can go on with by its own terms goes to a person, and says why.

Called by attend, when the contract at hand is not the one that an action began with. It needs no contract: it moves the
action by legal transitions only, calls nothing, and reads nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from readback.canon import Json
from readback.domain.action import Action
from readback.domain.errors import InvariantError
from readback.domain.events import Event, EventKind, seal
from readback.domain.idempotency import key_status
from readback.domain.state import State
from readback.lifecycle.projection import projection_of
from readback.lifecycle.steps import Answer, Commit, Committed, Lease, Leased, Step
from readback.ports.store import Append, Appended, SealedEvent

CONTRACT_CHANGED: Final = "contract.changed"
LEASE_US: Final = 15_000_000
_S = State

TO_REVIEW: Final = MappingProxyType(
    {
        _S.VALIDATED: (_S.REVIEW_REQUIRED,),
        _S.EXECUTING: (_S.UNKNOWN, _S.REVIEW_REQUIRED),
        _S.ACCEPTED: (_S.UNKNOWN, _S.REVIEW_REQUIRED),
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


@dataclass(slots=True)
class _Record:
    """The events of one append, folded as they are made."""

    action: Action
    expected: int
    events: list[SealedEvent] = field(default_factory=list)

    def add(self, kind: EventKind, at_us: int, path: tuple[State, ...], data: dict[str, Json]) -> None:
        action, event = self.action, Event(kind, at_us, path, data)
        envelope, leaf = seal(event, action.id, action.tenant, action.version + 1, action.head)
        action.apply(event, leaf.hex())
        self.events.append(SealedEvent(kind.value, at_us, envelope, leaf))

    def append(self, fence: int) -> Append:
        action = self.action
        status = key_status(action.state, may_repeat=action.may_repeat).value
        return Append(
            action.id,
            action.tenant,
            self.expected,
            fence,
            tuple(self.events),
            projection_of(action),
            settle=(status, 0) if action.attempts else None,
        )


def escalate(action: Action, owner: str, detail: str, now_us: int) -> Generator[Step, Answer, bool]:
    """Puts a due action before a person. False where somebody else moved it on meanwhile; then nothing was done."""
    if action.state not in TO_REVIEW:
        raise InvariantError(f"Action {action.id} is {action.state.value}; that is nothing to escalate from.")
    leased = yield Lease(action.id, now_us + LEASE_US)
    assert isinstance(leased, Leased)
    if leased.fence is None or leased.version != action.version:
        return False
    record, path = _Record(action, action.version), TO_REVIEW[action.state]
    if action.attempt_open:
        # What became of the call is not known, and nobody here can read it: that is recorded first.
        record.add(EventKind.RESUMED, leased.now_us, path[:1], {"owner": owner})
        path = path[1:]
    held: dict[str, Json] = {"hold": CONTRACT_CHANGED, "code": CONTRACT_CHANGED, "detail": detail}
    record.add(EventKind.HELD, leased.now_us, path, held)
    committed = yield Commit(record.append(leased.fence))
    assert isinstance(committed, Committed)
    return isinstance(committed.result, Appended)
