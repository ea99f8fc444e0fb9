"""A group of changes in one transaction. Each change is checked before any write.

Called by the group's leader, inside an open transaction. Nothing is written before `flush`, so a conflicting append
leaves no trace. Unwritten changes of earlier appends are visible through the heads, `_keys` and `_settled`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, cast

import apsw

from readback.canon.frozen import dataclass
from readback.ports.storage.store import (
    Append,
    Appended,
    AppendResult,
    Erasure,
    Evidence,
    Freeze,
    Frozen,
    KeyConflict,
    KeyRecord,
    Projection,
    TooManyInFlight,
    VersionConflict,
)
from readback.ports.storage.store_rules import MINUTE_US, PACE, becomes_due_us, is_contract, may_have_key, paced
from readback.stores.sqlite import rows
from readback.stores.sqlite.schema import Watched

_Payload: TypeAlias = tuple[str, str, bytes, str, bytes]
"""A row: the action, the tenant, the digest, the media type, the bytes."""
KNOWN_HEADS_MAX: Final = 4096
"""Actions whose version is cached between transactions; about 2 MB."""


@dataclass(slots=True)
class _Head:
    """The state of an action: in the database, and after this group's changes."""

    version: int
    fence: int
    seldom: tuple[str, ...] | None
    """The indexed columns as in the database. None: the action is not in the database."""


class WriteCache:
    """State after the last transaction, valid only without writes by other connections.

    SQLite counts the changes a connection makes or notices. The count is read inside the next transaction, with all
    other writers locked out. An equal count means equal content.
    """

    def __init__(self, connection: apsw.Connection, watched: Watched) -> None:
        self._connection, self._watched = connection, watched
        self._count = -1
        self.last_seq: int | None = None
        self.freezes: bool | None = None
        """Whether any freeze exists. Without freezes no look-up is needed."""
        self.heads: dict[str, _Head] = {}
        self.contracts: set[tuple[str, str]] = set()
        """Stored contract texts, by tenant and digest. Each action brings its contract's text."""

    def invalidate_if_changed(self) -> None:
        """At the start of a transaction: drop the cache if the database has changed."""
        if self._connection.data_version() != self._count or len(self.heads) > KNOWN_HEADS_MAX:
            self._watched.look()  # the writer may have been a newer release with a migration
            self.forget()

    def mark_current(self) -> None:
        """After a commit: mark the cache as equal to the database."""
        self._count = self._connection.data_version()

    def forget(self) -> None:
        """After a failed transaction: drop the cache."""
        self._count = -1
        self.last_seq = None
        self.freezes = None
        self.heads.clear()
        self.contracts.clear()


class Transaction:
    """The changes of one group. `flush` writes the collected changes. The caller begins and commits."""

    def __init__(self, connection: apsw.Connection, known: WriteCache, *, optimistic: bool = False) -> None:
        """`optimistic`: an action declared new is written as new, including its key, without a look-up.

        If the declaration is wrong, a constraint fails and the caller begins again without trust.
        """
        known.invalidate_if_changed()
        self._optimistic = optimistic
        self._new_keys: set[tuple[str, str]] = set()
        self._connection = connection
        self._known = known
        self._heads = known.heads
        self._found: dict[tuple[str, str], KeyRecord | None] = {}
        self._keys: dict[tuple[str, str], KeyRecord] = {}
        self._settled: dict[tuple[str, str, str], tuple[str, int]] = {}
        self._projections: dict[str, Projection] = {}
        self._events: list[rows.Row] = []
        self._payloads: list[rows.Row] = []
        self._texts: list[rows.Row] = []
        self._counts: dict[tuple[str, str, str], tuple[bool, int]] = {}

    def look_up(self, items: Sequence[Append]) -> None:
        """Fetch the required rows of many appends in a few statements."""
        items = [item for item in items if not self._is_new(item)]
        heads = {item.action_id: _Head(0, 0, None) for item in items if item.action_id not in self._heads}
        for piece in _pieces(list(heads)):
            for row in self._all(rows.SELECT_HEADS, piece):
                heads[cast("str", row[0])] = _head_of(row)
        self._heads.update(heads)
        keys: dict[str, list[str]] = {}
        for item in items:
            if item.reserve is not None:
                keys.setdefault(item.tenant, []).append(item.reserve.key_hash)
        for tenant, hashes in keys.items():
            self._found.update(dict.fromkeys((tenant, key_hash) for key_hash in hashes))
            for piece in _pieces(hashes):
                for row in self._all(rows.SELECT_KEYS, (tenant, *piece)):
                    record = rows.key_record(row)
                    self._found[tenant, record.key_hash] = record

    def append(self, item: Append) -> AppendResult:
        """Accept one append, or return the conflict. Writes only the parts that are rare."""
        new = self._is_new(item)
        # A trusted new action starts at version 0 without a look-up. INSERT_ACTION fails if the action exists.
        head = _Head(0, 0, None) if new else self._head(item.action_id)
        # Another writer advanced the action, or another owner has the lease. The caller reads again and decides anew.
        if head.version != item.expected_version or head.fence != item.fence:
            return VersionConflict(version=head.version, fence=head.fence)
        name = (item.tenant, item.projection.key_hash if item.reserve is None else item.reserve.key_hash)
        if item.reserve is not None:
            # For a trusted new action only this group's keys can conflict here. INSERT_KEY finds the others.
            found = self._keys.get(name) if new else self._key(*name)
            if found is not None and not may_have_key(item, found):
                return KeyConflict(found)
        # Freezes and limits come after version and key: a repeated request must receive its existing action, not a
        # refusal.
        if item.require_not_frozen or item.in_flight_max:
            barred = self._barred(item)
            if barred is not None:
                return barred
        # From here on nothing is refused: a refused append must leave no trace in the group.
        self._heads[item.action_id] = head
        seq = self._add_events(item, head)
        self._projections[item.action_id] = item.projection
        for evidence in item.evidence:
            self._keep(item, evidence)
        if item.reserve is not None:
            self._keys[name] = item.reserve
            if new:
                self._new_keys.add(name)
        if item.settle is not None:
            # After the reservation: one append may reserve a key and settle the same key.
            self._settle(item, *item.settle)
        if item.counts:
            self._count(item)
        # The rest is rare, and written at once. Later appends of the group then find it in the database.
        if item.relies:
            self._connection.executemany(
                rows.PUT_RELIANCE, [(item.tenant, claim, item.action_id) for claim in item.relies]
            )
        if item.freezes or item.lifts or item.incidents or item.closes:
            self._control(item)
        if item.erases is not None:
            self._erase(item, item.erases)
        return Appended(version=head.version, seq=seq)

    def flush(self) -> None:
        """Write the collected changes, for later statements of this transaction."""
        run = self._connection.executemany
        if self._projections:
            self._flush_projections()
        if self._events:
            run(rows.INSERT_EVENT, self._events)
        if self._settled:
            run(rows.SETTLE_KEY, [(*value, *name) for name, value in self._settled.items()])
        if self._keys:
            self._flush_keys()
        if self._payloads or self._texts:
            self._flush_evidence()
        if self._counts:
            run(rows.RESET_COUNT, [name for name, (reset, _) in self._counts.items() if reset])
            run(rows.PUT_COUNT, [(*name, value) for name, (_, value) in self._counts.items() if value])
        for gathered in (self._found, self._keys, self._settled, self._projections, self._counts):
            gathered.clear()
        self._events.clear()
        self._payloads.clear()
        self._texts.clear()
        self._new_keys.clear()

    def take_lease(self, values: dict[str, rows.Value]) -> int | None:
        """Return the new fence, or None. See `rows.TAKE_LEASE` for the values."""
        self.flush()
        row = self.one(rows.TAKE_LEASE, values)
        self._heads.pop(cast("str", values["id"]), None)
        return None if row is None else cast("int", row[0])

    def pace(self, tenant: str, now_us: int, wanted_us: int, per_minute: int) -> int:
        """Reserve a read slot and return its time. Rare, so written at once."""
        self.flush()
        self._all(rows.FORGET_PACE, (tenant, PACE, now_us // MINUTE_US))
        taken = {cast("int", minute): cast("int", n) for minute, n in self._all(rows.SELECT_PACE, (tenant, PACE))}
        at_us = paced(taken, wanted_us, per_minute)
        self._all(rows.PUT_COUNT, (tenant, PACE, str(at_us // MINUTE_US), 1))
        return at_us

    def release(self, owner: str) -> None:
        self.flush()
        self._all(rows.RELEASE, (owner,))

    def one(self, sql: str, values: rows.Row | dict[str, rows.Value]) -> rows.Row | None:
        """Return the first row of a statement, run to its end."""
        found = self._all(sql, values)
        return found[0] if found else None

    def _all(self, sql: str, values: rows.Row | dict[str, rows.Value]) -> list[rows.Row]:
        return cast("list[rows.Row]", self._connection.execute(sql, values).fetchall())

    def _is_new(self, item: Append) -> bool:
        """Return whether the append may be trusted as new. Not if another look-up for the append is required."""
        return (
            self._optimistic
            and item.expected_version == item.fence == 0
            and item.action_id not in self._heads
            and not (item.replaces or item.in_flight_max)
            and not (item.require_not_frozen and self._anything_frozen())
        )

    # --- what this group knows -----------------------------------------------------------------------

    def _head(self, action_id: str) -> _Head:
        head = self._heads.get(action_id)
        if head is None:
            row = self.one(rows.SELECT_HEAD, (action_id,))
            head = self._heads[action_id] = _Head(0, 0, None) if row is None else _head_of(row)
        return head

    def _key(self, tenant: str, key_hash: str) -> KeyRecord | None:
        name = (tenant, key_hash)
        if name in self._keys:
            return self._keys[name]
        if name not in self._found:
            row = self.one(rows.SELECT_KEY, name)
            self._found[name] = None if row is None else rows.key_record(row)
        record = self._found[name]
        settled = None if record is None else self._settled.get((*name, record.action_id))
        if record is None or settled is None:
            return record
        return replace(record, status=settled[0], expires_us=settled[1])

    # --- gathering -----------------------------------------------------------------------------------

    def _add_events(self, item: Append, head: _Head) -> int:
        seq, version = self._seq(), head.version
        for event in item.events:
            seq += 1
            version += 1
            self._events.append((seq, item.action_id, version, event.kind, event.at_us, event.envelope, event.leaf))
        self._known.last_seq = seq
        head.version = version
        return seq

    def _seq(self) -> int:
        seq = self._known.last_seq
        if seq is None:
            [(last,)] = self._all("SELECT max(seq) FROM event", ())
            seq = cast("int | None", last) or 0
        return seq

    def _keep(self, item: Append, evidence: Evidence) -> None:
        raw = bytes.fromhex(evidence.digest)
        if not is_contract(item.projection, evidence.digest):
            self._payloads.append((item.action_id, item.tenant, raw, evidence.media, evidence.body))
        elif (item.tenant, evidence.digest) not in self._known.contracts:
            self._known.contracts.add((item.tenant, evidence.digest))
            self._texts.append((item.tenant, raw, evidence.media, evidence.body))

    def _settle(self, item: Append, status: str, expires_us: int) -> None:
        name = (item.tenant, item.projection.key_hash)
        record = self._keys.get(name)
        if record is None:
            self._settled[*name, item.action_id] = (status, expires_us)
        elif record.action_id == item.action_id:
            self._keys[name] = replace(record, status=status, expires_us=expires_us)

    def _count(self, item: Append) -> None:
        for count in item.counts:
            name = (item.tenant, count.subject, count.name)
            reset, value = self._counts.get(name, (False, 0))
            self._counts[name] = (True, 0) if count.delta is None else (reset, value + count.delta)

    # --- freezes, incidents, limits ------------------------------------------------------------------

    def _barred(self, item: Append) -> Frozen | TooManyInFlight | None:
        freeze = self._frozen(item)
        if freeze is not None:
            return Frozen(freeze)
        if item.in_flight_max:
            self.flush()
            [(waiting,)] = self._all(rows.IN_FLIGHT_UP_TO, (item.tenant, item.in_flight_max + 1))
            head = self._heads[item.action_id]
            own = head.version > 0 and self.one(rows.IS_IN_FLIGHT, (item.action_id,))
            others = cast("int", waiting) - (1 if own else 0)
            if others >= item.in_flight_max:
                return TooManyInFlight(others)
        return None

    def _frozen(self, item: Append) -> Freeze | None:
        if not item.require_not_frozen or not self._anything_frozen():
            return None
        row = self.one(rows.select_frozen(len(item.require_not_frozen)), (item.tenant, *item.require_not_frozen))
        return None if row is None else rows.freeze(row)

    def _anything_frozen(self) -> bool:
        if self._known.freezes is None:
            self._known.freezes = self.one(rows.ANY_FREEZE, ()) is not None
        return self._known.freezes

    def _control(self, item: Append) -> None:
        """Write freezes and incidents. Rare, so written at once."""
        run = self._connection.executemany
        if item.freezes or item.lifts:
            run(rows.PUT_FREEZE, [rows.freeze_values(freeze) for freeze in item.freezes])
            run(rows.LIFT, [(item.tenant, subject, item.action_id) for subject in item.lifts])
            self._known.freezes = None
        run(rows.PUT_INCIDENT, [rows.incident_values(incident) for incident in item.incidents])
        at_us = item.projection.updated_us
        run(rows.CLOSE_INCIDENT, [(at_us, item.tenant, incident_id) for incident_id in item.closes])

    def _erase(self, item: Append, erases: Erasure) -> None:
        """Erase evidence. Rare, so written at once, after a flush: the erased evidence may be among the collected
        changes.
        """
        self.flush()
        for digest in erases.digests:
            for row_id, size in self._all(rows.ERASABLE, (item.action_id, bytes.fromhex(digest))):
                self._all(rows.ERASE, (row_id,))
                self._all(rows.PUT_WEIGHT, (item.tenant, -cast("int", size)))

    # --- writing -------------------------------------------------------------------------------------

    def _flush_keys(self) -> None:
        run, new = self._connection.executemany, self._new_keys
        if new:
            run(rows.INSERT_KEY, [rows.key_values(self._keys[name]) for name in new])
        if len(new) < len(self._keys):
            run(rows.PUT_KEY, [rows.key_values(record) for name, record in self._keys.items() if name not in new])

    def _flush_evidence(self) -> None:
        """Write new evidence, and add its size to each tenant's total."""
        run, added = self._connection.executemany, list[tuple[str, int]]()
        if self._payloads:
            added += self._put_payloads()
        if self._texts:
            added += cast("Iterator[tuple[str, int]]", run(rows.PUT_CONTRACT, self._texts))
        sizes: dict[str, int] = {}
        for tenant, size in added:
            sizes[tenant] = sizes.get(tenant, 0) + size
        run(rows.PUT_WEIGHT, sizes.items())

    def _put_payloads(self) -> list[tuple[str, int]]:
        """Write payloads. Returns the sizes of all that the ledger did not hold before, by tenant."""
        connection, payloads = self._connection, self._payloads
        before = connection.total_changes()
        connection.executemany(rows.PUT_PAYLOAD, payloads)
        inserted = connection.total_changes() - before
        if inserted == len(payloads):  # the usual case
            return [(tenant, len(body)) for _, tenant, _, _, body in cast("list[_Payload]", payloads)]
        # Some are repeated, or present, or were erased. Each new row has an id after all earlier rows.
        added = self._all(rows.PAYLOADS_AFTER, (connection.last_insert_rowid() - inserted,)) if inserted else []
        again = connection.executemany(rows.PUT_PAYLOAD_AGAIN, payloads)
        return cast("list[tuple[str, int]]", [*added, *again])

    def _flush_projections(self) -> None:
        new: list[rows.Row] = []
        changed: list[rows.Row] = []
        moved: list[rows.Row] = []
        for action_id, projection in self._projections.items():
            head = self._heads[action_id]
            ready_us = becomes_due_us(projection.due_us, projection.lease_owner, projection.lease_until_us)
            seldom = rows.seldom_values(projection)
            if head.seldom is None:
                new.append((*rows.projection_values(projection), head.version, head.fence, ready_us))
            else:
                changed.append((*rows.often_values(projection), head.version, ready_us, action_id))
                if seldom != head.seldom:
                    moved.append((*seldom, action_id))
            head.seldom = seldom
        run = self._connection.executemany
        if new:
            run(rows.INSERT_ACTION, new)
        if changed:
            run(rows.UPDATE_ACTION, changed)
        if moved:
            run(rows.UPDATE_ACTION_SELDOM, moved)


def _head_of(row: rows.Row) -> _Head:
    _, version, fence, *seldom = cast("tuple[str, int, int, *tuple[str, ...]]", row)
    return _Head(version, fence, tuple(seldom))


def _pieces(names: Sequence[str]) -> Iterator[rows.Row]:
    """Yield the names in rows of equal length, for one prepared statement. The padding NULL equals nothing."""
    size = rows.LOOKED_UP_AT_ONCE
    for start in range(0, len(names), size):
        piece = names[start : start + size]
        yield (*piece, *[None] * (size - len(piece)))
