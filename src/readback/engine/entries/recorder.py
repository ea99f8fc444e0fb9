"""Entries that are made without a contract: folded as they are made, and turned into one append.

Used by escalate and by review, which move an action by legal transitions only and call nothing. A run makes its own;
that both agree with what the entries say is what the audit shows.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.events import Event, EventKind, seal
from readback.domain.people.signed_statement import TOKEN, SignedStatement
from readback.domain.state import State
from readback.engine.entries.projection import projection_of, settled_key
from readback.engine.entries.side_records import FreezeAndIncidentChanges
from readback.ports.storage.store import Append, Evidence, KeyRecord, SealedEvent

MEDIA: Final = "application/json"


@dataclass(slots=True)
class Recorder:
    """The entries of one append to an action that is at version `expected`."""

    action: Action
    expected: int
    events: list[SealedEvent] = field(default_factory=list)
    control: FreezeAndIncidentChanges = field(default_factory=FreezeAndIncidentChanges)
    evidence: dict[str, Evidence] = field(default_factory=dict)
    """By digest: several entries may stand on one signature."""

    def add(
        self,
        kind: EventKind,
        at_us: int,
        path: tuple[State, ...],
        data: dict[str, Json],
        signed: SignedStatement | None = None,
    ) -> None:
        """One more fact: folded now, durable with the append. `signed`: the word that it says, kept beside it."""
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
        """All of them, and the lease given back: whoever comes next may go on."""
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
