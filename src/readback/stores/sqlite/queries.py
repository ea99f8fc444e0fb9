"""Reading: a pool of reading connections, and the queries of the port.

Called by the store. Readers never wait for the writer. Long results are fetched in pieces, so no reader holds a
snapshot that would block checkpoints of the write-ahead log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, cast

import apsw

from readback.canon.digest import sha256_hex
from readback.errors import StoreCorruptError, StoreError
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import (
    ActionFilter,
    Evidence,
    Freeze,
    Incident,
    KeyRecord,
    Opened,
    StoredEvent,
    StoredProjection,
)
from readback.ports.storage.store_rules import OPEN_STATES, PACE, fairly
from readback.stores.sqlite import due_queries, rows
from readback.stores.sqlite.connect import LOOKS_MAX, is_overtaken, overtaken_error
from readback.stores.sqlite.due_queries import Found, Group, Version
from readback.stores.sqlite.schema import explained

PIECE_ROWS: Final = 512
OPEN: Final = f"AND state IN ({', '.join(repr(state) for state in OPEN_STATES)})"
READERS_KEPT_MAX: Final = 8
"""Idle connections retained. More may be open while more threads read at once."""

_EVENTS: Final = rows.statement("SELECT", rows.EVENT_COLUMNS, "FROM event WHERE action_id = ? ORDER BY version")
_SCAN: Final = rows.statement("SELECT", rows.EVENT_COLUMNS, "FROM event WHERE seq > ? ORDER BY seq LIMIT ?")
_PROJECTION: Final = rows.statement("SELECT", rows.STORED_COLUMNS, "FROM action WHERE action_id = ?")
_PROJECTIONS: Final = rows.statement(
    "SELECT", rows.STORED_COLUMNS, "FROM action WHERE action_id > ? ORDER BY action_id LIMIT ?"
)
_PROJECTIONS_OF: Final = rows.statement(
    "SELECT", rows.STORED_COLUMNS, "FROM action WHERE tenant = ? AND action_id > ? ORDER BY action_id LIMIT ?"
)
_PROPOSED: Final = (
    "SELECT at_us, action_id FROM event INDEXED BY event_begins WHERE version = 1"
    " AND (at_us, action_id) > (?, ?) AND at_us < ? ORDER BY at_us, action_id LIMIT ?"
)
_HELD, _FROZEN, _COUNTED = range(3)
"""The meaning of the rows of `rows.OPENING`."""
_PAGE: Final = rows.statement("SELECT", rows.STORED_COLUMNS, "FROM action WHERE tenant = ?")
# Index named: for the order of ids SQLite would scan the whole run, including settled actions.
_PAGE_OPEN: Final = rows.statement(
    "SELECT", rows.STORED_COLUMNS, "FROM action INDEXED BY action_of_state WHERE tenant = ?"
)
_COUNT: Final = "SELECT 1 FROM action WHERE tenant = ?"
_COUNT_OPEN: Final = "SELECT 1 FROM action INDEXED BY action_of_state WHERE tenant = ?"
_PAGE_OF_ALL: Final = rows.statement("SELECT", rows.STORED_COLUMNS, "FROM action WHERE action_id > ''")
"""Across tenants: in the order of ids, so a page reads only its own rows for any number of tenants."""
_NEXT_TENANT: Final = "SELECT min(tenant) FROM action WHERE tenant > ?"
_NEXT_OWNER: Final = "SELECT min(lease_owner) FROM action WHERE lease_owner > ? AND lease_owner <> ''"


class Readers:
    """Connections, each lent to one thread at a time."""

    def __init__(self, path: Path, connect: Callable[[], apsw.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._lent: set[apsw.Connection] = set()
        self._refusal: Callable[[], StoreError] | None = None

    def rows(self, sql: str, values: rows.Row = ()) -> list[rows.Row]:
        """Return all rows of one statement. Its snapshot ends with the statement."""
        for _ in range(LOOKS_MAX):
            connection = self._borrow()
            try:
                found = connection.execute(sql, values).fetchall()
            except apsw.Error as error:
                if not is_overtaken(connection):
                    raise explained(error, connection, self._path) from error
            else:
                if not is_overtaken(connection):
                    return cast("list[rows.Row]", found)
            finally:
                self.give_back(connection)
        raise overtaken_error(self._path)

    def give_back(self, connection: apsw.Connection) -> None:
        """Retain a connection for the next reader. Close a surplus connection, or any connection of a closed store."""
        with self._lock:
            self._lent.discard(connection)
            if self._refusal is None and len(self._idle) < READERS_KEPT_MAX and not is_overtaken(connection):
                self._idle.append(connection)
                return
        connection.close()

    def close(self, refusal: Callable[[], StoreError]) -> None:
        """Close idle connections. Lent connections are closed on return."""
        with self._lock:
            self._refusal = self._refusal or refusal
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def abandon(self, refusal: Callable[[], StoreError]) -> list[apsw.Connection]:
        """In a forked child: give up the connections without closing, regardless of the lock's owner at the fork."""
        self._lock = threading.Lock()
        self._refusal = refusal
        left = [*self._idle, *self._lent]
        self._idle, self._lent = [], set()
        return left

    def _borrow(self) -> apsw.Connection:
        with self._lock:
            if self._refusal is not None:
                raise self._refusal()
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        self._lent.add(connection)
        return connection


class Queries:
    """The reading half of the store port.

    `at_hand` answers queries of a few rows. Potentially large queries use the readers.
    """

    def __init__(self, readers: Readers, at_hand: Callable[[str, rows.Row], list[rows.Row]] | None = None) -> None:
        self._readers = readers
        self._rows = at_hand or readers.rows
        self._many_rows = readers.rows

    def events(self, action_id: str) -> list[StoredEvent]:
        return [rows.stored_event(row) for row in self._rows(_EVENTS, (action_id,))]

    def projection(self, action_id: str) -> StoredProjection | None:
        found = self._rows(_PROJECTION, (action_id,))
        return rows.stored_projection(found[0]) if found else None

    def key(self, tenant: str, key_hash: str) -> KeyRecord | None:
        found = self._rows(rows.SELECT_KEY, (tenant, key_hash))
        return rows.key_record(found[0]) if found else None

    def by_stamp(self, tenant: str, stamp: str) -> str | None:
        if not stamp:
            return None
        # Index named: for the least id SQLite would scan the tenant's whole index in the order of ids.
        action = "action INDEXED BY action_of_stamp"
        sql = f"SELECT min(action_id) FROM {action} WHERE stamp = ? AND tenant = ? AND stamp <> ''"  # noqa: S608
        return cast("str | None", self._rows(sql, (stamp, tenant))[0][0])

    def evidence(self, tenant: str, action_id: str, digest: str) -> Evidence | None:
        try:
            raw = bytes.fromhex(digest)
        except ValueError:
            return None
        found = self._rows(rows.SELECT_EVIDENCE, (action_id, tenant, raw))
        if not found:
            return None
        media, body = cast("tuple[str, bytes]", found[0])
        if sha256_hex(body) != digest:
            raise StoreCorruptError(f"Evidence {digest} has other bytes than its digest says.")
        return Evidence(digest=digest, media=media, body=body)

    def erased(self, tenant: str, action_id: str, digest: str) -> bool:
        try:
            raw = bytes.fromhex(digest)
        except ValueError:
            return False
        return bool(self._rows(rows.IS_ERASED, (action_id, raw, tenant)))

    def keeper(self, tenant: str, digest: str) -> str | None:
        try:
            raw = bytes.fromhex(digest)
        except ValueError:
            return None
        found = self._many_rows(rows.KEEPER, (raw, tenant))
        return cast("str", found[0][0]) if found else None

    def last_seq(self) -> int:
        return cast("int | None", self._rows("SELECT max(seq) FROM event", ())[0][0]) or 0

    def count(self, tenant: str, subject: str, name: str) -> int:
        sql = "SELECT value FROM counter WHERE tenant = ? AND subject = ? AND name = ?"
        found = self._rows(sql, (tenant, subject, name))
        return cast("int", found[0][0]) if found else 0

    def counts(self, tenant: str) -> list[tuple[str, str, int]]:
        found = self._rows(rows.SELECT_COUNTS, (tenant, PACE))
        return [cast("tuple[str, str, int]", row) for row in found]

    def owners(self) -> list[str]:
        found: list[str] = []
        while (row := self._rows(_NEXT_OWNER, (found[-1] if found else "",))[0])[0] is not None:
            found.append(cast("str", row[0]))
        return found

    def dependants(self, tenant: str, claim: str, limit: int) -> list[str]:
        return [cast("str", row[0]) for row in self._rows(rows.SELECT_DEPENDANTS, (tenant, claim, limit))]

    def relies(self, tenant: str, claim: str, action_id: str) -> bool:
        return bool(self._rows(rows.SELECT_RELIANCE, (tenant, claim, action_id)))

    def reliances(self) -> Iterator[tuple[str, str, str]]:
        after = ("", "", "")
        while piece := self._many_rows(rows.SELECT_RELIANCES, (*after, PIECE_ROWS)):
            found = [cast("tuple[str, str, str]", tuple(row)) for row in piece]
            yield from found
            after = found[-1]

    # --- freezes, incidents, limits ------------------------------------------------------------------

    def freezes(self, tenant: str) -> list[Freeze]:
        return [rows.freeze(row) for row in self._rows(rows.SELECT_FREEZES, (tenant,))]

    def frozen(self, tenant: str, subjects: Sequence[str]) -> Freeze | None:
        found = self._rows(rows.select_frozen(len(subjects)), (tenant, *subjects)) if subjects else []
        return rows.freeze(found[0]) if found else None

    def opening(self, tenant: str, key_hash: str, subjects: Sequence[str]) -> Opened:
        found = {row[0]: row for row in self._rows(rows.OPENING, (tenant, key_hash, tenant, tenant, PACE))}
        counts = self.counts(tenant) if _COUNTED in found else ()
        return Opened(
            rows.key_record(found[_HELD][1:]) if _HELD in found else None,
            {(subject, name): value for subject, name, value in counts},
            self.frozen(tenant, subjects) if _FROZEN in found else None,
        )

    def incidents(self, tenant: str = "", *, open_only: bool = True, named: str = "") -> list[Incident]:
        asked = [(f"{name} = ?", value) for name, value in (("tenant", tenant), ("id", named)) if value]
        conditions = [text for text, _ in asked] + (["closed_us = 0"] if open_only else [])
        where = "WHERE " + " AND ".join(conditions) if conditions else ""
        sql = rows.statement(rows.SELECT_INCIDENTS, where, "ORDER BY opened_us DESC, tenant, id")
        return [rows.incident(row) for row in self._rows(sql, tuple(value for _, value in asked))]

    def in_flight(self, tenant: str) -> int:
        return cast("int", self._rows(rows.IN_FLIGHT, (tenant,))[0][0])

    def evidence_bytes(self, tenant: str) -> int:
        found = self._rows(rows.EVIDENCE_BYTES, (tenant,))
        return cast("int", found[0][0]) if found else 0

    # --- what is due ---------------------------------------------------------------------------------

    def due(self, now_us: int, limit: int, tenant: str = "", known: ContractFilter | None = None) -> list[str]:
        wanted = max(limit, 0)
        found = self._due(due_queries.OPEN, now_us, wanted, tenant, known)
        return found + self._due(due_queries.WATCHED, now_us, wanted - len(found), tenant, known)

    def _due(
        self, which: due_queries.Ready, now_us: int, limit: int, tenant: str, known: ContractFilter | None
    ) -> list[str]:
        if not limit:
            return []
        if tenant:
            groups = self._groups(which.groups_of_tenant, (tenant,), now_us, known)
            return [action_id for _, _, action_id in self._due_of(which, tenant, groups, limit)]
        looked_at, found = limit + due_queries.LOOKED_BEYOND, list[Found]()
        for version, until_us, _ in self._groups(which.groups, (), now_us, known):
            left = looked_at - len(found)
            found += cast("list[Found]", self._rows(which.of_group, (*version, until_us, left)))
            if len(found) == looked_at:
                found = self._firsts(which, now_us, limit, known)
                break
        by_tenant: dict[str, list[tuple[int, str]]] = {}
        for ready_us, name, action_id in sorted(found):
            by_tenant.setdefault(name, []).append((ready_us, action_id))
        return fairly(by_tenant.values(), limit)

    def _groups(self, sql: str, values: rows.Row, now_us: int, known: ContractFilter | None) -> list[Group]:
        """Return the known groups with due actions."""
        groups = []
        for row in self._many_rows(sql, values):
            version, first = cast("Version", row[:3]), cast("Found", row[3:])
            until_us = now_us if known is None else known.until_us(*version, now_us)
            if until_us is not None and first[0] <= until_us:
                groups.append((version, until_us, first))
        return groups

    def _due_of(self, which: due_queries.Ready, tenant: str, groups: Sequence[Group], limit: int) -> list[Found]:
        """Return a tenant's due actions in these groups, the longest due first."""
        asked = ((tenant, *version, until_us, limit) for version, until_us, _ in groups)
        found = [row for values in asked for row in self._rows(which.of_group_of_tenant, values)]
        return sorted(cast("list[Found]", found))[:limit]

    def _firsts(self, which: due_queries.Ready, now_us: int, limit: int, known: ContractFilter | None) -> list[Found]:
        """Return the first due action of each tenant. If there are too few, return the first `limit` of each tenant."""
        by_tenant: dict[str, list[Group]] = {}
        for group in self._groups(which.groups_by_tenant, (), now_us, known):
            by_tenant.setdefault(group[2][1], []).append(group)
        if len(by_tenant) >= limit:
            return [min(first for _, _, first in groups) for groups in by_tenant.values()]
        return [row for name, groups in by_tenant.items() for row in self._due_of(which, name, groups, limit)]

    def next_due_us(self, tenant: str = "") -> int | None:
        if tenant:
            found = [self._rows(which.next_of_tenant, (tenant,))[0][0] for which in due_queries.EACH]
        else:
            found = [self._rows(which.next, ())[0][0] for which in due_queries.EACH]
        return min((cast("int", at_us) for at_us in found if at_us is not None), default=None)

    def _tenants(self, tenant: str, next_tenant: str) -> Iterator[str]:
        """Return the requested tenant, or all tenants, found by skipping through an index."""
        if tenant:
            yield tenant
            return
        name = cast("str | None", self._rows("SELECT min(tenant) FROM action", ())[0][0])
        name = None if name is None else ""
        while name is not None:
            name = cast("str | None", self._rows(next_tenant, (name,))[0][0])
            if name is not None:
                yield name

    # --- lists ---------------------------------------------------------------------------------------

    def page(self, query: ActionFilter) -> list[StoredProjection]:
        limit = max(query.limit, 0)
        conditions, values = _conditions(query)
        sql = rows.statement(_PAGE_OPEN if query.open else _PAGE, *conditions, _order(query), "LIMIT ?")
        unfiltered = ActionFilter(
            before_id=query.before_id, after_id=query.after_id, limit=query.limit, oldest=query.oldest
        )
        if query == unfiltered:
            sql = rows.statement(_PAGE_OF_ALL, *conditions, _order(query), "LIMIT ?")
            return [rows.stored_projection(row) for row in self._many_rows(sql, (*values, limit))]
        found: list[StoredProjection] = []
        for tenant in self._tenants(query.tenant, _NEXT_TENANT):
            found += [rows.stored_projection(row) for row in self._many_rows(sql, (tenant, *values, limit))]
        found.sort(key=lambda stored: stored.projection.action_id, reverse=not query.oldest)
        return found[:limit]

    def counted(self, query: ActionFilter) -> int:
        conditions, values = _conditions(query)
        inner = rows.statement(_COUNT_OPEN if query.open else _COUNT, *conditions, "LIMIT ?")
        sql = f"SELECT count(*) FROM ({inner}) AS counted"  # noqa: S608 - of our own text
        [(number,)] = self._many_rows(sql, (query.tenant, *values, max(query.limit, 0)))
        return cast("int", number)

    def scan(self, after_seq: int = 0) -> Iterator[StoredEvent]:
        while piece := self._many_rows(_SCAN, (after_seq, PIECE_ROWS)):
            for row in piece:
                yield rows.stored_event(row)
            after_seq = cast("int", piece[-1][0])

    def pick(self, after_seq: int, kinds: Sequence[str], limit: int) -> list[StoredEvent]:
        found = self._many_rows(rows.pick(len(kinds)), (after_seq, *kinds, max(limit, 0)))
        return [rows.stored_event(row) for row in found]

    def projections(self, tenant: str = "") -> Iterator[StoredProjection]:
        after, sql, of = "", _PROJECTIONS_OF if tenant else _PROJECTIONS, (tenant,) if tenant else ()
        while piece := self._many_rows(sql, (*of, after, PIECE_ROWS)):
            for row in piece:
                yield rows.stored_projection(row)
            after = cast("str", piece[-1][0])

    def proposed(self, since_us: int, until_us: int) -> Iterator[StoredProjection]:
        after: rows.Row = (since_us, "")
        while piece := self._many_rows(_PROPOSED, (*after, until_us, PIECE_ROWS)):
            for _, action_id in piece:
                held = self.projection(cast("str", action_id))
                if held is not None:  # the audit reports an entry without action
                    yield held
            after = piece[-1]


def _order(query: ActionFilter) -> str:
    return "ORDER BY action_id" if query.oldest else "ORDER BY action_id DESC"


def _conditions(query: ActionFilter) -> tuple[list[str], rows.Row]:
    """Return the conditions of a filter besides its tenant, and the bound values."""
    asked = [
        # The second condition of a run repeats the condition of the partial index: the planner requires it.
        ("AND run = ? AND run <> ''", query.run),
        ("AND contract = ?", query.contract),
        ("AND state = ?", query.state),
        ("AND kind = ?", query.kind),
        ("AND hold = ?", query.hold),
        ("AND saga = ? AND saga <> ''", query.saga),
        ("AND action_id < ?", query.before_id),
        ("AND action_id > ?", query.after_id),
    ]
    texts = [text for text, value in asked if value]
    marked = [(query.review, "AND review <> ''"), (query.claim, "AND claim <> ''"), (query.open, OPEN)]
    return texts + [text for wanted, text in marked if wanted], tuple(value for _, value in asked if value)
