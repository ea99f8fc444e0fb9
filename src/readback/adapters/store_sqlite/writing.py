"""A group of changes in one transaction: what each means, checked before anything of it is written.

Called by the group's leader, inside a transaction that it opened. Nothing is written until `flush`, so
that an append that conflicts leaves no trace; what earlier appends of the group will have written is seen
through `_heads`, `_keys` and `_settled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import apsw

from readback.adapters.store_sqlite import rows
from readback.ports.store import (
    Append,
    Appended,
    AppendResult,
    KeyRecord,
    KeyTaken,
    Projection,
    VersionConflict,
)
from readback.ports.store_rules import becomes_due_us, refuse_malformed


@dataclass(slots=True)
class _Head:
    """Where an action stands: what the database holds, and what this group will have made of it."""

    version: int
    fence: int
    seldom: tuple[str, ...] | None
    """The indexed columns as they are in the database; None while the action is not in it."""


class Transaction:
    """The changes of one group. `flush` writes what was gathered; the caller begins and commits."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._last_seq: int | None = None
        self._heads: dict[str, _Head] = {}
        self._keys: dict[tuple[str, str], KeyRecord] = {}
        self._settled: dict[tuple[str, str, str], tuple[str, int]] = {}
        self._projections: dict[str, Projection] = {}
        self._events: list[rows.Row] = []
        self._evidence: list[rows.Row] = []
        self._counts: dict[tuple[str, str, str], tuple[bool, int]] = {}

    def append(self, item: Append) -> AppendResult:
        """Take one append in, or say why not."""
        head = self._head(item.action_id)
        if head.version != item.expected_version or head.fence != item.fence:
            return VersionConflict(version=head.version, fence=head.fence)
        if item.reserve is not None:
            found = self._key(item.tenant, item.reserve.key_hash)
            if found is not None and found.action_id not in (item.action_id, item.replaces):
                return KeyTaken(found)
        seq = self._add_events(item, head)
        self._projections[item.action_id] = item.projection
        for evidence in item.evidence:
            self._evidence.append((item.tenant, bytes.fromhex(evidence.digest), evidence.media, evidence.body))
        if item.reserve is not None:
            self._reserve(item.reserve)
        if item.settle is not None:
            self._settle(item, *item.settle)
        if item.counts:
            self._count(item)
        return Appended(version=head.version, seq=seq)

    def flush(self) -> None:
        """Write what was gathered. What follows in this transaction reads the database again."""
        run = self._connection.executemany
        if self._projections:
            self._flush_projections()
        if self._events:
            run(rows.INSERT_EVENT, self._events)
        if self._settled:
            run(rows.SETTLE_KEY, [(*value, *name) for name, value in self._settled.items()])
        if self._keys:
            run(rows.PUT_KEY, [rows.key_values(record) for record in self._keys.values()])
        if self._evidence:
            run(rows.PUT_EVIDENCE, self._evidence)
        if self._counts:
            run(rows.RESET_COUNT, [name for name, (reset, _) in self._counts.items() if reset])
            run(rows.PUT_COUNT, [(*name, value) for name, (_, value) in self._counts.items() if value])
        for gathered in (self._heads, self._keys, self._settled, self._projections, self._counts):
            gathered.clear()
        self._events.clear()
        self._evidence.clear()

    def one(self, sql: str, values: rows.Row | dict[str, rows.Value]) -> rows.Row | None:
        """The first row of a statement, run to its end."""
        found = self._connection.execute(sql, values).fetchall()
        return cast("rows.Row", found[0]) if found else None

    # --- what this group knows -----------------------------------------------------------------------

    def _head(self, action_id: str) -> _Head:
        head = self._heads.get(action_id)
        if head is None:
            row = self.one(rows.SELECT_HEAD, (action_id,))
            if row is None:
                head = _Head(0, 0, None)
            else:
                version, fence, *seldom = cast("tuple[int, int, str, str, str, str]", row)
                head = _Head(version, fence, tuple(seldom))
            self._heads[action_id] = head
        return head

    def _key(self, tenant: str, key_hash: str) -> KeyRecord | None:
        record = self._keys.get((tenant, key_hash))
        if record is not None:
            return record
        row = self.one(rows.SELECT_KEY, (tenant, key_hash))
        if row is None:
            return None
        record = rows.key_record(row)
        settled = self._settled.get((tenant, key_hash, record.action_id))
        return record if settled is None else replace(record, status=settled[0], expires_us=settled[1])

    # --- gathering -----------------------------------------------------------------------------------

    def _add_events(self, item: Append, head: _Head) -> int:
        seq, version = self._seq(), head.version
        for event in item.events:
            seq += 1
            version += 1
            self._events.append((seq, item.action_id, version, event.kind, event.at_us, event.envelope, event.leaf))
        self._last_seq = seq
        head.version = version
        return seq

    def _seq(self) -> int:
        if self._last_seq is None:
            row = self.one("SELECT max(seq) FROM event", ())
            self._last_seq = cast("int", row[0] or 0) if row else 0
        return self._last_seq

    def _reserve(self, record: KeyRecord) -> None:
        self._keys[record.tenant, record.key_hash] = record

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

    # --- writing -------------------------------------------------------------------------------------

    def _flush_projections(self) -> None:
        new: list[rows.Row] = []
        changed: list[rows.Row] = []
        moved: list[rows.Row] = []
        for action_id, projection in self._projections.items():
            head = self._heads[action_id]
            ready_us = becomes_due_us(projection.due_us, projection.lease_owner, projection.lease_until_us)
            if head.seldom is None:
                new.append((*rows.projection_values(projection), head.version, head.fence, ready_us))
                continue
            changed.append((*rows.often_values(projection), head.version, ready_us, action_id))
            seldom = rows.seldom_values(projection)
            if seldom != head.seldom:
                moved.append((*seldom, action_id))
        run = self._connection.executemany
        if new:
            run(rows.INSERT_ACTION, new)
        if changed:
            run(rows.UPDATE_ACTION, changed)
        if moved:
            run(rows.UPDATE_ACTION_SELDOM, moved)


@dataclass(frozen=True, slots=True)
class AppendWork:
    """A batch of appends, checked for what can be known without the database."""

    batch: Sequence[Append]

    def check(self) -> None:
        for item in self.batch:
            refuse_malformed(item)

    def apply(self, transaction: Transaction) -> list[AppendResult]:
        return [transaction.append(item) for item in self.batch]


@dataclass(frozen=True, slots=True)
class LeaseWork:
    """Taking a lease; the answer is the new fence, or None."""

    action_id: str
    owner: str
    now_us: int
    until_us: int
    dead: str

    def apply(self, transaction: Transaction) -> int | None:
        transaction.flush()
        named: dict[str, rows.Value] = {
            "id": self.action_id,
            "owner": self.owner,
            "now": self.now_us,
            "until": self.until_us,
            "dead": self.dead,
        }
        row = transaction.one(rows.TAKE_LEASE, named)
        return None if row is None else cast("int", row[0])


@dataclass(frozen=True, slots=True)
class WakeWork:
    """Bringing a due time forward; the answer is whether there was one."""

    action_id: str
    at_us: int

    def apply(self, transaction: Transaction) -> bool:
        transaction.flush()
        return transaction.one(rows.WAKE, {"id": self.action_id, "at": self.at_us}) is not None


Work: TypeAlias = AppendWork | LeaseWork | WakeWork
