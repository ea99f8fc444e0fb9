"""The system of record of the crash tests: a database of its own, which knows what really happened.

Used by the victims' tools and readers, each with a connection of its own, and by the checker, who asks it directly.
It knows nothing of Readback; `tick` is called at each of its moments, so that a process can die there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SCHEMA = """
CREATE TABLE calls (n INTEGER PRIMARY KEY, tool TEXT, stamp TEXT, key TEXT, attempt INTEGER, refused INTEGER DEFAULT 0);
CREATE TABLE effects (
    n INTEGER PRIMARY KEY, tool TEXT, stamp TEXT, key TEXT, target TEXT, value TEXT, visible_us INTEGER
);
CREATE TABLE things (target TEXT PRIMARY KEY, tenant TEXT, value TEXT, version INTEGER, stamp TEXT);
"""
BUSY_SECONDS = 10.0


def no_tick(_name: str) -> None:
    """For those who look at the world from outside."""


@dataclass(frozen=True, slots=True)
class Row:
    """One effect, or one call, as the world remembers it."""

    tool: str
    stamp: str
    key: str
    target: str = ""
    value: str = ""
    refused: bool = False


class World:
    """One file. `tick` is told each moment at which a process may die."""

    def __init__(self, path: Path, tick: Callable[[str], None] = no_tick) -> None:
        self._path = path
        self.tick = tick

    @classmethod
    def create(cls, path: Path) -> World:
        """A fresh world with one thing in it, which nobody has touched."""
        world = cls(path)
        with world.client() as db:
            db.executescript(SCHEMA)
            db.execute("INSERT INTO things VALUES ('thing/old', 'acme', 'original', 1, '')")
        return world

    @contextmanager
    def client(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own; what it did is committed at the end."""
        db = self.open()
        try:
            yield db
            db.commit()
        finally:
            db.close()

    def open(self) -> sqlite3.Connection:
        """A connection that the caller closes. Not synced: these tests kill processes, not machines."""
        db = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA synchronous = OFF")
        return db

    # --- what tools do ---

    def called(self, tool: str, stamp: str, key: str, attempt: int, *, refused: bool = False) -> int:
        """The call has arrived; returns how many with this key have."""
        with self.client() as db:
            db.execute(
                "INSERT INTO calls (tool, stamp, key, attempt, refused) VALUES (?, ?, ?, ?, ?)",
                (tool, stamp, key, attempt, refused),
            )
            return int(db.execute("SELECT count(*) FROM calls WHERE key = ?", (key,)).fetchone()[0])

    def add(
        self, tool: str, stamp: str, key: str, target: str, value: str, visible_us: int = 0, once: bool = False
    ) -> None:
        """An effect of its own; with `once`, a key has one effect however often it is asked for."""
        with self.client() as db:
            db.execute("BEGIN IMMEDIATE")
            if not (once and db.execute("SELECT 1 FROM effects WHERE key = ?", (key,)).fetchone()):
                self._record(db, tool, stamp, key, target, value, visible_us)
            self.tick("in the effect's transaction")
            db.execute("COMMIT")
        self.tick("after the effect")

    def put(self, tool: str, stamp: str, key: str, target: str, value: str) -> None:
        """An effect that changes a thing."""
        with self.client() as db:
            db.execute("BEGIN IMMEDIATE")
            self.change(db, tool, stamp, key, target, value)
            self.tick("in the effect's transaction")
            db.execute("COMMIT")
        self.tick("after the effect")

    def change(self, db: sqlite3.Connection, tool: str, stamp: str, key: str, target: str, value: str) -> None:
        """The same inside a transaction that somebody else ends."""
        self._record(db, tool, stamp, key, target, value, 0)
        db.execute(
            "UPDATE things SET value = ?, stamp = ?, version = version + 1 WHERE target = ?", (value, stamp, target)
        )

    def _record(
        self, db: sqlite3.Connection, tool: str, stamp: str, key: str, target: str, value: str, visible_us: int
    ) -> None:
        db.execute(
            "INSERT INTO effects (tool, stamp, key, target, value, visible_us) VALUES (?, ?, ?, ?, ?, ?)",
            (tool, stamp, key, target, value, visible_us),
        )

    # --- what readers see ---

    def thing(self, target: str) -> dict[str, object] | None:
        """A thing as it is."""
        with self.client() as db:
            row = db.execute("SELECT * FROM things WHERE target = ?", (target,)).fetchone()
        return None if row is None else dict(row)

    def visible(self, now_us: int, *, stamp: str = "", target: str = "") -> list[dict[str, object]]:
        """The effects that can be seen by now."""
        sql = "SELECT * FROM effects WHERE visible_us <= ? AND (stamp = ? OR target = ?)"
        with self.client() as db:
            return [dict(row) for row in db.execute(sql, (now_us, stamp, target)).fetchall()]

    # --- the truth ---

    def effects(self) -> list[Row]:
        """Everything that was done, by whomever."""
        with self.client() as db:
            return [
                Row(r["tool"], r["stamp"], r["key"], r["target"], r["value"])
                for r in db.execute("SELECT * FROM effects ORDER BY n").fetchall()
            ]

    def calls(self) -> list[Row]:
        """Every call that arrived; `target` is its attempt's number."""
        with self.client() as db:
            return [
                Row(r["tool"], r["stamp"], r["key"], str(r["attempt"]), refused=bool(r["refused"]))
                for r in db.execute("SELECT * FROM calls ORDER BY n").fetchall()
            ]

    def refused(self, key: str) -> bool:
        """The last call with this key was refused before it did anything, and none came since."""
        with self.client() as db:
            row = db.execute("SELECT refused FROM calls WHERE key = ? ORDER BY n DESC LIMIT 1", (key,)).fetchone()
        return row is not None and bool(row["refused"])
