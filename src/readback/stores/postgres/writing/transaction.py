"""A group of changes in one transaction. Each change is checked before any write.

Called by the group's leader. A transaction takes two round trips. `begin` starts the transaction, acquires the locks
and reads the input of the decisions. `commit` writes and commits. Each write is conditional on the state read before: a
row changed meanwhile aborts the transaction, nothing is stored, and the caller begins again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from readback.ports.storage.store import (
    Append,
    Appended,
    AppendResult,
    Erasure,
    Freeze,
    Frozen,
    KeyConflict,
    KeyRecord,
    Projection,
    TooManyInFlight,
    VersionConflict,
)
from readback.ports.storage.store_rules import MINUTE_US, PACE, SUCCEEDED, is_contract, may_have_key, paced
from readback.stores.postgres.blob_store import Kept
from readback.stores.postgres.connection import row_encoding, rows
from readback.stores.postgres.connection.connect import Connection, together
from readback.stores.postgres.connection.schema import Locks, Wanted
from readback.stores.postgres.connection.second_connection import AS_IT_IS
from readback.stores.postgres.writing.write_cache import Head, WriteCache

Name = tuple[str, str]
_NEW: Final = Head(0, 0, None, waiting=False)
_AS_IT_IS: Final = rows.statement("SELECT", AS_IT_IS)


class CacheMissError(Exception):
    """The cache indicates a conflict. The database must confirm the conflict before a caller sees it."""


class Transaction:
    """The changes of one group, on a connection without other use meanwhile."""

    def __init__(self, connection: Connection, known: WriteCache, locks: Locks, *, optimistic: bool) -> None:
        """`optimistic`: an action declared new is written as new, and an action last written here is assumed unchanged.

        If the assumption is wrong the database reports it, and the caller begins again without trust.
        """
        self._connection = connection
        self._known = known
        self._locks = locks
        self._optimistic = optimistic
        self.xid = ""
        """The transaction's id, after its start. The id identifies the transaction's result after a lost reply."""
        self.proof: rows.Row | None = None
        """An entry present in the log exactly if the transaction is: tenant, action, version, kind, time, envelope and
        leaf.
        """
        self._heads: dict[str, Head] = {}
        self._was: dict[str, Head] = {}
        self._keys_found: dict[Name, KeyRecord | None] = {}
        self._keys: dict[Name, KeyRecord] = {}
        self._settled: dict[tuple[str, str, str], tuple[str, int]] = {}
        self._projections: dict[str, Projection] = {}
        self._events: list[rows.Row] = []
        self._texts: dict[tuple[bytes, str], tuple[str, bytes]] = {}
        self._payloads: dict[tuple[str, bytes], tuple[str, str, bytes]] = {}
        self.outside: dict[tuple[bytes, str], Kept] = {}
        """Evidence of these appends in object storage."""
        self._counts: dict[tuple[str, str, str], tuple[bool, int]] = {}
        self._freezes: list[Freeze] | None = None
        self._in_flight: dict[str, int] = {}
        self._due: list[Projection] = []
        """Actions to wake a worker for after the commit."""
        self._contracts: set[tuple[bytes, str]] = set()

    # --- the two round trips -------------------------------------------------------------------------

    def begin(self, items: Sequence[Append], locks: Wanted) -> None:
        """Begin, acquire the locks, and read the input for these appends."""
        run = self._connection.execute
        heads, keys, limited = self._to_look_up(items)
        subjects = {subject for item in items for subject in item.require_not_frozen}
        tenants = {item.tenant for item in items}
        with together(self._connection):
            run("BEGIN")
            # The locks need a statement of their own: the next statement's snapshot must begin after the acquisition.
            first = run(rows.BEGIN, (self._locks.lock_class, locks.shared, locks.exclusive), binary=True, prepare=True)
            found_heads = self._select(rows.SELECT_HEADS, heads)
            found_keys = self._select_keys(keys)
            frozen = self._select(rows.SELECT_FREEZES_OF, tenants, subjects) if subjects else None
            waiting = {one: self._execute(rows.IN_FLIGHT_UP_TO, (one, most)) for one, most in limited.items()}
            found = self._execute(_AS_IT_IS, ())
        newest, schema, synchronous = cast("tuple[int, str, str]", found.fetchone())
        self._known.watched.check(self._connection, newest, schema, synchronous)
        self.xid = cast("tuple[str]", first.fetchone())[0]
        self._heads.update(dict.fromkeys(heads, _NEW))
        if found_heads is not None:
            self._heads.update({(row := rows.plain(each))[0]: Head.of(row) for each in found_heads.fetchall()})
        self._keys_found.update(dict.fromkeys(keys))
        if found_keys is not None:
            for record in map(rows.key_record, found_keys.fetchall()):
                self._keys_found[record.tenant, record.key_hash] = record
        self._freezes = [] if frozen is None else [rows.freeze(row) for row in frozen.fetchall()]
        self._in_flight = {one: cast("int", cursor.fetchall()[0][0]) for one, cursor in waiting.items()}

    def commit(self) -> None:
        """Write the collected changes and commit. A crash before the COMMIT stores nothing, a crash after the COMMIT
        everything.
        """
        wakes = bool(self._due) and self._known.queue.is_there(self._connection)
        with together(self._connection):
            self._write()
            if wakes:
                self._known.queue.defer(self._execute, self._due)
            self._connection.execute("COMMIT")
        self._known.mark_current(self._heads, self._contracts)

    def flush(self) -> None:
        """Write the collected changes, for later statements of this transaction."""
        with together(self._connection):
            self._write()

    def one(self, sql: str, values: Sequence[Any] | dict[str, Any]) -> rows.Row | None:
        """Return the first row of a statement, run to its end. None without rows."""
        found = self.all(sql, values)
        return found[0] if found else None

    def all(self, sql: str, values: Sequence[Any] | dict[str, Any]) -> list[rows.Row]:
        """Return all rows of a statement. The collected changes are not yet written, unless `flush` was called."""
        cursor = self._execute(sql, values)
        return cast("list[rows.Row]", cursor.fetchall()) if cursor.description else []

    def _execute(self, sql: str, values: Sequence[Any] | dict[str, Any]) -> Any:
        return self._connection.execute(sql, values, binary=True, prepare=True)

    def _select(self, sql: str, *names: Iterable[str]) -> Any:
        return self._execute(sql, [row_encoding.texts(sorted(each)) for each in names]) if all(names) else None

    def _select_keys(self, keys: Sequence[Name]) -> Any:
        if not keys:
            return None
        tenants, hashes = zip(*keys, strict=True)
        return self._execute(rows.SELECT_KEYS, (row_encoding.texts(tenants), row_encoding.texts(hashes), len(keys)))

    def _to_look_up(self, items: Sequence[Append]) -> tuple[list[str], list[Name], dict[str, int]]:
        """Return the actions and keys to read, and the tenants with a limit on waiting actions, each with the highest
        count.
        """
        limited: dict[str, int] = {}
        for item in items:
            if item.in_flight_max:
                limited[item.tenant] = max(limited.get(item.tenant, 0), item.in_flight_max + len(items) + 1)
        heads: dict[str, None] = {}
        keys: dict[Name, None] = {}
        for item in items:
            if self._is_new(item):
                continue
            if item.tenant in limited or not self._is_known(item):
                heads[item.action_id] = None
            if item.reserve is not None:
                keys[item.tenant, item.reserve.key_hash] = None
        return list(heads), list(keys), limited

    def _is_new(self, item: Append) -> bool:
        """Return whether the append may be trusted as new."""
        return (
            self._optimistic
            and item.expected_version == item.fence == 0
            and not item.replaces
            and item.action_id not in self._heads
            and item.action_id not in self._known.heads
        )

    def _is_known(self, item: Append) -> bool:
        return self._optimistic and item.action_id in self._known.heads

    # --- one append ----------------------------------------------------------------------------------

    def append(self, item: Append) -> AppendResult:
        """Accept one append, or return the conflict. Raises CacheMissError for a conflict known only from the cache."""
        new = self._is_new(item)
        # A trusted new action starts at version 0 without a look-up. INSERT_ACTIONS fails if the action exists.
        head = _NEW if new else self._head(item.action_id)
        # Another process may have changed the row since the cache was filled. Success needs no look-up, because each
        # write is conditional on version and fence. A refusal does: no caller may see a conflict from a stale cache.
        believed = new or head is self._known.heads.get(item.action_id)
        if head.version != item.expected_version or head.fence != item.fence:
            if believed:
                raise CacheMissError  # `_until_kept` runs the group again with `optimistic` off
            return VersionConflict(version=head.version, fence=head.fence)
        name = (item.tenant, item.projection.key_hash if item.reserve is None else item.reserve.key_hash)
        if item.reserve is not None:
            # A trusted new action's key was not looked up: only this group's keys can conflict here. INSERT_KEYS finds
            # the others. `_keys_found` has the key if another append of the group asked for the same key.
            found = self._keys.get(name) if new and name not in self._keys_found else self._key(*name)
            if found is not None and not may_have_key(item, found):
                if believed:
                    raise CacheMissError
                return KeyConflict(found)
        # Freezes and limits come after version and key: a repeated request must receive its existing action, not a
        # refusal.
        barred = self._barred(item, head)
        if barred is not None:
            if believed:
                raise CacheMissError  # a changed version or a taken key has priority, and is unknown from the cache
            return barred
        # From here on nothing is refused: a refused append must leave no trace in the group.
        self._take(item, head)
        if item.reserve is not None:
            self._keys[name] = item.reserve
        if item.settle is not None:
            # After the reservation: one append may reserve a key and settle the same key.
            self._settle(item, *item.settle)
        if item.counts:
            self._count(item)
        # The rest is rare, and written at once. Later appends of the group then find it in the database.
        if item.relies or item.freezes or item.lifts or item.incidents or item.closes:
            self._control(item)
        if item.erases is not None:
            self._erase(item, item.erases)
        # The sequence number is assigned after the commit, in `sequencing`.
        return Appended(version=item.expected_version + len(item.events), seq=0)

    def _take(self, item: Append, head: Head) -> None:
        """Collect events, projection and evidence."""
        version, projection = head.version, item.projection
        for event in item.events:
            version += 1
            self._events.append(
                (item.tenant, item.action_id, version, event.kind, event.at_us, event.envelope, event.leaf)
            )
        waiting = projection.due_us is not None and projection.state != SUCCEEDED
        if item.tenant in self._in_flight:
            self._in_flight[item.tenant] += waiting - bool(head.waiting)
        self._was.setdefault(item.action_id, head)
        self._heads[item.action_id] = Head(version, head.fence, row_encoding.for_life(projection), waiting)
        self._projections[item.action_id] = projection
        if self._known.queue.is_soon(projection):
            self._due.append(projection)
        for evidence in item.evidence:
            raw = bytes.fromhex(evidence.digest)
            if not is_contract(projection, evidence.digest):
                self._payloads.setdefault((item.action_id, raw), (item.tenant, evidence.media, evidence.body))
            elif (raw, item.tenant) not in self._known.contracts:
                self._contracts.add((raw, item.tenant))
                self._texts.setdefault((raw, item.tenant), (evidence.media, evidence.body))

    def _head(self, action_id: str) -> Head:
        head = self._heads.get(action_id)
        if head is None and self._optimistic:
            head = self._known.heads.get(action_id)
        if head is None:
            self.flush()
            row = self.one(rows.SELECT_HEADS, (row_encoding.texts([action_id]),))
            head = self._heads[action_id] = _NEW if row is None else Head.of(rows.plain(row))
        return head

    def _key(self, tenant: str, key_hash: str) -> KeyRecord | None:
        name = (tenant, key_hash)
        if name in self._keys:
            return self._keys[name]
        if name not in self._keys_found:
            row = self.one(rows.SELECT_KEY, name)
            self._keys_found[name] = None if row is None else rows.key_record(row)
        record = self._keys_found[name]
        settled = None if record is None else self._settled.get((*name, record.action_id))
        if record is None or settled is None:
            return record
        return replace(record, status=settled[0], expires_us=settled[1])

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

    # --- freezes, incidents, limits, erasure ---------------------------------------------------------

    def _barred(self, item: Append, head: Head) -> Frozen | TooManyInFlight | None:
        freeze = self._frozen(item) if item.require_not_frozen else None
        if freeze is not None:
            return Frozen(freeze)
        if item.in_flight_max:
            others = self._in_flight[item.tenant] - bool(head.waiting)
            if others >= item.in_flight_max:
                return TooManyInFlight(others)
        return None

    def _frozen(self, item: Append) -> Freeze | None:
        if self._freezes is None:
            row = self.one(rows.SELECT_FROZEN, (item.tenant, row_encoding.texts(item.require_not_frozen)))
            return None if row is None else rows.freeze(row)
        met = [one for one in self._freezes if one.tenant == item.tenant and one.subject in item.require_not_frozen]
        return min(met, key=lambda one: (one.since_us, one.subject, one.action_id), default=None)

    def _control(self, item: Append) -> None:
        """Write dependencies, freezes and incidents. Rare, so written at once."""
        for claim in item.relies:
            self.all(rows.PUT_RELIANCE, (item.tenant, claim, item.action_id))
        for freeze in item.freezes:
            self.all(rows.PUT_FREEZE, rows.freeze_values(freeze))
        for subject in item.lifts:
            self.all(rows.LIFT, (item.tenant, subject, item.action_id))
        if item.freezes or item.lifts:
            self._freezes = None
        for incident in item.incidents:
            self.all(rows.PUT_INCIDENT, rows.incident_values(incident))
        for incident_id in item.closes:
            self.all(rows.CLOSE_INCIDENT, (item.projection.updated_us, item.tenant, incident_id))

    def _erase(self, item: Append, erases: Erasure) -> None:
        """Erase evidence. Rare, so written at once, after a flush: the erased evidence may be among the collected
        changes.
        """
        self.flush()
        raw = row_encoding.bodies([bytes.fromhex(digest) for digest in erases.digests])
        self.all(rows.ERASE, {"id": item.action_id, "tenant": item.tenant, "digests": raw})

    def anything_erased(self) -> bool:
        """Return whether any evidence of the ledger was erased. Its object may have been removed since the upload."""
        [(erased,)] = self.all(rows.ANYTHING_ERASED, ())
        return cast("bool", erased)

    # --- leases, looks -------------------------------------------------------------------------------

    def take_lease(self, action_id: str, values: dict[str, Any]) -> int | None:
        """Return the new fence, or None. See `rows.TAKE_LEASE` for the values."""
        self.flush()
        row = self.one(rows.TAKE_LEASE, values)
        self._forget(action_id)
        return None if row is None else cast("int", row[0])

    def take_leases(self, ids: Sequence[str], values: dict[str, Any]) -> dict[str, int]:
        """Return the new fences of the available actions. See `rows.TAKE_LEASES` for the values."""
        with together(self._connection):
            self._write()
            self._execute(rows.HOLD_ACTIONS, {"ids": values["ids"]})
            taken = self._execute(rows.TAKE_LEASES, values)
        for action_id in ids:
            self._forget(action_id)
        return dict(map(rows.plain, taken.fetchall()))

    def pace(self, tenant: str, now_us: int, wanted_us: int, per_minute: int) -> int:
        """Reserve a read slot and return its time. Rare, so written at once."""
        self.flush()
        self.all(rows.FORGET_PACE, (tenant, PACE, now_us // MINUTE_US))
        reserved = self.all(rows.SELECT_PACE, (tenant, PACE, wanted_us // MINUTE_US))
        taken = {cast("int", minute): cast("int", n) for minute, n in reserved}
        at_us = paced(taken, wanted_us, per_minute)
        self.all(rows.PUT_COUNT, (tenant, PACE, str(at_us // MINUTE_US), 1))
        return at_us

    def _forget(self, action_id: str) -> None:
        self._heads.pop(action_id, None)
        self._known.heads.pop(action_id, None)

    # --- writing -------------------------------------------------------------------------------------

    def _evidence_row(self, raw: bytes, tenant: str, media: str, body: bytes) -> rows.Row:
        kept = self.outside.get((raw, tenant))
        if kept is None:
            return (body, media, "", 0, raw, tenant)
        return (b"", media, kept.place, len(kept.body), raw, tenant)

    def _write(self) -> None:
        """Write inside a pipeline. Tables and their rows have a fixed order, so sessions cannot deadlock."""
        if self._projections:
            self._write_projections()
        if self._events:
            self.proof = self._events[0]
            self._execute(rows.INSERT_EVENTS, row_encoding.events(self._events))
        if self._settled:
            self._execute(rows.SETTLE_KEYS, row_encoding.settled(sorted(self._settled.items())))
        if self._keys:
            self._write_keys()
        if self._texts:
            texts = [self._evidence_row(*name, *self._texts[name]) for name in sorted(self._texts)]
            self._execute(rows.PUT_TEXTS, row_encoding.contracts(texts))
        if self._payloads:
            kept = sorted(self._payloads.items())
            payloads = [(*self._evidence_row(raw, *value), action_id) for (action_id, raw), value in kept]
            self._execute(rows.PUT_PAYLOADS, row_encoding.payloads(payloads))
        if self._counts:
            for (tenant, subject, name), (reset, value) in sorted(self._counts.items()):
                if reset:
                    self._execute(rows.RESET_COUNT, (tenant, subject, name))
                if value:
                    self._execute(rows.PUT_COUNT, (tenant, subject, name, value))
        for gathered in (self._was, self._keys_found, self._keys, self._settled, self._projections, self._counts):
            gathered.clear()
        self._events.clear()
        self._texts.clear()
        self._payloads.clear()

    def _write_keys(self) -> None:
        new, taken = [], []
        for name, record in sorted(self._keys.items()):
            found = self._keys_found.get(name)
            if found is None:
                new.append(rows.key_values(record))
            else:
                taken.append((*rows.key_values(record), found.action_id))
        if new:
            self._execute(rows.INSERT_KEYS, row_encoding.keys(new))
        if taken:
            self._execute(rows.REPLACE_KEYS, (*row_encoding.keys(taken), len(taken)))

    def _write_projections(self) -> None:
        """Write each projection with its previous version and fence as condition, and with its new version."""
        new: list[rows.Row] = []
        often: list[rows.Row] = []
        whole: list[rows.Row] = []
        for action_id in sorted(self._projections):
            projection, was, now = self._projections[action_id], self._was[action_id], self._heads[action_id]
            ends = self._locks.lease_us(projection)
            if was.version == 0:
                new.append((*rows.projection_values(projection), now.version, now.fence, ends))
            elif was.life == now.life:
                often.append((*rows.often_values(projection), now.version, was.version, was.fence, ends))
            else:
                whole.append((*rows.projection_values(projection), now.version, was.version, was.fence, ends))
        own_clock = self._locks.own_clock
        if new:
            self._execute(rows.INSERT_ACTIONS, (own_clock, *row_encoding.columns(rows.NEW_KINDS, new)))
        if often:
            self._execute(rows.UPDATE_OFTEN, (own_clock, *row_encoding.columns(rows.OFTEN_KINDS, often), len(often)))
        if whole:
            self._execute(rows.UPDATE_WHOLE, (own_clock, *row_encoding.columns(rows.WHOLE_KINDS, whole), len(whole)))
