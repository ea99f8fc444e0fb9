"""The ledger store: one append, and reading ports beside it.

Called by the drivers (append, lease) and by list and show commands. The store holds bytes and small columns and decides
nothing: the engine decides the order of events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from readback.canon.frozen import dataclass
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.log import SealedLog
from readback.ports.storage.outbox import Outbox


@dataclass(frozen=True, slots=True)
class SealedEvent:
    """One ledger entry: canonical envelope bytes and their RFC 6962 leaf hash (32 bytes)."""

    kind: str
    at_us: int
    envelope: bytes
    leaf: bytes


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A sealed event at its position: `seq` in the whole log, `version` (1, 2, ...) in its action.

    With `seq` 0 the event is durable, and its position in the log follows later; see
    `LedgerStore.assign_sequence_numbers`.
    """

    seq: int
    action_id: str
    version: int
    kind: str
    at_us: int
    envelope: bytes
    leaf: bytes


@dataclass(frozen=True, slots=True)
class Projection:
    """The current summary of one action's events; written with the events, never by itself.

    `due_us`: when a worker must look again, or None. `lease_owner` and `lease_until_us`: the current lease. The store
    adds `version` and `fence`.
    """

    action_id: str
    tenant: str
    principal: str
    run: str
    contract: str
    contract_version: str
    contract_hash: str
    kind: str
    side_effect: str
    target: str
    operation: str
    key_hash: str
    stamp: str
    state: str
    hold: str
    verdict: str
    discrepancy: str
    row: str
    created_us: int
    updated_us: int
    due_us: int | None
    lease_owner: str
    lease_until_us: int
    review: str = ""
    """Why a person must review the action; "" if no review is due."""
    incident: str = ""
    """The cause of the incident opened or extended by the action."""
    saga: str = ""
    """The saga of this step."""
    claim: str = ""
    """The most severe status of the action's claims: contested, retracted, reinstated; "" for none."""


@dataclass(frozen=True, slots=True)
class StoredProjection:
    """A projection with the version of its action and the fence of its lease."""

    projection: Projection
    version: int
    fence: int


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An idempotency record. `status` is one of domain.idempotency.KeyStatus."""

    tenant: str
    key_hash: str
    request_hash: str
    action_id: str
    status: str
    created_us: int
    expires_us: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Bytes stored for an action under their SHA-256 (hex). A contract's text is stored once for a tenant."""

    digest: str
    media: str
    body: bytes


Kept: TypeAlias = tuple[str, str]
"""Evidence by its action and digest. An empty action ("") holds a contract's text."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """Evidence of an action to be erased with the append of its `erased` entry; the digest stays.

    Other actions with the same bytes have their own copies. A contract's text is not erased.
    """

    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """A counter of consecutive faults: `delta` is added; None resets the counter to zero."""

    subject: str
    name: str
    delta: int | None


@dataclass(frozen=True, slots=True)
class Freeze:
    """No new action may act on `subject` until a person resolves the freezing action.

    `subject`: `resource:<target>`, `principal:<name>`, `tool:<contract>` or `tenant:<name>`. Several actions may freeze
    one subject; the subject is free after the last lift.
    """

    tenant: str
    subject: str
    action_id: str
    reason: str
    since_us: int


@dataclass(frozen=True, slots=True)
class Incident:
    """An event in need of a person's attention. While an incident of a cause is open, another only increments `seen`.

    `closed_us`: 0 while open.
    """

    tenant: str
    id: str
    cause: str
    severity: str
    action_id: str
    opened_us: int
    seen: int = 1
    closed_us: int = 0


@dataclass(frozen=True, slots=True)
class Append:
    """The durable changes of one step, all together or none.

    - `expected_version`: 0 creates the action.
    - `fence`: must match the held lease (0 for a new action).
    - `reserve`: inserts an idempotency record, or finds the existing record. A reservation may replace the record named
      by action id in `replaces`, unless open (PENDING) by then.
    - `settle`: updates the status of the action's own record.
    """

    action_id: str
    tenant: str
    expected_version: int
    fence: int
    events: tuple[SealedEvent, ...]
    projection: Projection
    evidence: tuple[Evidence, ...] = ()
    reserve: KeyRecord | None = None
    replaces: str = ""
    settle: tuple[str, int] | None = None
    """(status, expires_us) for the action's own idempotency record."""
    counts: tuple[Count, ...] = ()
    freezes: tuple[Freeze, ...] = ()
    lifts: tuple[str, ...] = ()
    """Subjects no longer frozen by this action."""
    require_not_frozen: tuple[str, ...] = ()
    """If one of these subjects is frozen, the result is Frozen."""
    incidents: tuple[Incident, ...] = ()
    closes: tuple[str, ...] = ()
    """Ids of incidents closed now, at the projection's `updated_us`."""
    relies: tuple[str, ...] = ()
    """Claims behind this action."""
    in_flight_max: int = 0
    """The tenant's limit of other waiting actions; 0: no limit. Beyond the limit the result is TooManyInFlight."""
    erases: Erasure | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """Durable. `version` is the action's new version. `seq` is the position of the last event, 0 if assigned later."""

    version: int
    seq: int


@dataclass(frozen=True, slots=True)
class VersionConflict:
    """Another worker moved the action on, or holds its lease now. Nothing of this append was stored."""

    version: int
    fence: int


@dataclass(frozen=True, slots=True)
class KeyConflict:
    """The idempotency key belongs to another action. Nothing of this append was stored."""

    record: KeyRecord


@dataclass(frozen=True, slots=True)
class Frozen:
    """A subject of the action is frozen. Nothing of this append was stored."""

    freeze: Freeze


@dataclass(frozen=True, slots=True)
class TooManyInFlight:
    """The tenant's limit of actions in flight is reached. Nothing of this append was stored."""

    in_flight: int


AppendResult = Appended | VersionConflict | KeyConflict | Frozen | TooManyInFlight


@dataclass(frozen=True, slots=True)
class ActionFilter:
    """Which actions to list: empty fields match everything. Newest first, or oldest first with `oldest`."""

    tenant: str = ""
    state: str = ""
    contract: str = ""
    run: str = ""
    before_id: str = ""
    limit: int = 50
    kind: str = ""
    saga: str = ""
    review: bool = False
    """Only actions awaiting a review."""
    claim: bool = False
    """Only actions with a contested, retracted or reinstated claim."""
    open: bool = False
    """Only unsettled actions (`store_rules.OPEN_STATES`), found by state without reading settled actions."""
    hold: str = ""
    """Only actions with this hold: approval, frozen, restored."""
    after_id: str = ""
    """Only actions with a later id."""
    oldest: bool = False
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The preconditions of a new action. `record`: its key's record, if any. `counts`: the tenant's counters above
    zero, by subject and name. `freeze`: the oldest freeze of its subjects.
    """

    record: KeyRecord | None
    counts: Mapping[tuple[str, str], int]
    freeze: Freeze | None


class LedgerStore(SealedLog, Outbox, Protocol):
    """Durable, append-only, compare-and-swap. Trusted to keep acknowledged appends, and no more.

    Every method may raise `StoreError` (a subclass names the cause: locked, read-only, full, corrupt, of another
    version), and then has changed nothing. Methods may be called from any thread. Several processes may use one store.
    Each append is one transaction, on disk on return.

    With `sequences_asynchronously`, an append is durable before its entries have positions in the log.
    `assign_sequence_numbers` assigns them. Until then the entries belong to their action like any others, and not to
    the log: `scan`, `pick`, `entries` and `last_seq` do not see them. Otherwise the append itself assigns positions.
    """

    @property
    def sequences_asynchronously(self) -> bool:
        """Whether only `assign_sequence_numbers` assigns positions in the log."""
        ...

    def assign_sequence_numbers(self, limit: int) -> int:
        """Assign positions to up to `limit` waiting entries. Returns the number of assigned positions.

        Positions are dense and unique, in the order of arrival. So an action's entries keep their order, and the
        visible part of the log never changes. Each call assigns all of its positions or none. Any process may call at
        any time, and one at a time assigns: 0 means another process assigns now, or nothing can be assigned now. Always
        0 if appends assign positions. May be repeated after an error.
        """
        ...

    def unsequenced(self, limit: int) -> list[StoredEvent]:
        """Up to `limit` entries without a position, in the order of arrival."""
        ...

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        """Make each append durable, each whole or not at all, all in one transaction.

        The results follow the order of `batch`. One append's conflict does not affect the others. Two appends of one
        batch may belong to one action only in order. If the transaction fails, nothing is stored and StoreError is
        raised. May be repeated after an error: the version compare rules out a second success.
        """
        ...

    def events(self, action_id: str) -> list[StoredEvent]:
        """All events of an action in order; empty if there is none."""
        ...

    def projection(self, action_id: str) -> StoredProjection | None:
        """The action's current projection."""
        ...

    def key(self, tenant: str, key_hash: str) -> KeyRecord | None:
        """The idempotency record under this key."""
        ...

    def by_stamp(self, tenant: str, stamp: str) -> str | None:
        """The id of the action with this stamp."""
        ...

    def due(self, now_us: int, limit: int, tenant: str = "", known: ContractFilter | None = None) -> list[str]:
        """Ids of due actions without a live lease, longest due first; with `known`, only those covered.

        A lease past its time is not live. With several tenants, each tenant's first precedes any tenant's second: no
        tenant waits behind another's backlog. Verified actions under watch come last.
        """
        ...

    def next_due_us(self, tenant: str = "") -> int | None:
        """When the next action becomes due (for a leased action: the lease's end), or None."""
        ...

    def lease(self, action_id: str, owner: str, now_us: int, until_us: int, dead: str = "") -> int | None:
        """Acquire the action's lease. Returns the new fence, or None if another owner's lease is live.

        A live lease is not granted twice, not even to its owner. `dead` names an owner known to be gone; its lease does
        not count. Durable, since a forgotten fence fences nothing.

        A store shared by hosts may measure leases by its own clock, so that hosts with differing clocks agree. Then a
        lease lasts for `until_us - now_us` from now on, and an append's lease for `lease_until_us - updated_us` of its
        projection; `due` and this method judge by the store's clock. The projection keeps the values as given.
        """
        ...

    def owners(self) -> list[str]:
        """All lease owners, with live or expired leases."""
        ...

    def release(self, owner: str) -> None:
        """End every lease of an owner known to be gone; the fences stay."""
        ...

    def make_due(self, action_id: str, at_us: int) -> bool:
        """Move the due time forward to `at_us`. Returns False if the action is not waiting."""
        ...

    def page(self, query: ActionFilter) -> list[StoredProjection]:
        """A page of actions."""
        ...

    def counted(self, query: ActionFilter) -> int:
        """The number of matching actions of one tenant, counted up to `query.limit`. Reads no more than these."""
        ...

    def evidence(self, tenant: str, action_id: str, digest: str) -> Evidence | None:
        """The action's bytes under a digest, or a text of the tenant's contracts; None if absent or erased.

        The digest is recomputed on reading: a difference raises StoreCorruptError.
        """
        ...

    def erased(self, tenant: str, action_id: str, digest: str) -> bool:
        """Whether this evidence of the action was erased: the digest is known, and the bytes are gone. A later append
        of the same evidence restores the bytes.
        """
        ...

    def keeper(self, tenant: str, digest: str) -> str | None:
        """The id of an action with this evidence, present or erased; None if there is none. Searches all evidence: for
        a person's question, not for regular work.
        """
        ...

    def purge(self) -> bool:
        """Remove all traces of erased evidence from the store's own files. Returns True when complete.

        Returns False while a reader holds an older state: call again later. Copies of the files are out of reach.
        """
        ...

    def last_seq(self) -> int:
        """The position of the last entry, 0 for an empty log."""
        ...

    def count(self, tenant: str, subject: str, name: str) -> int:
        """The current value of a counter."""
        ...

    def counts(self, tenant: str) -> list[tuple[str, str, int]]:
        """All counters of a tenant above zero: (subject, name, value)."""
        ...

    def dependants(self, tenant: str, claim: str, limit: int) -> list[str]:
        """Ids of the actions depending on a claim, oldest first."""
        ...

    def relies(self, tenant: str, claim: str, action_id: str) -> bool:
        """Whether the action is recorded as depending on the claim."""
        ...

    def reliances(self) -> Iterator[tuple[str, str, str]]:
        """All recorded dependencies as (tenant, claim, action id), streamed."""
        ...

    def freezes(self, tenant: str) -> list[Freeze]:
        """A tenant's freezes, oldest first."""
        ...

    def frozen(self, tenant: str, subjects: Sequence[str]) -> Freeze | None:
        """The oldest freeze of these subjects."""
        ...

    def opening(self, tenant: str, key_hash: str, subjects: Sequence[str]) -> Opened:
        """The results of `key`, `counts` and `frozen` in one read: every new action needs all of them."""
        ...

    def incidents(self, tenant: str = "", *, open_only: bool = True, named: str = "") -> list[Incident]:
        """The incidents of a tenant, or of all tenants, newest first; with `named`, only the incident of this id."""
        ...

    def in_flight(self, tenant: str) -> int:
        """The number of a tenant's waiting actions, without verified actions under watch."""
        ...

    def evidence_bytes(self, tenant: str) -> int:
        """The stored bytes of evidence of a tenant: each action's own, and each contract's text once. Every append
        updates the number, so asking has a constant cost.
        """
        ...

    def pace(self, tenant: str, now_us: int, wanted_us: int, per_minute: int) -> int:
        """Reserve a read: the first moment from `wanted_us` on in a minute with fewer than `per_minute` reservations.

        Durable, and shared by all processes. Minutes before `now_us` are forgotten. A read is delayed by a day at most,
        and never refused.
        """
        ...

    def scan(self, after_seq: int = 0) -> Iterator[StoredEvent]:
        """The whole log in order, streamed."""
        ...

    def pick(self, after_seq: int, kinds: Sequence[str], limit: int) -> list[StoredEvent]:
        """Up to `limit` entries of these kinds after a position in the log, in log order."""
        ...

    def projections(self, tenant: str = "") -> Iterator[StoredProjection]:
        """Every projection (of one tenant, if named), by action id, streamed."""
        ...

    def proposed(self, since_us: int, until_us: int) -> Iterator[StoredProjection]:
        """The projections of actions with a first entry from `since_us` to before `until_us`, streamed.

        In the order of these moments, then of the ids. No other action is read.
        """
        ...

    def histories(self) -> Iterator[tuple[StoredProjection, list[StoredEvent]]]:
        """Every action by id with all its events, streamed. The events may be newer than the projection."""
        ...

    def bodies(self, tenant: str, asked: Collection[Kept]) -> dict[Kept, tuple[str, bytes]]:
        """Media and bytes of evidence, as stored and without recomputing digests, many at a time. May omit large
        bodies.
        """
        ...

    def keys(self, tenant: str, key_hashes: Sequence[str]) -> dict[str, KeyRecord]:
        """The existing idempotency records under these keys."""
        ...

    def close(self) -> None:
        """Release all resources. May be called twice."""
        ...


@runtime_checkable
class OwnClock(Protocol):
    """An addition for stores shared by machines with differing clocks: the store's own clock serves all."""

    def clock_us(self) -> int | None:
        """The time now, in microseconds since the epoch; None if the callers' clock counts. Raises StoreError."""
        ...
