"""The SQLite database of one service: tables, a journal, idempotency keys and lagging views.

Knows no HTTP and no fault. A `Write` carries a fault's changes: another tenant's row, other values, a slow replica.
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

TENANTS = ("acme", "globex")
SHOP = {
    "orders": "status TEXT, carrier TEXT, address TEXT, note TEXT, amount_cents INTEGER, currency TEXT",
    "shipments": "order_id TEXT, carrier TEXT, sku TEXT, qty INTEGER, status TEXT",
    "charges": (
        "order_id TEXT, amount_cents INTEGER, currency TEXT, status TEXT, refunded_cents INTEGER, idempotency_key TEXT"
    ),
    "refunds": "charge_id TEXT, amount_cents INTEGER, currency TEXT, status TEXT, idempotency_key TEXT",
    "stock": "qty INTEGER",
    "notes": "order_id TEXT, text TEXT",
}
TRIP = {
    "entries": (
        "book TEXT, trip TEXT, what TEXT, paid_by TEXT, cents INTEGER, status TEXT,"
        " made_by TEXT, made_stamp TEXT, made_key TEXT"
    )
}
TABLES = {**SHOP, **TRIP}
"""Columns of each table. Every table begins with tenant and id, and ends with the columns of `_TAIL`."""

_TAIL = "version INTEGER, updated_by TEXT, stamp TEXT, updated_us INTEGER, PRIMARY KEY (tenant, id)"
_OTHER_TABLES = """
CREATE TABLE IF NOT EXISTS changes (seq INTEGER PRIMARY KEY, at_us INTEGER, tenant TEXT, resource TEXT,
    id TEXT, op TEXT, actor TEXT, stamp TEXT, key TEXT, row TEXT, replica_us INTEGER);
CREATE INDEX IF NOT EXISTS changes_by_id ON changes (tenant, resource, id, seq);
CREATE INDEX IF NOT EXISTS changes_by_stamp ON changes (stamp);
CREATE TABLE IF NOT EXISTS keys (tenant TEXT, key TEXT, request_hash TEXT, status TEXT, code INTEGER,
    answer TEXT, at_us INTEGER, PRIMARY KEY (tenant, key));
"""


@dataclass(frozen=True, slots=True)
class Write:
    """The writer, the tenant, and the fault's changes."""

    tenant: str
    actor: str
    stamp: str = ""
    key: str = ""
    op: str = "write"
    override: Mapping[str, Any] = field(default_factory=dict)
    replica_lag_ms: int = 0


class Store:
    """One connection behind one lock. A transaction is `with store.transaction():`."""

    def __init__(self, path: Path, tables: Mapping[str, str]) -> None:
        self.tables = tables
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        self._lock = threading.RLock()
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        for table, columns in tables.items():
            self._run(table, f"CREATE TABLE IF NOT EXISTS $table (tenant TEXT, id TEXT, {columns}, {_TAIL})")
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

    def _run(self, table: str, statement: str, *values: object, **parts: str) -> list[Row]:
        """Run a statement with its `$names` filled in from our own tables and columns, never from outside text."""
        filled = string.Template(statement).substitute(parts, table=table)
        with self._lock:
            return [dict(row) for row in self._db.execute(filled, values).fetchall()]

    # ---- the primary

    def get(self, tenant: str, table: str, row_id: str) -> Row | None:
        return _first(self._run(table, "SELECT * FROM $table WHERE tenant = ? AND id = ?", tenant, row_id))

    def select(self, tenant: str, table: str, where: Mapping[str, str]) -> list[Row]:
        """Rows with these column values. An unknown column raises `KeyError`."""
        columns = {part.split()[0] for part in TABLES[table].split(",")} | {"id", "stamp", "updated_by"}
        if unknown := where.keys() - columns:
            raise KeyError(f"{table} cannot be filtered by {sorted(unknown)}")
        tests = "".join(f" AND {column} = ?" for column in where)
        statement = "SELECT * FROM $table WHERE tenant = ?$tests ORDER BY id"
        return self._run(table, statement, tenant, *where.values(), tests=tests)

    def next_id(self, table: str, prefix: str) -> str:
        """A new id without gaps, over all tenants."""
        statement = "SELECT max(CAST(substr(id, ?) AS INTEGER)) AS n FROM $table WHERE id LIKE ?"
        (highest,) = self._run(table, statement, len(prefix) + 2, f"{prefix}-%")
        return f"{prefix}-{(highest['n'] or 0) + 1}"

    def put(self, write: Write, table: str, row_id: str, values: Mapping[str, Any]) -> Row:
        """Insert or change one row, raise the version, write the stamp, and journal the change."""
        old = self.get(write.tenant, table, row_id) or {"version": 0}
        bent = {name: value for name, value in write.override.items() if name in old or name in values}
        row: Row = {**old, **values, **bent, "tenant": write.tenant, "id": row_id, "version": old["version"] + 1,
                    "updated_by": write.actor, "stamp": write.stamp or None, "updated_us": now_us()}  # fmt: skip
        self._run(table, "INSERT OR REPLACE INTO $table ($names) VALUES ($marks)", *row.values(),
                  names=", ".join(row), marks=", ".join("?" * len(row)))  # fmt: skip
        self._journal(write, table, row_id, row)
        return row

    def delete(self, write: Write, table: str, row_id: str) -> None:
        self._run(table, "DELETE FROM $table WHERE tenant = ? AND id = ?", write.tenant, row_id)
        self._journal(write, table, row_id, None)

    def _journal(self, write: Write, table: str, row_id: str, row: Row | None) -> None:
        at = now_us()
        self._db.execute(
            "INSERT INTO changes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (at, write.tenant, table, row_id, write.op, write.actor, write.stamp, write.key,
             json.dumps(row) if row else None, at + write.replica_lag_ms * 1_000),
        )  # fmt: skip
        for view in ("replica", "cache"):
            self._phantoms.pop((view, write.tenant, table, row_id), None)

    def position(self) -> int:
        """The commit position: the number of the last change."""
        return int(self._run("changes", "SELECT coalesce(max(seq), 0) AS n FROM $table")[0]["n"])

    def search(self, tenant: str, stamp: str) -> list[Row]:
        """Every change under this stamp, in one tenant, or with `*` in all tenants."""
        statement = (
            "SELECT seq, at_us, tenant, resource, id, op, actor, key, row FROM $table"
            " WHERE stamp = ? AND ? IN (tenant, '*') ORDER BY seq"
        )
        rows = self._run("changes", statement, stamp, tenant)
        return [{**row, "row": json.loads(row["row"]) if row["row"] else None} for row in rows]

    # ---- the views: a replica that may lag, and a write-through cache

    def replica(self, tenant: str, table: str, row_id: str) -> tuple[Row | None, int]:
        """The row in the replica, and the replica's commit position."""
        with self._lock:
            (missing,) = self._run("changes", "SELECT min(seq) AS n FROM $table WHERE replica_us > ?", now_us())
            reached = int(missing["n"]) - 1 if missing["n"] else self.position()
            statement = "SELECT row FROM $table WHERE tenant = ? AND resource = ? AND id = ? AND seq <= ? ORDER BY -seq"
            found = _first(self._run("changes", statement, tenant, table, row_id, reached))
        row = json.loads(found["row"]) if found and found["row"] else None
        return self._phantoms.get(("replica", tenant, table, row_id), row), reached

    def cache(self, tenant: str, table: str, row_id: str) -> Row | None:
        return self._phantoms.get(("cache", tenant, table, row_id), self.get(tenant, table, row_id))

    def catch_up(self) -> None:
        """End all lag and remove all phantoms: both views show the primary's data."""
        with self.transaction():
            self._db.execute("UPDATE changes SET replica_us = 0")
            self._phantoms.clear()

    def pretend(self, view: str, tenant: str, table: str, row: Row) -> None:
        """Let a view show a row missing from the primary, until the next true write of the row."""
        self._phantoms[view, tenant, table, row["id"]] = row

    # ---- idempotency keys

    def key(self, tenant: str, key: str) -> Row | None:
        found = _first(self._run("keys", "SELECT * FROM $table WHERE tenant = ? AND key = ?", tenant, key))
        return {**found, "answer": json.loads(found["answer"])} if found else None

    def put_key(self, tenant: str, key: str, request_hash: str, status: str, code: int, answer: object) -> None:
        """Record the result of the request with this key. Must run in the effect's own transaction."""
        row = (tenant, key, request_hash, status, code, json.dumps(answer), now_us())
        self._db.execute("INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def _first(rows: list[Row]) -> Row | None:
    return rows[0] if rows else None
