"""The ledger store: one append, and reading ports beside it.

Called by the drivers (append, lease) and by surfaces that list and show. It stores bytes and
small columns and decides nothing: which event may follow which is the engine's business.
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
    """A sealed event in its place: `seq` in the whole log, `version` (1, 2, ...) in its action.

    `seq` 0: it is durable, and its place in the log is given later (see `LedgerStore.take_places`).
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
    """What the events of one action amount to now; written with them, never by itself.

    `due_us`: when somebody has to look at it again, or None. `lease_owner` and `lease_until_us`:
    who works on it now. The store adds `version` and `fence`.
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
    """Why a person has to look at it; "" where nobody has to."""
    incident: str = ""
    """The cause of the incident that it opened or added to."""
    saga: str = ""
    """The saga that it is a step of."""
    claim: str = ""
    """The worst that was said against what it claims: contested, retracted, reinstated; "" where nothing was."""


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
    """Bytes kept for an action under their SHA-256 (hex). A contract's text is kept once for a tenant."""

    digest: str
    media: str
    body: bytes


Kept: TypeAlias = tuple[str, str]
"""Evidence by the action that keeps it and its digest. No action ("") keeps the text of a contract."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """Evidence of an action whose bytes are to go with an append of the `erased` entry that names it; the digest stays.

    Other actions that recorded the same bytes have their own. A contract's text does not go.
    """

    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """A counter of consecutive faults: `delta` is added; None sets it back to zero."""

    subject: str
    name: str
    delta: int | None


@dataclass(frozen=True, slots=True)
class Freeze:
    """Nothing new may act on `subject` until the action that froze it has been dealt with.

    `subject`: `resource:<target>`, `principal:<name>`, `tool:<contract>` or `tenant:<name>`. One subject may be frozen
    by several actions; it is free when the last of them is lifted.
    """

    tenant: str
    subject: str
    action_id: str
    reason: str
    since_us: int


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that somebody has to be called for. While one of a cause is open, a second only counts in `seen`.

    `closed_us`: 0 while it is open.
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
    """All that one step makes durable, together or not at all.

    `expected_version` 0 creates the action. `fence` must be the one of the lease held (0 for a new
    action). `reserve` inserts an idempotency record, or finds the one that is there; a reservation
    may replace a record that `replaces` names by action id, unless that is open (PENDING) by then.
    `settle` updates the status of the action's own record.
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
    """Subjects that this action had frozen, and no longer does."""
    unless_frozen: tuple[str, ...] = ()
    """Subjects of which none may be frozen; else the answer is Frozen."""
    incidents: tuple[Incident, ...] = ()
    closes: tuple[str, ...] = ()
    """Ids of incidents that end now, at the projection's `updated_us`."""
    relies: tuple[str, ...] = ()
    """Claims that this action was planned upon."""
    in_flight_max: int = 0
    """How many other actions of the tenant may be waiting for something; 0: any number. Else the answer is Crowded."""
    erases: Erasure | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """Durable. `version` is the action's version now; `seq` the place of the last event, 0 where it is given later."""

    version: int
    seq: int


@dataclass(frozen=True, slots=True)
class VersionConflict:
    """Somebody else moved the action on (or holds its lease now): nothing of this append was kept."""

    version: int
    fence: int


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """The idempotency key is another action's: nothing of this append was kept."""

    record: KeyRecord


@dataclass(frozen=True, slots=True)
class Frozen:
    """Something that the action would act on is frozen: nothing of this append was kept."""

    freeze: Freeze


@dataclass(frozen=True, slots=True)
class Crowded:
    """The tenant has as many actions in flight as it may: nothing of this append was kept."""

    in_flight: int


AppendResult = Appended | VersionConflict | KeyTaken | Frozen | Crowded


@dataclass(frozen=True, slots=True)
class ActionFilter:
    """Which actions to list: empty fields match everything. Newest first."""

    tenant: str = ""
    state: str = ""
    contract: str = ""
    run: str = ""
    before_id: str = ""
    limit: int = 50
    kind: str = ""
    saga: str = ""
    review: bool = False
    """Only what a person has to look at."""
    claim: bool = False
    """Only what something was said against."""
    open: bool = False
    """Only what is not settled (`store_rules.OPEN_STATES`). It is found by its state: settled actions are not read."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a new action meets. `record`: its key's, where there is one; `counts`: the tenant's counters above zero, by
    subject and name; `freeze`: the oldest of what it would act on.
    """

    record: KeyRecord | None
    counts: Mapping[tuple[str, str], int]
    freeze: Freeze | None


class LedgerStore(SealedLog, Outbox, Protocol):
    """Durable, append-only, compare-and-swap. Trusted to keep what it acknowledged, and no more.

    Every method may raise `StoreError` (a typed child says which: locked, read-only, full, corrupt,
    of another version) and then has changed nothing. Methods may be called from any thread. Several
    processes may use one store; each append is one transaction that is on disk when it returns.

    `places_later`: an append is durable before its entries have their places in the log, which `take_places` gives.
    Until then they belong to their action like any others, and are no part of the log: what asks for the log (`scan`,
    `pick`, `entries`, `last_seq`) does not see them. Elsewhere the places come with the append.
    """

    @property
    def places_later(self) -> bool:
        """Whether places in the log are given by `take_places` only."""
        ...

    def take_places(self, limit: int) -> int:
        """Give places to up to `limit` entries that have none, and say how many got one.

        Dense, unique, in the order of arrival, so that the entries of an action keep theirs, and that what is visible
        of the log never changes; all of the call's or none. Any process may call it at any time, and one at a time
        does it: 0 says that somebody else does, or that nothing can be placed now. Always 0 where places come with the
        append. May be repeated after an error.
        """
        ...

    def unplaced(self, limit: int) -> list[StoredEvent]:
        """Up to `limit` of the entries that have no place yet, in the order of arrival; empty where there are none."""
        ...

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        """Make each append durable, each whole or not at all, all in one transaction.

        The results stand in the order of `batch`. A conflict of one does not touch the others. Two
        appends of one batch may belong to one action only in order. Where the transaction fails,
        none was kept and a StoreError is raised. May be repeated after an error: the version
        compare makes a second success impossible.
        """
        ...

    def events(self, action_id: str) -> list[StoredEvent]:
        """All events of an action in order; empty if there is none."""
        ...

    def projection(self, action_id: str) -> StoredProjection | None:
        """The action's present projection."""
        ...

    def key(self, tenant: str, key_hash: str) -> KeyRecord | None:
        """The idempotency record under this key."""
        ...

    def by_stamp(self, tenant: str, stamp: str) -> str | None:
        """The id of the action with this stamp."""
        ...

    def due(self, now_us: int, limit: int, tenant: str = "", known: ContractFilter | None = None) -> list[str]:
        """Ids of actions whose due time has come and which nobody holds a live lease on, the longest
        due first; where `known` is given, of those that it covers. A lease past its time is not live. Where several
        tenants have some, each tenant's first comes before any tenant's second: nobody waits behind another's backlog.
        What has succeeded, and is only looked at again, comes after everything else."""
        ...

    def next_due_us(self, tenant: str = "") -> int | None:
        """When the next action becomes due (a leased one: when its lease ends), or None."""
        ...

    def lease(self, action_id: str, owner: str, now_us: int, until_us: int, dead: str = "") -> int | None:
        """Take the action's lease: the new fence, or None if somebody else's is live.

        A live lease is not given twice, not even to its owner. `dead` names an owner known to be gone:
        its lease does not count. Durable, since a fence that is forgotten fences nothing.

        A store that hosts share may measure leases by its own clock, so that hosts whose clocks are apart agree: then
        one lasts for `until_us - now_us` from now on, and one of an append for its projection's `lease_until_us -
        updated_us`; `due` and this method judge it by that clock. What a projection says stays as it was said.
        """
        ...

    def owners(self) -> list[str]:
        """Everybody who holds a lease, live or past its time."""
        ...

    def release(self, owner: str) -> None:
        """End every lease of an owner that is known to be gone; the fences stay as they are."""
        ...

    def wake(self, action_id: str, at_us: int) -> bool:
        """Bring the due time forward to `at_us`; false if the action waits for nothing."""
        ...

    def page(self, query: ActionFilter) -> list[StoredProjection]:
        """A page of actions."""
        ...

    def evidence(self, tenant: str, action_id: str, digest: str) -> Evidence | None:
        """The bytes that the action keeps under a digest, or a text of the tenant's contracts; None if absent or
        erased. The digest is recomputed on reading: a difference raises StoreCorruptError."""
        ...

    def erased(self, tenant: str, action_id: str, digest: str) -> bool:
        """Whether this evidence of the action was erased: its digest is known, and its bytes are gone. Evidence that is
        appended again after that has its bytes again."""
        ...

    def keeper(self, tenant: str, digest: str) -> str | None:
        """The id of an action that keeps, or kept, this evidence; None where there is none. It looks through all
        evidence: for a person's question, and not for work."""
        ...

    def purge(self) -> bool:
        """Nothing of what was erased is left in the store's own files when this returns true.

        False where somebody holds on to what was there before: call it again then. What was copied from the files is
        out of its reach.
        """
        ...

    def last_seq(self) -> int:
        """The place of the last entry, 0 where there is none."""
        ...

    def count(self, tenant: str, subject: str, name: str) -> int:
        """The present value of a counter."""
        ...

    def counts(self, tenant: str) -> list[tuple[str, str, int]]:
        """All counters of a tenant above zero: (subject, name, value)."""
        ...

    def dependants(self, tenant: str, claim: str, limit: int) -> list[str]:
        """Ids of the actions that were planned upon a claim, the oldest first."""
        ...

    def relies(self, tenant: str, claim: str, action_id: str) -> bool:
        """Whether it is kept that the action was planned upon the claim."""
        ...

    def reliances(self) -> Iterator[tuple[str, str, str]]:
        """All that is kept of who was planned upon what, as (tenant, claim, action id), streamed."""
        ...

    def freezes(self, tenant: str) -> list[Freeze]:
        """What is frozen in a tenant, the oldest first."""
        ...

    def frozen(self, tenant: str, subjects: Sequence[str]) -> Freeze | None:
        """The oldest freeze of one of these subjects."""
        ...

    def opening(self, tenant: str, key_hash: str, subjects: Sequence[str]) -> Opened:
        """What `key`, `counts` and `frozen` answer, in one look: every new action asks for all of it."""
        ...

    def incidents(self, tenant: str = "", *, open_only: bool = True, named: str = "") -> list[Incident]:
        """A tenant's incidents (or everybody's), the newest first; of this id alone where one is `named`."""
        ...

    def in_flight(self, tenant: str) -> int:
        """How many actions of a tenant wait for something; what has succeeded and is only looked at again is none."""
        ...

    def evidence_bytes(self, tenant: str) -> int:
        """How many bytes of evidence are kept for a tenant, each action's own and each contract's text once. A number
        that every append keeps up: asking costs the same however much there is."""
        ...

    def pace(self, tenant: str, now_us: int, wanted_us: int, per_minute: int) -> int:
        """Reserve a look: the first moment from `wanted_us` on in whose minute fewer than `per_minute` are reserved.

        Durable, and the same for every process. Minutes before `now_us` are forgotten. A look is put off by a day at
        most, and never refused.
        """
        ...

    def scan(self, after_seq: int = 0) -> Iterator[StoredEvent]:
        """The whole log in order, streamed."""
        ...

    def pick(self, after_seq: int, kinds: Sequence[str], limit: int) -> list[StoredEvent]:
        """Up to `limit` entries after a place in the log, in its order, that are of one of these kinds."""
        ...

    def projections(self, tenant: str = "") -> Iterator[StoredProjection]:
        """Every projection (of one tenant, where one is named), by action id, streamed."""
        ...

    def proposed(self, since_us: int, until_us: int) -> Iterator[StoredProjection]:
        """The projections of actions whose first entry is of a moment from `since_us` to before `until_us`, streamed.

        In the order of these moments, then of the ids. No other action is read.
        """
        ...

    def histories(self) -> Iterator[tuple[StoredProjection, list[StoredEvent]]]:
        """Every action by its id with all its events, streamed. The events may be younger than the projection."""
        ...

    def bodies(self, tenant: str, asked: Collection[Kept]) -> dict[Kept, tuple[str, bytes]]:
        """Media and bytes of evidence, as kept and not recomputed, many at a time. May leave out what is large."""
        ...

    def keys(self, tenant: str, key_hashes: Sequence[str]) -> dict[str, KeyRecord]:
        """The idempotency records under these keys, as far as there are some."""
        ...

    def close(self) -> None:
        """Give everything back. May be called twice."""
        ...


@runtime_checkable
class OwnClock(Protocol):
    """What a store of many machines has beside: they may differ in what time it is, and its own is one for all."""

    def clock_us(self) -> int | None:
        """The time now, in microseconds since the epoch; None where the callers' clock counts. Raises StoreError."""
        ...
