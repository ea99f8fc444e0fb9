"""The order service's SQLite database: tables, journal, and lagging views.

Knows no HTTP and no fault. A `Write` carries the changes of a fault to a write: another tenant's row, other values, a
slow replica.
"""

from __future__ import annotations

import json
import sqlite3
import string
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from readback.demo.systems.faults import now_us

Row = dict[str, Any]

_TAIL = "version INTEGER, updated_by TEXT, stamp TEXT, updated_us INTEGER, PRIMARY KEY (tenant, id)"
TABLES: dict[str, str] = {
    "orders": "status TEXT, carrier TEXT, address TEXT, note TEXT, amount_cents INTEGER, currency TEXT",
    "shipments": "order_id TEXT, carrier TEXT, sku TEXT, qty INTEGER, status TEXT",
    "charges": (
        "order_id TEXT, amount_cents INTEGER, currency TEXT, status TEXT, refunded_cents INTEGER, idempotency_key TEXT"
    ),
    "refunds": "charge_id TEXT, amount_cents INTEGER, currency TEXT, status TEXT, idempotency_key TEXT",
    "stock": "qty INTEGER",
    "notes": "order_id TEXT, text TEXT",
}
PREFIXES = {"orders": "o", "shipments": "s", "charges": "ch", "refunds": "re", "notes": "n"}
TENANTS = ("acme", "globex")

_OTHER_TABLES = """
CREATE TABLE IF NOT EXISTS changes (seq INTEGER PRIMARY KEY, at_us INTEGER, tenant TEXT, resource TEXT,
    id TEXT, op TEXT, actor TEXT, stamp TEXT, key TEXT, row TEXT, replica_us INTEGER, cache_us INTEGER);
CREATE INDEX IF NOT EXISTS changes_by_id ON changes (tenant, resource, id, seq);
CREATE INDEX IF NOT EXISTS changes_by_stamp ON changes (stamp);
CREATE TABLE IF NOT EXISTS keys (tenant TEXT, key TEXT, request_hash TEXT, status TEXT, code INTEGER,
    answer TEXT, at_us INTEGER, PRIMARY KEY (tenant, key));
CREATE TABLE IF NOT EXISTS settlements (tenant TEXT, charge_id TEXT, due_us INTEGER, ends_as TEXT);
"""


@dataclass(frozen=True, slots=True)
class Write:
    """The writer, the tenant, and the fault's changes."""

    tenant: str
    actor: str
    stamp: str | None = None
    key: str | None = None
    op: str = "write"
    override: Mapping[str, Any] = field(default_factory=dict)
    replica_lag_ms: int = 0
    cache_lag_ms: int = 0


class Store:
    """One writer connection behind one lock. A transaction is `with store.transaction():`."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        self._lock = threading.RLock()
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        for table, columns in TABLES.items():
            create = f"CREATE TABLE IF NOT EXISTS $table (tenant TEXT, id TEXT, {columns}, {_TAIL})"
            self._db.execute(_sql(table, create))
        self._db.executescript(_OTHER_TABLES)
        # What a view shows although the primary never held it: a write lost behind a write-through view.
        self._phantoms: dict[tuple[str, str, str, str], Row] = {}

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self, *, keep: bool = True) -> Iterator[None]:
        """All or nothing. With `keep=False` always nothing, to compute the honest answer."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT" if keep else "ROLLBACK")

    # ---- the primary

    def get(self, tenant: str, resource: str, row_id: str) -> Row | None:
        with self._lock:
            found = self._db.execute(
                _sql(resource, "SELECT * FROM $table WHERE tenant = ? AND id = ?"), (tenant, row_id)
            ).fetchone()
        return dict(found) if found else None

    def select(self, tenant: str, resource: str, where: Mapping[str, str]) -> list[Row]:
        """Rows with these column values. An unknown column raises `KeyError`."""
        columns = {part.split()[0] for part in TABLES[resource].split(",")} | {"id", "stamp", "updated_by"}
        if unknown := where.keys() - columns:
            raise KeyError(f"{resource} cannot be filtered by {sorted(unknown)}")
        tests = "".join(f" AND {column} = ?" for column in where)
        with self._lock:
            rows = self._db.execute(
                _sql(resource, "SELECT * FROM $table WHERE tenant = ?$tests ORDER BY id", tests=tests),
                (tenant, *where.values()),
            ).fetchall()
        return [dict(row) for row in rows]

    def next_id(self, resource: str) -> str:
        """A new id, without gaps, over all tenants."""
        prefix = PREFIXES[resource]
        highest = self._db.execute(
            _sql(resource, "SELECT max(CAST(substr(id, ?) AS INTEGER)) FROM $table"), (len(prefix) + 2,)
        ).fetchone()[0]
        return f"{prefix}-{(highest or 0) + 1}"

    def put(self, write: Write, resource: str, row_id: str, values: Mapping[str, Any]) -> Row:
        """Insert or change one row, raise the version, write the stamp, and journal the change."""
        old = self.get(write.tenant, resource, row_id) or {"version": 0}
        bent = {name: value for name, value in write.override.items() if name in old or name in values}
        row: Row = {**old, **values, **bent, "tenant": write.tenant, "id": row_id,
                    "version": old["version"] + 1, "updated_by": write.actor, "stamp": write.stamp,
                    "updated_us": now_us()}  # fmt: skip
        self._db.execute(
            _sql(resource, "INSERT OR REPLACE INTO $table ($names) VALUES ($marks)",
                 names=", ".join(row), marks=", ".join("?" * len(row))),
            tuple(row.values()),
        )  # fmt: skip
        self._journal(write, resource, row_id, row)
        return row

    def delete(self, write: Write, resource: str, row_id: str) -> None:
        self._db.execute(_sql(resource, "DELETE FROM $table WHERE tenant = ? AND id = ?"), (write.tenant, row_id))
        self._journal(write, resource, row_id, None)

    def _journal(self, write: Write, resource: str, row_id: str, row: Row | None) -> None:
        at = now_us()
        self._db.execute(
            "INSERT INTO changes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (at, write.tenant, resource, row_id, write.op, write.actor, write.stamp, write.key,
             json.dumps(row) if row else None,
             at + write.replica_lag_ms * 1_000, at + write.cache_lag_ms * 1_000),
        )  # fmt: skip
        for view in ("replica", "cache"):
            self._phantoms.pop((view, write.tenant, resource, row_id), None)

    def position(self) -> int:
        """The commit position: the number of the last change."""
        with self._lock:
            return int(self._db.execute("SELECT coalesce(max(seq), 0) FROM changes").fetchone()[0])

    def search(self, tenant: str | None, stamp: str) -> list[Row]:
        """Every change under this stamp, in one tenant, or with None in all tenants."""
        with self._lock:
            rows = self._db.execute(
                "SELECT seq, at_us, tenant, resource, id, op, actor, key, row FROM changes"
                " WHERE stamp = ? AND (? IS NULL OR tenant = ?) ORDER BY seq",
                (stamp, tenant, tenant),
            ).fetchall()
        return [{**dict(row), "row": json.loads(row["row"]) if row["row"] else None} for row in rows]

    # ---- the lagging views

    def replica(self, tenant: str, resource: str, row_id: str) -> tuple[Row | None, int]:
        """The row in the replica, and the replica's commit position."""
        with self._lock:
            waiting = self._db.execute("SELECT min(seq) FROM changes WHERE replica_us > ?", (now_us(),))
            first_missing = waiting.fetchone()[0]
            reached = int(first_missing) - 1 if first_missing else self.position()
            row = self._as_of("seq", reached, tenant, resource, row_id)
        return self._phantoms.get(("replica", tenant, resource, row_id), row), reached

    def cache(self, tenant: str, resource: str, row_id: str) -> Row | None:
        """The row in the cache. Entries become stale one by one, unlike the replica."""
        with self._lock:
            row = self._as_of("cache_us", now_us(), tenant, resource, row_id)
        return self._phantoms.get(("cache", tenant, resource, row_id), row)

    def catch_up(self) -> None:
        """End all lag and remove all phantoms: both views show the primary's data."""
        with self.transaction():
            self._db.execute("UPDATE changes SET replica_us = 0, cache_us = 0")
            self._phantoms.clear()

    def _as_of(self, column: str, at_most: int, tenant: str, resource: str, row_id: str) -> Row | None:
        found = self._db.execute(
            "SELECT row FROM changes WHERE tenant = ? AND resource = ? AND id = ?"
            " AND CASE ? WHEN 'seq' THEN seq ELSE cache_us END <= ? ORDER BY seq DESC LIMIT 1",
            (tenant, resource, row_id, column, at_most),
        ).fetchone()
        return json.loads(found["row"]) if found and found["row"] else None

    def pretend(self, view: str, tenant: str, resource: str, row: Row) -> None:
        """Let a view show a row missing from the primary, until the next true write of the row."""
        self._phantoms[view, tenant, resource, row["id"]] = row

    # ---- what the payment provider will do by itself

    def settle_at(self, tenant: str, charge_id: str, due_us: int, ends_as: str) -> None:
        self._db.execute("INSERT INTO settlements VALUES (?, ?, ?, ?)", (tenant, charge_id, due_us, ends_as))

    def take_settlements(self) -> list[Row]:
        """Return and forget the due settlements."""
        due = (now_us(),)
        rows = self._db.execute("SELECT * FROM settlements WHERE due_us <= ?", due).fetchall()
        self._db.execute("DELETE FROM settlements WHERE due_us <= ?", due)
        return [dict(row) for row in rows]

    # ---- idempotency keys

    def key(self, tenant: str, key: str) -> Row | None:
        with self._lock:
            found = self._db.execute("SELECT * FROM keys WHERE tenant = ? AND key = ?", (tenant, key)).fetchone()
        return {**dict(found), "answer": json.loads(found["answer"])} if found else None

    def put_key(self, tenant: str, key: str, request_hash: str, status: str, code: int, answer: object) -> None:
        """Record the result of the request with this key. Must run in the effect's own transaction."""
        self._db.execute(
            "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)",
            (tenant, key, request_hash, status, code, json.dumps(answer), now_us()),
        )


def _sql(resource: str, statement: str, **parts: str) -> str:
    """The statement with its `$names` filled in, from our own tables and columns, never from outside text."""
    if resource not in TABLES:
        raise KeyError(f"no such resource: {resource}")
    return string.Template(statement).substitute(parts, table=resource)
