"""The ledger store in memory, with every promise of a real store except durability.

For tests and simulations. Faults come on order, in pairs: a failing append without an effect, and a failing append with
an effect. Never use this store for appends that must outlive the process.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from itertools import islice

from readback.canon.digest import sha256_hex
from readback.canon.frozen import dataclass
from readback.errors import StoreCorruptError, StoreError
from readback.log.frontier import HashTile
from readback.ports.storage.contract_filter import ContractFilter, version_of
from readback.ports.storage.log import AnchorMark, SealedHead
from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.ports.storage.store import (
    ActionFilter,
    Append,
    Appended,
    AppendResult,
    Erasure,
    Evidence,
    Freeze,
    Frozen,
    Incident,
    KeyConflict,
    KeyRecord,
    Opened,
    StoredEvent,
    StoredProjection,
    TooManyInFlight,
    VersionConflict,
)
from readback.ports.storage.store_rules import (
    MINUTE_US,
    PACE,
    SETTLED,
    SUCCEEDED,
    becomes_due_us,
    closed_error,
    fairly,
    is_contract,
    lease_is_live,
    may_have_key,
    paced,
    refuse_malformed,
)

# The sealed log of the store in memory. Called by that store alone; it forgets when that goes.


@dataclass(slots=True)
class SealedContent:
    """The content shared by several open stores."""

    tiles: dict[tuple[int, int], bytes] = field(default_factory=dict)
    heads: dict[int, SealedHead] = field(default_factory=dict)
    marks: dict[str, AnchorMark] = field(default_factory=dict)


@dataclass(slots=True)
class Kept:
    """The part of the store's content read here."""

    actions: dict[str, StoredProjection]
    events: dict[str, list[StoredEvent]]
    evidence: dict[tuple[str, str, str], Evidence]
    keys: dict[tuple[str, str], KeyRecord]


class MemoryLog:
    """Implements `SealedLog`. The store provides the lock, the entries and the content."""

    def _sealed(self) -> SealedContent:
        raise NotImplementedError

    def _entries(self) -> list[StoredEvent]:
        raise NotImplementedError

    def _unplaced(self) -> deque[StoredEvent]:
        raise NotImplementedError

    def _kept(self) -> Kept:
        raise NotImplementedError

    def histories(self) -> Iterator[tuple[StoredProjection, list[StoredEvent]]]:
        with self._open():
            kept = self._kept()
            found = [(kept.actions[name], list(kept.events.get(name, ()))) for name in sorted(kept.actions)]
        yield from found

    def bodies(self, tenant: str, asked: Collection[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, bytes]]:
        with self._open():
            found = {name: self._kept().evidence.get((tenant, *name)) for name in asked}
        return {name: (held.media, held.body) for name, held in found.items() if held is not None}

    def keys(self, tenant: str, key_hashes: Sequence[str]) -> dict[str, KeyRecord]:
        with self._open():
            found = {key: self._kept().keys.get((tenant, key)) for key in key_hashes}
        return {key: record for key, record in found.items() if record is not None}

    def _open(self) -> threading.Lock:
        raise NotImplementedError

    def assign_sequence_numbers(self, limit: int) -> int:
        with self._open():
            log, waiting = self._entries(), self._unplaced()
            taken = min(max(limit, 0), len(waiting))
            for _ in range(taken):
                placed = replace(waiting.popleft(), seq=len(log) + 1)
                log.append(placed)
                self._kept().events[placed.action_id][placed.version - 1] = placed
            return taken

    def unsequenced(self, limit: int) -> list[StoredEvent]:
        with self._open():
            return list(islice(self._unplaced(), max(limit, 0)))

    def entries(self, after_seq: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        with self._open():
            return [(e.seq, e.envelope, e.leaf) for e in self._entries()[after_seq : after_seq + limit]]

    def tile(self, level: int, place: int) -> bytes | None:
        with self._open():
            return self._sealed().tiles.get((level, place))

    def tiles(self) -> Iterator[HashTile]:
        with self._open():
            found = sorted(self._sealed().tiles.items())
        yield from (HashTile(level, place, hashes) for (level, place), hashes in found)

    def checkpoint(self, size: int | None = None) -> SealedHead | None:
        with self._open():
            heads = self._sealed().heads
            return heads.get(max(heads, default=0) if size is None else size)

    def checkpoints(self) -> Iterator[SealedHead]:
        with self._open():
            found = sorted(self._sealed().heads.items())
        yield from (head for _, head in found)

    def seal(self, after: int, tiles: Sequence[HashTile], head: SealedHead) -> bool:
        with self._open():
            sealed = self._sealed()
            if max(sealed.heads, default=0) != after:
                return False
            sealed.tiles.update({(tile.level, tile.place): tile.hashes for tile in tiles})
            sealed.heads[head.size] = head
            return True

    def cosigned(self, size: int, note: bytes) -> None:
        with self._open():
            heads = self._sealed().heads
            if size in heads:
                heads[size] = replace(heads[size], note=note)

    def anchors(self) -> list[AnchorMark]:
        with self._open():
            return sorted(self._sealed().marks.values(), key=lambda mark: mark.name)

    def mark(self, mark: AnchorMark) -> None:
        with self._open():
            self._sealed().marks[mark.name] = mark


# The outbox's part of the store in memory: positions of subscribers and dead letters.


@dataclass(slots=True)
class OutboxContent:
    """The content shared by several open stores."""

    cursors: dict[str, Cursor] = field(default_factory=dict)
    letters: dict[tuple[int, int, str], DeadLetter] = field(default_factory=dict)


class MemoryOutbox:
    """Implements `Outbox`."""

    def _outbox(self) -> OutboxContent:
        raise NotImplementedError

    def _open(self) -> threading.Lock:
        raise NotImplementedError

    def cursors(self) -> list[Cursor]:
        with self._open():
            return sorted(self._outbox().cursors.values(), key=lambda each: each.name)

    def enrol(self, name: str, after_seq: int) -> Cursor:
        with self._open():
            return self._outbox().cursors.setdefault(name, Cursor(name, after_seq))

    def take_cursor(self, name: str, owner: str, now_us: int, until_us: int, dead: str = "") -> Cursor | None:
        with self._open():
            found = self._outbox().cursors.get(name)
            if found is None or (found.owner != dead and lease_is_live(found.owner, found.until_us, now_us)):
                return None
            taken = self._outbox().cursors[name] = replace(found, owner=owner, until_us=until_us)
            return taken

    def keep_cursor(self, held: Cursor, cursor: Cursor, letters: Sequence[DeadLetter] = ()) -> bool:
        with self._open():
            found = self._outbox().cursors.get(cursor.name)
            if found is None or (found.owner, found.until_us) != (held.owner, held.until_us):
                return False
            self._outbox().cursors[cursor.name] = cursor
            self._outbox().letters.update({_place(letter): letter for letter in letters})
            return True

    def letters(self, subscriber: str = "", *, again: bool = False, limit: int = 1000) -> list[DeadLetter]:
        with self._open():
            held = sorted(self._outbox().letters.items())
        found = [one for _, one in held if subscriber in ("", one.subscriber) and (one.again or not again)]
        return found[: max(limit, 0)]

    def put_letter(self, letter: DeadLetter) -> bool:
        with self._open():
            known = _place(letter) in self._outbox().letters
            if known:
                self._outbox().letters[_place(letter)] = letter
            return known

    def drop_letter(self, letter: DeadLetter) -> None:
        with self._open():
            self._outbox().letters.pop(_place(letter), None)


def _place(letter: DeadLetter) -> tuple[int, int, str]:
    return letter.seq, letter.number, letter.subscriber


@dataclass(slots=True)
class _Content:
    """The content shared by several open stores."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    log: list[StoredEvent] = field(default_factory=list)
    unsequenced: deque[StoredEvent] = field(default_factory=deque)
    """Entries without a position in the log, in order of arrival."""
    sequences_asynchronously: bool = False
    events: dict[str, list[StoredEvent]] = field(default_factory=dict)
    actions: dict[str, StoredProjection] = field(default_factory=dict)
    keys: dict[tuple[str, str], KeyRecord] = field(default_factory=dict)
    evidence: dict[tuple[str, str, str], Evidence] = field(default_factory=dict)
    """By tenant, action ("" for the text of a contract) and digest."""
    erased: set[tuple[str, str, str]] = field(default_factory=set)
    counts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    freezes: dict[tuple[str, str, str], Freeze] = field(default_factory=dict)
    incidents: dict[tuple[str, str], Incident] = field(default_factory=dict)
    reliances: set[tuple[str, str, str]] = field(default_factory=set)
    sealed: SealedContent = field(default_factory=SealedContent)
    outbox: OutboxContent = field(default_factory=OutboxContent)


class MemoryStore(MemoryLog, MemoryOutbox):
    """Implements `LedgerStore`, for any thread of this process."""

    def __init__(self, content: _Content | None = None, *, sequences_asynchronously: bool = False) -> None:
        """`sequences_asynchronously`: `assign_sequence_numbers` assigns positions, as with many appending processes."""
        self._content = content or _Content(sequences_asynchronously=sequences_asynchronously)
        self._faults: deque[bool] = deque()
        self._closed = False

    # --- for tests -----------------------------------------------------------------------------------

    def fail_next(self, *, kept: bool, times: int = 1) -> None:
        """Make the next appends raise StoreError. `kept` makes them durable in spite of the error."""
        self._faults.extend([kept] * times)

    def reopened(self) -> MemoryStore:
        """Return a store over the same content, as another process would open it. This store stays open."""
        return MemoryStore(self._content)

    # --- writing -------------------------------------------------------------------------------------

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        with self._open():
            for item in batch:
                refuse_malformed(item)
            fault = self._faults.popleft() if self._faults else None
            if fault is False:
                raise StoreError("The append failed, as the test ordered; nothing was kept.")
            results = [self._append_one(item) for item in batch]
            if fault is True:
                raise StoreError("The append failed after it was kept, as the test ordered.")
            return results

    def _append_one(self, item: Append) -> AppendResult:
        refusal = self._refusal(item)
        if refusal is not None:
            return refusal
        present = self._content.actions.get(item.action_id)
        version, fence = (present.version, present.fence) if present else (0, 0)
        later = self._content.sequences_asynchronously
        for event in item.events:
            version += 1
            stored = StoredEvent(
                seq=0 if later else len(self._content.log) + 1,
                action_id=item.action_id,
                version=version,
                kind=event.kind,
                at_us=event.at_us,
                envelope=event.envelope,
                leaf=event.leaf,
            )
            (self._content.unsequenced if later else self._content.log).append(stored)
            self._content.events.setdefault(item.action_id, []).append(stored)
        self._put(StoredProjection(item.projection, version, fence))
        self._append_beside(item)
        return Appended(version=version, seq=0 if later else len(self._content.log))

    def _refusal(self, item: Append) -> VersionConflict | KeyConflict | Frozen | TooManyInFlight | None:
        present = self._content.actions.get(item.action_id)
        version, fence = (present.version, present.fence) if present else (0, 0)
        if (item.expected_version, item.fence) != (version, fence):
            return VersionConflict(version=version, fence=fence)
        if item.reserve is not None:
            found = self._content.keys.get((item.tenant, item.reserve.key_hash))
            if found is not None and not may_have_key(item, found):
                return KeyConflict(found)
        freeze = self._frozen(item.tenant, item.require_not_frozen)
        if freeze is not None:
            return Frozen(freeze)
        if item.in_flight_max:
            others = sum(1 for action_id in self._in_flight(item.tenant) if action_id != item.action_id)
            if others >= item.in_flight_max:
                return TooManyInFlight(others)
        return None

    def _frozen(self, tenant: str, subjects: Sequence[str]) -> Freeze | None:
        held = (f for f in self._content.freezes.values() if f.tenant == tenant and f.subject in subjects)
        return min(held, key=lambda f: (f.since_us, f.subject, f.action_id), default=None)

    def _append_beside(self, item: Append) -> None:
        """Apply the parts of an append beside its events and its projection."""
        for evidence in item.evidence:
            owner = "" if is_contract(item.projection, evidence.digest) else item.action_id
            self._content.evidence.setdefault((item.tenant, owner, evidence.digest), evidence)
            self._content.erased.discard((item.tenant, owner, evidence.digest))
        if item.reserve is not None:
            self._content.keys[item.tenant, item.reserve.key_hash] = item.reserve
        if item.settle is not None:
            status, expires_us = item.settle
            key = (item.tenant, item.projection.key_hash)
            record = self._content.keys.get(key)
            if record is not None and record.action_id == item.action_id:
                self._content.keys[key] = replace(record, status=status, expires_us=expires_us)
        for count in item.counts:
            name = (item.tenant, count.subject, count.name)
            was = self._content.counts.get(name, 0)
            self._content.counts[name] = 0 if count.delta is None else was + count.delta
        self._content.reliances.update((item.tenant, claim, item.action_id) for claim in item.relies)
        self._control(item)
        if item.erases is not None:
            self._erase(item, item.erases)

    def _erase(self, item: Append, erases: Erasure) -> None:
        for digest in erases.digests:
            name = (item.tenant, item.action_id, digest)
            if self._content.evidence.pop(name, None) is not None:
                self._content.erased.add(name)

    def _control(self, item: Append) -> None:
        """Freezes and incidents."""
        for freeze in item.freezes:
            self._content.freezes.setdefault((freeze.tenant, freeze.subject, freeze.action_id), freeze)
        for subject in item.lifts:
            self._content.freezes.pop((item.tenant, subject, item.action_id), None)
        for incident in item.incidents:
            same = (i for i in self._content.incidents.values() if (i.tenant, i.cause) == (item.tenant, incident.cause))
            known = next((i for i in same if not i.closed_us), incident)
            counted = known if known is incident else replace(known, seen=known.seen + 1)
            self._content.incidents[counted.tenant, counted.id] = counted
        for incident_id in item.closes:
            ended = self._content.incidents.get((item.tenant, incident_id))
            if ended is not None and not ended.closed_us:
                closed = replace(ended, closed_us=item.projection.updated_us)
                self._content.incidents[item.tenant, incident_id] = closed

    def _put(self, stored: StoredProjection) -> None:
        self._content.actions[stored.projection.action_id] = stored

    # --- reading -------------------------------------------------------------------------------------

    def events(self, action_id: str) -> list[StoredEvent]:
        with self._open():
            return list(self._content.events.get(action_id, ()))

    def projection(self, action_id: str) -> StoredProjection | None:
        with self._open():
            return self._content.actions.get(action_id)

    def key(self, tenant: str, key_hash: str) -> KeyRecord | None:
        with self._open():
            return self._content.keys.get((tenant, key_hash))

    def by_stamp(self, tenant: str, stamp: str) -> str | None:
        with self._open():
            held = (stored.projection for stored in self._content.actions.values() if stamp)
            return min((p.action_id for p in held if (p.tenant, p.stamp) == (tenant, stamp)), default=None)

    def evidence(self, tenant: str, action_id: str, digest: str) -> Evidence | None:
        with self._open():
            kept = self._content.evidence
            found = kept.get((tenant, action_id, digest)) or kept.get((tenant, "", digest))
        if found is not None and sha256_hex(found.body) != digest:
            raise StoreCorruptError(f"Evidence {digest} has other bytes than its digest says.")
        return found

    def erased(self, tenant: str, action_id: str, digest: str) -> bool:
        with self._open():
            return (tenant, action_id, digest) in self._content.erased

    def keeper(self, tenant: str, digest: str) -> str | None:
        with self._open():
            names = [*self._content.evidence, *self._content.erased]  # whose bytes are there comes first
        return next((name for owner, name, one in names if name and (owner, one) == (tenant, digest)), None)

    def purge(self) -> bool:
        with self._open():
            return True

    def last_seq(self) -> int:
        with self._open():
            return len(self._content.log)

    def count(self, tenant: str, subject: str, name: str) -> int:
        with self._open():
            return self._content.counts.get((tenant, subject, name), 0)

    def counts(self, tenant: str) -> list[tuple[str, str, int]]:
        with self._open():
            return sorted(
                (subject, name, value)
                for (owner, subject, name), value in self._content.counts.items()
                if owner == tenant and value > 0 and subject != PACE
            )

    def page(self, query: ActionFilter) -> list[StoredProjection]:
        with self._open():
            found = [stored for stored in self._content.actions.values() if _matches(stored, query)]
        found.sort(key=lambda stored: stored.projection.action_id, reverse=not query.oldest)
        return found[: max(query.limit, 0)]

    def counted(self, query: ActionFilter) -> int:
        return len(self.page(query)) if query.tenant else 0

    def scan(self, after_seq: int = 0) -> Iterator[StoredEvent]:
        seq = max(after_seq, 0)
        while True:
            with self._open():
                if seq >= len(self._content.log):
                    return
                event = self._content.log[seq]
            seq += 1
            yield event

    def pick(self, after_seq: int, kinds: Sequence[str], limit: int) -> list[StoredEvent]:
        with self._open():
            later = self._content.log[max(after_seq, 0) :]
        return [event for event in later if event.kind in kinds][: max(limit, 0)]

    def projections(self, tenant: str = "") -> Iterator[StoredProjection]:
        with self._open():
            ids = sorted(self._content.actions)
        for action_id in ids:
            with self._open():
                stored = self._content.actions[action_id]
            if tenant in ("", stored.projection.tenant):
                yield stored

    def proposed(self, since_us: int, until_us: int) -> Iterator[StoredProjection]:
        with self._open():
            begun = sorted((events[0].at_us, action_id) for action_id, events in self._content.events.items())
        for at_us, action_id in begun:
            if since_us <= at_us < until_us:
                with self._open():
                    stored = self._content.actions[action_id]
                yield stored

    def dependants(self, tenant: str, claim: str, limit: int) -> list[str]:
        with self._open():
            found = [action for at, upon, action in self._content.reliances if (at, upon) == (tenant, claim)]
        return sorted(found)[:limit]

    def relies(self, tenant: str, claim: str, action_id: str) -> bool:
        with self._open():
            return (tenant, claim, action_id) in self._content.reliances

    def reliances(self) -> Iterator[tuple[str, str, str]]:
        with self._open():
            found = sorted(self._content.reliances)
        yield from found

    # --- freezes and incidents -----------------------------------------------------------------------

    def freezes(self, tenant: str) -> list[Freeze]:
        with self._open():
            held = [freeze for freeze in self._content.freezes.values() if freeze.tenant == tenant]
        return sorted(held, key=lambda f: (f.since_us, f.subject, f.action_id))

    def frozen(self, tenant: str, subjects: Sequence[str]) -> Freeze | None:
        with self._open():
            return self._frozen(tenant, subjects)

    def opening(self, tenant: str, key_hash: str, subjects: Sequence[str]) -> Opened:
        counts = {(subject, name): value for subject, name, value in self.counts(tenant)}
        return Opened(self.key(tenant, key_hash), counts, self.frozen(tenant, subjects))

    def incidents(self, tenant: str = "", *, open_only: bool = True, named: str = "") -> list[Incident]:
        with self._open():
            held = [
                each
                for each in self._content.incidents.values()
                if tenant in ("", each.tenant) and named in ("", each.id) and not (open_only and each.closed_us)
            ]
        return sorted(held, key=lambda each: (-each.opened_us, each.tenant, each.id))

    def in_flight(self, tenant: str) -> int:
        with self._open():
            return len(self._in_flight(tenant))

    def evidence_bytes(self, tenant: str) -> int:
        with self._open():
            return sum(len(kept.body) for (owner, *_), kept in self._content.evidence.items() if owner == tenant)

    def pace(self, tenant: str, now_us: int, wanted_us: int, per_minute: int) -> int:
        with self._open():
            counts = self._content.counts
            own = {name: n for (owner, subject, name), n in counts.items() if (owner, subject) == (tenant, PACE)}
            for name in own:
                if int(name) < now_us // MINUTE_US:
                    del counts[tenant, PACE, name]
            at_us = paced({int(name): n for name, n in own.items()}, wanted_us, per_minute)
            key = (tenant, PACE, str(at_us // MINUTE_US))
            counts[key] = counts.get(key, 0) + 1
            return at_us

    # --- due and leases ------------------------------------------------------------------------------

    def due(self, now_us: int, limit: int, tenant: str = "", known: ContractFilter | None = None) -> list[str]:
        with self._open():
            ready: dict[str, list[tuple[int, str]]] = {}
            watched: dict[str, list[tuple[int, str]]] = {}
            for at_us, action_id in self._waiting(tenant):
                held = self._content.actions[action_id].projection
                version = (held.kind, held.contract, version_of(held))
                until_us = now_us if known is None else known.until_us(*version, now_us)
                if until_us is not None and at_us <= until_us:
                    found = watched if held.state == SUCCEEDED else ready
                    found.setdefault(held.tenant, []).append((at_us, action_id))
            first = fairly(ready.values(), limit)
            return first + fairly(watched.values(), max(limit, 0) - len(first))

    def next_due_us(self, tenant: str = "") -> int | None:
        with self._open():
            return next((at_us for at_us, _ in self._waiting(tenant)), None)

    def _in_flight(self, tenant: str) -> list[str]:
        actions = self._content.actions
        return [found for _, found in self._waiting(tenant) if actions[found].projection.state != SUCCEEDED]

    def _waiting(self, tenant: str) -> list[tuple[int, str]]:
        found = []
        for action_id, stored in self._content.actions.items():
            held = stored.projection
            at_us = becomes_due_us(held.due_us, held.lease_owner, held.lease_until_us)
            if at_us is not None and tenant in ("", held.tenant):
                found.append((at_us, action_id))
        return sorted(found)

    def lease(self, action_id: str, owner: str, now_us: int, until_us: int, dead: str = "") -> int | None:
        with self._open():
            stored = self._content.actions.get(action_id)
            if stored is None:
                return None
            held = stored.projection
            if held.lease_owner != dead and lease_is_live(held.lease_owner, held.lease_until_us, now_us):
                return None
            taken = replace(held, lease_owner=owner, lease_until_us=until_us)
            self._put(StoredProjection(taken, stored.version, stored.fence + 1))
            return stored.fence + 1

    def owners(self) -> list[str]:
        with self._open():
            return sorted({s.projection.lease_owner for s in self._content.actions.values()} - {""})

    def release(self, owner: str) -> None:
        with self._open():
            for stored in list(self._content.actions.values()):
                if stored.projection.lease_owner == owner:
                    freed = replace(stored.projection, lease_owner="", lease_until_us=0)
                    self._put(StoredProjection(freed, stored.version, stored.fence))

    def make_due(self, action_id: str, at_us: int) -> bool:
        with self._open():
            stored = self._content.actions.get(action_id)
            if stored is None or stored.projection.due_us is None:
                return False
            woken = replace(stored.projection, due_us=min(stored.projection.due_us, at_us))
            self._put(StoredProjection(woken, stored.version, stored.fence))
            return True

    # --- the sealed log ------------------------------------------------------------------------------

    def _sealed(self) -> SealedContent:
        return self._content.sealed

    def _entries(self) -> list[StoredEvent]:
        return self._content.log

    def _unplaced(self) -> deque[StoredEvent]:
        return self._content.unsequenced

    def _kept(self) -> Kept:
        return Kept(self._content.actions, self._content.events, self._content.evidence, self._content.keys)

    @property
    def sequences_asynchronously(self) -> bool:
        return self._content.sequences_asynchronously

    def _outbox(self) -> OutboxContent:
        return self._content.outbox

    # --- the end -------------------------------------------------------------------------------------

    def close(self) -> None:
        self._closed = True

    def _open(self) -> threading.Lock:  # the lock, if there is still something to lock
        if self._closed:
            raise closed_error()
        return self._content.lock


def _matches(stored: StoredProjection, query: ActionFilter) -> bool:
    held = stored.projection
    return (
        query.tenant in ("", held.tenant)
        and query.state in ("", held.state)
        and query.contract in ("", held.contract)
        and query.run in ("", held.run)
        and query.kind in ("", held.kind)
        and query.saga in ("", held.saga)
        and query.hold in ("", held.hold)
        and (not query.review or held.review != "")
        and (not query.claim or held.claim != "")
        and not (query.open and held.state in SETTLED)
        and (not query.before_id or held.action_id < query.before_id)
        and (not query.after_id or held.action_id > query.after_id)
    )
