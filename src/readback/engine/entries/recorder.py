"""Record entries without a contract: folded at once, and combined into one append.

Used by escalate and by review, both limited to legal transitions and without calls. A run records its own entries; the
audit shows both to agree with the entries.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.events import Event, EventKind, seal
from readback.domain.idempotency import expires_us, key_status
from readback.domain.people.signed_statement import TOKEN, SignedStatement
from readback.domain.state import State
from readback.engine.entries.side_records import FreezeAndIncidentChanges
from readback.ports.storage.store import Append, Evidence, KeyRecord, Projection, SealedEvent

# The store's projection of one action's events, derived from the fold alone.


def projection_of(action: Action, lease_owner: str = "", lease_until_us: int = 0) -> Projection:
    """The projection of this action's events."""
    context, judgement = action.context, action.judgement
    # Positional, in the order of the class: so many keywords take seven times as long, twice an action.
    return Projection(
        action.id,
        action.tenant,
        action.principal,
        str(context.get("run", "")),
        action.contract,
        action.contract_version,
        action.contract_hash,
        action.kind,
        action.side_effect,
        action.target,
        action.operation,
        action.key_hash,
        action.stamp,
        action.state._value_,
        action.hold,
        judgement.verdict,
        judgement.discrepancy,
        judgement.row,
        action.created_us,
        action.updated_us,
        action.due_us,
        lease_owner,
        lease_until_us,
        action.review,
        action.incident,
        str(context.get("saga", "")),
        action.claim if action.claims else "",
    )


def settled_key(action: Action) -> tuple[str, int] | None:
    """The new status and expiry of the action's idempotency record; None for no change."""
    if not action.durable_key_change:
        return None
    status = key_status(action.state, may_repeat=action.may_repeat, resolution=action.attested)
    return status._value_, expires_us(status, action.updated_us, action.key_kept_us)


MEDIA: Final = "application/json"


@dataclass(slots=True)
class Recorder:
    """The entries of one append to an action at version `expected`."""

    action: Action
    expected: int
    events: list[SealedEvent] = field(default_factory=list)
    control: FreezeAndIncidentChanges = field(default_factory=FreezeAndIncidentChanges)
    evidence: dict[str, Evidence] = field(default_factory=dict)
    """By digest: several entries may share one signature."""

    def add(
        self,
        kind: EventKind,
        at_us: int,
        path: tuple[State, ...],
        data: dict[str, Json],
        signed: SignedStatement | None = None,
    ) -> None:
        """Add an event: folded now, durable with the append. `signed`: the signed statement, stored as evidence."""
        refs: dict[str, str] = {}
        if signed is not None:
            refs[TOKEN] = digest = signed.digest()
            self.evidence[digest] = Evidence(digest, MEDIA, signed.body())
        action, event = self.action, Event(kind, at_us, path, data, refs)
        envelope, leaf = seal(event, action.id, action.tenant, action.version + 1, action.head)
        action.apply(event, leaf.hex())
        self.control.take(action.tenant, action.id, action.version, at_us, data)
        self.events.append(SealedEvent(kind.value, at_us, envelope, leaf))

    def append(self, fence: int, *, reserve: KeyRecord | None = None, replaces: str = "") -> Append:
        """All entries, with the lease released for the next worker."""
        action, control = self.action, self.control
        return Append(
            action.id,
            action.tenant,
            self.expected,
            fence,
            tuple(self.events),
            projection_of(action),
            tuple(self.evidence.values()),
            reserve=reserve,
            replaces=replaces,
            settle=None if reserve is not None else settled_key(action),
            freezes=tuple(control.freezes),
            lifts=tuple(control.lifts),
            incidents=tuple(control.incidents),
            closes=tuple(control.closes),
        )
