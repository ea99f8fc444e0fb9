"""The five books of the trip's providers: flights, hotel, car, payments and tickets, each in an SQLite file.

Knows no HTTP and no fault. An entry is made once and may be taken back once. The journal records every change with the
stamp and the key of the request.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from readback.demo.systems.faults import now_us

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trade:
    """A provider's names. `honours_key`: one key creates one entry, for any number of requests. Every provider honours
    the key when an entry is taken back.
    """

    prefix: str
    made: str
    undone: str
    undo: str
    honours_key: bool


TRADES: Final[Mapping[str, Trade]] = {
    "flights": Trade("fl", made="held", undone="released", undo="release", honours_key=False),
    "hotel": Trade("ho", made="booked", undone="cancelled", undo="cancel", honours_key=False),
    "car": Trade("ca", made="reserved", undone="cancelled", undo="cancel", honours_key=False),
    "payments": Trade("pa", made="charged", undone="refunded", undo="refund", honours_key=True),
    "tickets": Trade("ti", made="issued", undone="voided", undo="void", honours_key=True),
}

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS entries (tenant TEXT, id TEXT, trip TEXT, what TEXT, paid_by TEXT, cents INTEGER,
    status TEXT, made_by TEXT, made_stamp TEXT, made_key TEXT, version INTEGER, updated_by TEXT, stamp TEXT,
    updated_us INTEGER, PRIMARY KEY (tenant, id));
CREATE INDEX IF NOT EXISTS entries_by_stamp ON entries (made_stamp);
CREATE TABLE IF NOT EXISTS journal (seq INTEGER PRIMARY KEY, at_us INTEGER, tenant TEXT, trip TEXT, id TEXT, op TEXT,
    actor TEXT, stamp TEXT, key TEXT, row TEXT);
CREATE INDEX IF NOT EXISTS journal_by_stamp ON journal (stamp);
CREATE TABLE IF NOT EXISTS keys (tenant TEXT, key TEXT, request_hash TEXT, status TEXT, code INTEGER, answer TEXT,
    at_us INTEGER, PRIMARY KEY (tenant, key));
"""
_COLUMNS: Final = ("id", "trip", "what", "status", "made_stamp", "made_key", "stamp")


@dataclass(frozen=True, slots=True)
class Asked:
    """The requester and the request. `bent`: values of a fault that replace requested values."""

    tenant: str
    actor: str
    stamp: str = ""
    key: str = ""
    trip: str = ""
    what: str = ""
    paid_by: str = ""
    cents: int = 0
    bent: Mapping[str, Any] = field(default_factory=dict)


class Book:
    """One provider's book: one writer connection behind one lock. A transaction is `with book.transaction():`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.trade = name, TRADES[name]
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path_of(folder, name), isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_TABLES)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def make(self, asked: Asked) -> Row:
        """Create an entry, regardless of other entries."""
        with self._lock:
            count = int(self._db.execute("SELECT count(*) FROM entries").fetchone()[0])
            row = {
                "tenant": asked.tenant, "id": f"{self.trade.prefix}-{count + 1}", "trip": asked.trip,
                "what": asked.what, "paid_by": asked.paid_by, "cents": asked.cents, "status": self.trade.made,
                "made_by": asked.actor, "made_stamp": asked.stamp, "made_key": asked.key, "version": 0, **asked.bent,
            }  # fmt: skip
            return self._put("make", asked, row)

    def undo(self, asked: Asked, row: Row) -> Row:
        """Take an entry back; it stays in the book."""
        with self._lock:
            return self._put(self.trade.undo, asked, {**row, "status": self.trade.undone, **asked.bent})

    def _put(self, op: str, asked: Asked, values: Row) -> Row:
        row = {**values, "version": values["version"] + 1, "updated_by": asked.actor, "stamp": asked.stamp,
               "updated_us": now_us()}  # fmt: skip
        self._db.execute(
            "INSERT OR REPLACE INTO entries VALUES (:tenant, :id, :trip, :what, :paid_by, :cents, :status, :made_by,"
            " :made_stamp, :made_key, :version, :updated_by, :stamp, :updated_us)",
            row,
        )
        self._db.execute(
            "INSERT INTO journal VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (row["updated_us"], row["tenant"], row["trip"], row["id"], op, asked.actor, asked.stamp, asked.key,
             json.dumps(row)),
        )  # fmt: skip
        return row

    # ---- reading

    def get(self, tenant: str, row_id: str) -> Row | None:
        found = self.select(tenant, {"id": row_id})
        return found[0] if found else None

    def select(self, tenant: str, where: Mapping[str, str]) -> list[Row]:
        """The tenant's entries with these column values. An unknown column raises `KeyError`."""
        if unknown := where.keys() - set(_COLUMNS):
            raise KeyError(f"{self.name} cannot be filtered by {sorted(unknown)}")
        with self._lock:
            rows = self._db.execute("SELECT * FROM entries WHERE tenant = ? ORDER BY id", (tenant,)).fetchall()
        return [dict(row) for row in rows if all(row[name] == value for name, value in where.items())]

    def journal(self, tenant: str, stamp: str) -> list[Row]:
        """The tenant's changes under a stamp, oldest first."""
        with self._lock:
            rows = self._db.execute(
                "SELECT * FROM journal WHERE tenant = ? AND stamp = ? ORDER BY seq", (tenant, stamp)
            ).fetchall()
        return [{**dict(row), "row": json.loads(row["row"])} for row in rows]

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


def path_of(folder: Path, name: str) -> Path:
    """The file of a provider's book."""
    return folder / f"{name}.db"
