"""Reading: a pool of reading connections, and the queries of the port.

Called by the store. Long results are fetched in pieces, so no reader holds a snapshot for long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar, cast

import psycopg

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
from readback.stores.postgres import due_queries
from readback.stores.postgres.blob_store import Objects
from readback.stores.postgres.connection import row_encoding, rows, schema
from readback.stores.postgres.connection.connect import Connection, Reconnection, together
from readback.stores.postgres.connection.faults import was_crowded, was_cut
from readback.stores.postgres.connection.second_connection import Watched

T = TypeVar("T")
Row = rows.Row
PIECE_ROWS: Final = 512
OPEN: Final = f"AND state IN ({', '.join(repr(state) for state in OPEN_STATES)})"
READERS_MAX: Final = 8
"""Most reading connections at once. A further reader waits for one."""
RETURN_WAITED_S: Final = 10.0
TRIES_MAX: Final = 3
"""Most attempts of a read on new connections. A restarting server breaks each idle connection."""

_EVENTS: Final = rows.statement("SELECT", rows.EVENT_COLUMNS, rows.EVENT_FROM, "WHERE action_id = %s ORDER BY version")
_PROJECTION: Final = rows.statement("SELECT", rows.STORED_COLUMNS, "FROM action WHERE action_id = %s")
_PROJECTIONS: Final = rows.statement(
    "SELECT", rows.STORED_COLUMNS, "FROM action WHERE action_id > %s ORDER BY action_id LIMIT %s"
)
_PROJECTIONS_OF: Final = rows.statement(
    "SELECT", rows.STORED_COLUMNS, "FROM action WHERE tenant = %s AND action_id > %s ORDER BY action_id LIMIT %s"
)
_PROPOSED: Final = rows.statement(
    "SELECT begun.at_us,", rows.STORED_COLUMNS, "FROM (SELECT at_us, action_id FROM event WHERE version = 1",
    "AND (at_us, action_id) > (%s, %s) AND at_us < %s ORDER BY at_us, action_id LIMIT %s) AS begun",
    "LEFT JOIN action USING (action_id) ORDER BY begun.at_us, action_id",
)  # fmt: skip
_PAGE: Final = rows.statement("SELECT", rows.STORED_COLUMNS, "FROM action WHERE tenant = %s")
_COUNT: Final = "SELECT 1 FROM action WHERE tenant = %s"
_PAGE_OF_ALL: Final = rows.statement("SELECT", rows.STORED_COLUMNS, "FROM action WHERE action_id > ''")
"""Across tenants: in the order of ids, so a page reads only its own rows for any number of tenants."""
_NEXT_TENANT: Final = "SELECT min(tenant) FROM action WHERE tenant > %s"
_NEXT_OWNER: Final = "SELECT min(lease_owner) FROM action WHERE lease_owner > %s AND lease_owner <> ''"


class Readers:
    """Connections, each lent to one thread at a time."""

    def __init__(self, shown: str, connect: Callable[[], Connection], watched: Watched) -> None:
        self._shown, self._watched = shown, watched
        self._connect, self._reconnection = connect, Reconnection()
        self._free = threading.BoundedSemaphore(READERS_MAX)
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._refusal: Callable[[], StoreError] | None = None

    def rows(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[rows.Row]:
        """Return all rows of one statement. Its snapshot ends with the statement."""
        return self._asked(lambda connection: connection.execute(sql, values, binary=True, prepare=True).fetchall())

    def _asked(self, ask: Callable[[Connection], T]) -> T:
        """Read on one connection, and again after a cut connection."""
        for left in reversed(range(TRIES_MAX)):
            with self._free:
                connection = self._borrow()
                try:
                    return ask(connection)
                except psycopg.Error as error:
                    if not left or not (connection.broken or was_cut(error)):
                        raise self._watched.explained(error, connection) from error
                    self._drop_idle()
                finally:
                    self.give_back(connection)
        raise AssertionError("the last try answers or raises")

    def together(self, asked: Sequence[tuple[str, Sequence[Any]]]) -> list[list[Row]]:
        """Return all rows of several statements, in one round trip."""

        def ask(connection: Connection) -> list[list[Row]]:
            with together(connection):
                cursors = [connection.execute(sql, values, binary=True, prepare=True) for sql, values in asked]
            return [cursor.fetchall() for cursor in cursors]

        return self._asked(ask)

    def give_back(self, connection: Connection) -> None:
        """Retain a connection for the next reader. Close a broken connection, or any connection of a closed store."""
        with self._lock:
            self._lent.discard(connection)
            self._returned.notify_all()
            if self._refusal is None and not connection.broken and not connection.closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self, refusal: Callable[[], StoreError]) -> None:
        """Close idle connections. Lent connections are closed on return."""
        with self._lock:
            self._refusal = self._refusal or refusal
        self._drop_idle()

    def abandon(self, refusal: Callable[[], StoreError]) -> list[Connection]:
        """In a forked child: give up the connections without closing, regardless of the lock's owner at the fork."""
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)
        self._free = threading.BoundedSemaphore(READERS_MAX)
        self._refusal = refusal
        left = [*self._idle, *self._lent]
        self._idle, self._lent = [], set()
        return left

    def _drop_idle(self) -> None:
        """Drop idle connections after a cut: they are probably cut too. The next read opens a new connection."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _borrow(self) -> Connection:
        with self._lock:
            if self._refusal is not None:
                raise self._refusal()
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._new()
        with self._lock:
            self._lent.add(connection)
        return connection

    def _new(self) -> Connection:
        """Open another connection. Wait for a restarting server, or for one of our connections if the server refuses
        more.
        """
        try:
            try:
                return self._connect()
            except StoreError as error:
                if was_crowded(error):
                    raise
                return self._reconnection.wait(self._connect, self._shown)
        except StoreError as error:
            connection = self._one_of_ours() if was_crowded(error) else None
            if connection is None:
                raise
            return connection

    def _one_of_ours(self) -> Connection | None:
        """Return the next returned connection, while the server's limit is in use. None without lent connections, or
        after too long a wait.
        """
        with self._returned:
            self._returned.wait_for(lambda: self._idle or not self._lent, RETURN_WAITED_S)
            if self._refusal is not None:
                raise self._refusal()
            return self._idle.pop() if self._idle else None


class Queries:
    """The reading half of the store port. `_own_clock` selects the clock for leases."""

    def __init__(self, readers: Readers, *, own_clock: bool) -> None:
        self._readers = readers
        self._rows = readers.rows
        self._many_rows = readers.rows
        self._own_clock = own_clock

    _objects: Objects

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
        # `OFFSET 0`: else the planner searches the least id in the order of ids, and may scan every action.
        found = "SELECT action_id FROM action WHERE stamp = %s AND tenant = %s AND stamp <> '' OFFSET 0"
        sql = f"SELECT min(action_id) FROM ({found}) AS found"  # noqa: S608 - of our own text
        return cast("str | None", rows.plain(self._rows(sql, (stamp, tenant))[0])[0])

    def evidence(self, tenant: str, action_id: str, digest: str) -> Evidence | None:
        raw = row_encoding.raw(digest)
        asked = {"id": action_id, "raw": raw, "tenant": tenant}
        found = [] if raw is None else self._rows(rows.SELECT_EVIDENCE, asked)
        if not found:
            return None
        return trusted(self._objects, digest, *rows.plain(found[0]))

    def erased(self, tenant: str, action_id: str, digest: str) -> bool:
        raw = row_encoding.raw(digest)
        return raw is not None and bool(self._rows(rows.IS_ERASED, (action_id, raw, tenant)))

    def keeper(self, tenant: str, digest: str) -> str | None:
        raw = row_encoding.raw(digest)
        found = [] if raw is None else self._rows(rows.KEEPER, (raw, tenant))
        return str(rows.plain(found[0])[0]) if found else None

    def count(self, tenant: str, subject: str, name: str) -> int:
        sql = "SELECT value FROM counter WHERE tenant = %s AND subject = %s AND name = %s"
        found = self._rows(sql, (tenant, subject, name))
        return cast("int", found[0][0]) if found else 0

    def counts(self, tenant: str) -> list[tuple[str, str, int]]:
        found = self._rows(rows.SELECT_COUNTS, (tenant, PACE))
        return [cast("tuple[str, str, int]", rows.plain(row)) for row in found]

    def owners(self) -> list[str]:
        found: list[str] = []
        while (row := rows.plain(self._rows(_NEXT_OWNER, (found[-1] if found else "",))[0]))[0] is not None:
            found.append(cast("str", row[0]))
        return found

    def dependants(self, tenant: str, claim: str, limit: int) -> list[str]:
        return [str(rows.plain(row)[0]) for row in self._rows(rows.SELECT_DEPENDANTS, (tenant, claim, limit))]

    def relies(self, tenant: str, claim: str, action_id: str) -> bool:
        return bool(self._rows(rows.SELECT_RELIANCE, (tenant, claim, action_id)))

    def reliances(self) -> Iterator[tuple[str, str, str]]:
        after = ("", "", "")
        while piece := self._many_rows(rows.SELECT_RELIANCES, (*after, PIECE_ROWS)):
            found = [cast("tuple[str, str, str]", rows.plain(row)) for row in piece]
            yield from found
            after = found[-1]

    # --- freezes, incidents, limits ------------------------------------------------------------------

    def freezes(self, tenant: str) -> list[Freeze]:
        return [rows.freeze(row) for row in self._rows(rows.SELECT_FREEZES, (tenant,))]

    def frozen(self, tenant: str, subjects: Sequence[str]) -> Freeze | None:
        found = self._rows(rows.SELECT_FROZEN, (tenant, row_encoding.texts(subjects))) if subjects else []
        return rows.freeze(found[0]) if found else None

    def opening(self, tenant: str, key_hash: str, subjects: Sequence[str]) -> Opened:
        frozen, counted, *record = self._rows(rows.OPENING, (tenant, tenant, PACE, tenant, key_hash))[0]
        counts = self.counts(tenant) if counted else ()
        return Opened(
            None if record[0] is None else rows.key_record(tuple(record)),
            {(subject, name): value for subject, name, value in counts},
            self.frozen(tenant, subjects) if frozen else None,
        )

    def incidents(self, tenant: str = "", *, open_only: bool = True, named: str = "") -> list[Incident]:
        asked = [(f"{name} = %s", value) for name, value in (("tenant", tenant), ("id", named)) if value]
        conditions = [text for text, _ in asked] + (["closed_us = 0"] if open_only else [])
        where = "WHERE " + " AND ".join(conditions) if conditions else ""
        sql = rows.statement(rows.SELECT_INCIDENTS, where, "ORDER BY opened_us DESC, tenant, id")
        return [rows.incident(row) for row in self._rows(sql, tuple(value for _, value in asked))]

    def in_flight(self, tenant: str) -> int:
        return cast("int", self._rows(rows.IN_FLIGHT, (tenant,))[0][0])

    def evidence_bytes(self, tenant: str) -> int:
        return cast("int", self._rows(rows.EVIDENCE_BYTES, (tenant,))[0][0])

    def damage(self) -> list[str]:
        """Return the faults of the rows and of their guards. Empty if sound. Reads everything."""
        late = [f"Action {row[0]!s} would not be resumed when due." for row in self._many_rows(rows.NOT_READY_WHEN_DUE)]
        kept = self._many_rows(rows.KEY_OF_NO_ACTION)
        held = [f"The key {row[0]!s} belongs to no action with this key." for row in kept]
        frozen = self._many_rows(rows.FREEZE_OF_NO_ACTION)
        held += [f"In tenant {row[0]!s} {row[1]!s} is frozen by a missing action." for row in frozen]
        held += [
            f"The evidence of tenant {row[0]!s} has {row[1]!s} bytes, and {row[2]!s} are counted."
            for row in map(rows.plain, self._many_rows(rows.MISWEIGHED))
        ]
        guards = cast("list[schema.Guard]", self._rows(schema.GUARDS, ()))
        relations = cast("list[schema.Relation]", self._rows(schema.RELATIONS, ()))
        step = self._step()
        return late + held + schema.unlike(guards, step) + schema.strange(relations, step)

    def not_compared(self) -> list[str]:
        """Return sentences on the parts `damage` cannot check: the schema of a newer release."""
        return schema.unknown(self._step())

    def _step(self) -> int:
        return cast("int", self._rows("SELECT max(number) FROM migration", ())[0][0])

    # --- what is due ---------------------------------------------------------------------------------

    def due(self, now_us: int, limit: int, tenant: str = "", known: ContractFilter | None = None) -> list[str]:
        asked = {"own": self._own_clock, "now": now_us, "tenant": tenant, **due_queries.values(known)}
        wanted = max(limit, 0)
        found = self._due(asked, wanted, due_queries.OPEN)
        return found + self._due(asked, wanted - len(found), due_queries.WATCHED)

    def _due(self, asked: dict[str, Any], limit: int, which: due_queries.Ready) -> list[str]:
        if not limit:
            return []
        tenant, asked = asked["tenant"], asked | {"limit": limit}
        if tenant:
            return [str(rows.plain(row)[2]) for row in self._rows(which.of_tenant, asked)]
        looked_at = limit + due_queries.LOOKED_BEYOND
        found = self._rows(which.soonest, asked | {"limit": looked_at})
        if len(found) == looked_at:
            found = self._firsts(asked, limit, which)
        by_tenant: dict[str, list[tuple[int, str]]] = {}
        for ready_us, name, action_id in sorted(map(rows.plain, found)):
            by_tenant.setdefault(name, []).append((ready_us, action_id))
        return fairly(by_tenant.values(), limit)

    def _firsts(self, asked: dict[str, Any], limit: int, which: due_queries.Ready) -> list[rows.Row]:
        """Return the first due action of each tenant. If there are too few, return the first `limit` of each tenant."""
        heads: dict[str, rows.Row] = {}
        for head in map(rows.plain, self._many_rows(which.heads, asked)):
            heads[head[1]] = min(heads.get(head[1], head), head)
        if len(heads) >= limit:
            return [*heads.values()]
        asked_of = (asked | {"tenant": tenant} for tenant in heads)
        return [row for one in asked_of for row in self._rows(which.of_tenant, one)]

    def next_due_us(self, tenant: str = "") -> int | None:
        questions = [which.next_of_tenant if tenant else which.next for which in due_queries.EACH]
        found = [self._rows(one, {"tenant": tenant} if tenant else ())[0][0] for one in questions]
        return min((cast("int", at_us) for at_us in found if at_us is not None), default=None)

    def _tenants(self, tenant: str, next_tenant: str) -> Iterator[str]:
        """Return the requested tenant, or all tenants, found by skipping through an index."""
        if tenant:
            yield tenant
            return
        found = self._rows("SELECT min(tenant) FROM action", ())[0][0]
        name = None if found is None else ""
        while name is not None:
            name = cast("str | None", rows.plain(self._rows(next_tenant, (name,))[0])[0])
            if name is not None:
                yield name

    # --- lists ---------------------------------------------------------------------------------------

    def page(self, query: ActionFilter) -> list[StoredProjection]:
        limit = max(query.limit, 0)
        conditions, values = _conditions(query)
        page = rows.statement(_PAGE, *conditions)
        if query.open:
            # `OFFSET 0`: else the planner may scan in the order of ids, through all settled actions.
            page = f"SELECT * FROM ({page} OFFSET 0) AS open"  # noqa: S608 - of our own text
        sql = rows.statement(page, _order(query), "LIMIT %s")
        unfiltered = ActionFilter(
            before_id=query.before_id, after_id=query.after_id, limit=query.limit, oldest=query.oldest
        )
        if query == unfiltered:
            sql = rows.statement(_PAGE_OF_ALL, *conditions, _order(query), "LIMIT %s")
            return [rows.stored_projection(row) for row in self._many_rows(sql, (*values, limit))]
        found: list[StoredProjection] = []
        for tenant in self._tenants(query.tenant, _NEXT_TENANT):
            found += [rows.stored_projection(row) for row in self._many_rows(sql, (tenant, *values, limit))]
        found.sort(key=lambda stored: stored.projection.action_id, reverse=not query.oldest)
        return found[:limit]

    def counted(self, query: ActionFilter) -> int:
        conditions, values = _conditions(query)
        inner = rows.statement(_COUNT, *conditions, "LIMIT %s")
        sql = f"SELECT count(*) FROM ({inner}) AS counted"  # noqa: S608 - of our own text
        [(number,)] = self._many_rows(sql, (query.tenant, *values, max(query.limit, 0)))
        return cast("int", number)

    def projections(self, tenant: str = "") -> Iterator[StoredProjection]:
        after, sql, of = "", _PROJECTIONS_OF if tenant else _PROJECTIONS, (tenant,) if tenant else ()
        while piece := self._many_rows(sql, (*of, after, PIECE_ROWS)):
            found = [rows.stored_projection(row) for row in piece]
            yield from found
            after = found[-1].projection.action_id

    def proposed(self, since_us: int, until_us: int) -> Iterator[StoredProjection]:
        after = (since_us, "")
        while piece := self._many_rows(_PROPOSED, (*after, until_us, PIECE_ROWS)):
            for row in piece:
                if row[2] is not None:  # the audit reports an entry without action
                    yield rows.stored_projection(row[1:])
            after = cast("tuple[int, str]", rows.plain(piece[-1][:2]))


def _order(query: ActionFilter) -> str:
    return "ORDER BY action_id" if query.oldest else "ORDER BY action_id DESC"


def _conditions(query: ActionFilter) -> tuple[list[str], tuple[str, ...]]:
    """Return the conditions of a filter besides its tenant, and the bound values."""
    # The second condition of a run repeats the condition of the partial index: the planner requires it. Open actions
    # are found by state: `||` keeps the planner from the run's index.
    run = "AND run || '' = %s" if query.open else "AND run = %s AND run <> ''"
    asked = [
        (run, query.run),
        ("AND contract = %s", query.contract),
        ("AND state = %s", query.state),
        ("AND kind = %s", query.kind),
        ("AND hold = %s", query.hold),
        ("AND saga = %s AND saga <> ''", query.saga),
        ("AND action_id < %s", query.before_id),
        ("AND action_id > %s", query.after_id),
    ]
    texts = [text for text, value in asked if value]
    marked = [(query.review, "AND review <> ''"), (query.claim, "AND claim <> ''"), (query.open, OPEN)]
    return texts + [text for wanted, text in marked if wanted], tuple(value for _, value in asked if value)


def trusted(objects: Objects, digest: str, media: str, body: bytes, place: str) -> Evidence:
    """Return a row's evidence, possibly from object storage. Raises StoreCorruptError for bytes with another digest."""
    if place:
        outside = objects.read(place)
        if outside is None:
            raise StoreCorruptError(f"Evidence {digest} is not at {place}, its recorded location.")
        body = outside
    if sha256_hex(body) != digest:
        raise StoreCorruptError(f"Evidence {digest} has other bytes than its digest says.")
    return Evidence(digest=digest, media=media, body=body)
