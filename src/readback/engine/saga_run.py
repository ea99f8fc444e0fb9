"""One saga at work: its fold, its facts not yet durable, and the append to make them durable.

Used by `engine.saga`. As with an action, recording applies an event to the fold at once. A recorded fact counts for the
outside only after the commit of the append.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final

from readback.canon import Json, parse_json, sha256_hex, stored_bytes
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.events import Event, EventKind, open_envelope, seal
from readback.domain.idempotency import KEY_KEPT_US, expires_us, key_status
from readback.domain.saga.fold import CLOSED, KIND, Direction, Saga
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Verdict
from readback.engine.compiled_contract import CallerContext
from readback.engine.effects import Effects, Load, LoadActions, LoadSaga
from readback.engine.entries.side_records import FreezeAndIncidentChanges
from readback.errors import StoreCorruptError
from readback.ports.storage.store import Append, Evidence, KeyRecord, Projection, SealedEvent, StoredEvent

MEDIA: Final = "application/json"
LEASE_US: Final = 15_000_000
LEASE_MAX_US: Final = 600_000_000
"""The longest lease of a saga. A slower holder is fenced; the saga's actions have leases of their own."""


@dataclass(slots=True)
class SagaRun:
    """The working state of one saga. Everything but the fold can be rebuilt from the ledger."""

    saga: Saga
    scope: CallerContext
    owner: str
    fence: int = 0
    durable_version: int = 0
    now_us: int = 0
    lease_us: int = LEASE_US
    in_flight_max: int = 0
    """The tenant's limit of other actions in flight for the first append; 0: no limit."""
    _events: list[SealedEvent] = field(default_factory=list)
    _evidence: list[Evidence] = field(default_factory=list)
    _control: FreezeAndIncidentChanges = field(default_factory=FreezeAndIncidentChanges)
    _reserve: KeyRecord | None = None
    _replaces: str = ""

    @property
    def pending(self) -> bool:
        """Whether a recorded event is not durable yet."""
        return bool(self._events)

    def passed(self, now_us: int) -> None:
        """Advance the clock to an answer's time. Time never steps back."""
        self.now_us = max(self.now_us, now_us)

    def record(
        self,
        kind: EventKind,
        data: dict[str, Json],
        path: tuple[State, ...] = (),
        refs: dict[str, str] | None = None,
    ) -> None:
        """Record an event: folded now, durable with the next append."""
        saga, event = self.saga, Event(kind, self.now_us, path, data, refs or {})
        envelope, leaf = seal(event, saga.id, saga.tenant, saga.version + 1, saga.head)
        saga.apply(event, leaf.hex())
        self._control.take(saga.tenant, saga.id, saga.version, event.at_us, data)
        self._events.append(SealedEvent(kind.value, event.at_us, envelope, leaf))

    def keep(self, value: Json) -> str:
        """Store a payload as evidence. Returns the digest."""
        body = stored_bytes(value)
        digest = sha256_hex(body)
        self._evidence.append(Evidence(digest, MEDIA, body))
        return digest

    def reserve(self, record: KeyRecord) -> None:
        """Reserve the key with the next append."""
        self._reserve = record

    def take_over(self, saga_id: str) -> None:
        """Replace the key's record: its saga had no effect and can have none."""
        self._replaces = saga_id

    def append(self, *, release_lease: bool) -> Append:
        """All events recorded since the last append. `release_lease`: another worker may continue."""
        saga = self.saga
        lease = ("", 0) if release_lease else (self.owner, self.now_us + self.lease_us)
        return Append(
            saga.id,
            saga.tenant,
            self.durable_version,
            self.fence,
            tuple(self._events),
            projection_of_saga(saga, lease_owner=lease[0], lease_until_us=lease[1]),
            tuple(self._evidence),
            self._reserve,
            self._replaces,
            settled_key(saga),
            incidents=tuple(self._control.incidents),
            closes=tuple(self._control.closes),
            in_flight_max=self.in_flight_max,
        )

    def committed(self, version: int) -> None:
        self.durable_version = version
        self._events.clear()
        self._evidence.clear()
        self._control = FreezeAndIncidentChanges()
        self._reserve, self._replaces, self.in_flight_max = None, "", 0


def settled_key(saga: Saga) -> tuple[str, int] | None:
    """The idempotency record of an ended saga."""
    if saga.state not in TERMINAL:
        return None
    status = key_status(saga.state, may_repeat=saga.may_repeat)
    return status.value, expires_us(status, saga.updated_us, KEY_KEPT_US)


def projection_of_saga(saga: Saga, *, lease_owner: str = "", lease_until_us: int = 0) -> Projection:
    """The projection of this saga's events."""
    return Projection(
        action_id=saga.id,
        tenant=saga.tenant,
        principal=saga.principal,
        run=str(saga.context.get("run", "")),
        contract=saga.contract,
        contract_version=saga.contracts,
        contract_hash=saga.definition_ref,
        kind=KIND,
        side_effect=saga.side_effect.value,
        target=saga.operation,
        operation=saga.operation,
        key_hash=saga.key_hash,
        stamp=saga.stamp,
        state=saga.state.value,
        hold=saga.hold,
        verdict=verdict_of(saga).value,
        discrepancy="",
        row=saga.row,
        created_us=saga.created_us,
        updated_us=saga.updated_us,
        due_us=saga.due_us,
        lease_owner=lease_owner,
        lease_until_us=lease_until_us,
        review=saga.review,
        incident=saga.incident,
    )


def verdict_of(saga: Saga) -> Verdict:
    """The verdict of all steps together."""
    match saga.state:
        case State.RECONCILED_SUCCESS:
            return Verdict.VERIFIED
        case State.FAILED | State.COMPENSATED | State.COMPENSATING:
            return Verdict.REFUTED
        case State.PROPOSED | State.VALIDATED:
            return Verdict.NOT_CHECKED
        case _:
            return Verdict.UNDETERMINED


# --- from the ledger ---


def fold_saga(events: Iterable[StoredEvent], due_us: int | None = None) -> Saga | None:
    """The saga of these events, or None without events. Raises StoreCorruptError for inconsistent events.

    `due_us`: the due time in the store; a wake-up moves it forward without an event.
    """
    saga: Saga | None = None
    for stored in events:
        opened = open_envelope(stored.envelope)
        if saga is None:
            if opened.event.kind is not EventKind.SAGA_BEGUN:
                return None
            saga = Saga(opened.action_id, opened.tenant)
        if opened.version != saga.version + 1 or opened.previous != saga.head:
            raise StoreCorruptError(f"Saga {saga.id} has a gap or a false link at version {opened.version}.")
        saga.apply(opened.event, stored.leaf.hex())
    if saga is not None and saga.due_us is not None and due_us is not None:
        saga.due_us = min(saga.due_us, due_us)
    return saga


def load_saga(saga_id: str) -> Effects[Saga | None]:
    """The saga by the current ledger, or None for an unknown id."""
    folded = yield from LoadSaga(saga_id)
    return folded


def left_behind(action: Action) -> Effects[bool]:
    """The action is a step of a saga already reversing, stopped or ended: no saga would reverse its effect."""
    named = str(action.context.get("saga", ""))
    if not named or action.context.get("reverses"):
        return False
    saga = yield from load_saga(named)
    if saga is None:
        return False
    stopped = saga.cancelled and saga.heading is Direction.ONWARD and not saga.pivot_passed
    return stopped or saga.heading is Direction.BACKWARD or saga.state in CLOSED


def load_family(saga: Saga) -> Effects[dict[str, Action]]:
    """The saga's actions, and their own reversals, by id."""
    ids = tuple(i for r in saga.steps.values() for i in (r.action_id, r.undo_id) if i)
    if not ids:
        return {}
    found = yield from LoadActions(ids)
    own = tuple(a.compensation_id for a in found.values() if a.compensation_id)
    if not own:
        return dict(found)
    more = yield from LoadActions(own)
    return {**found, **more}


def load_json(of: Action | Saga, digest: str) -> Effects[Json]:
    """Evidence of an action or a saga as JSON; None if missing or erased."""
    if not digest:
        return None
    loaded = yield from Load(of.tenant, of.id, digest)
    return None if loaded is None else parse_json(loaded)
