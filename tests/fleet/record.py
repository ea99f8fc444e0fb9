"""The system of record of the drills: a database of its own, where an effect that is made twice stands there twice.

The tools write to it and the readers read from it, each by a connection of its own; the checker asks it directly. It
knows nothing of Readback.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.fleet.checker import Effect

SCHEMA = "CREATE TABLE effect (n INTEGER PRIMARY KEY, op TEXT NOT NULL, stamp TEXT NOT NULL, at_ns INTEGER NOT NULL)"
BUSY_SECONDS = 30.0


class Record:
    """One file, which processes share."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self) -> None:
        with self._open() as db:
            db.execute("PRAGMA journal_mode = wal")
            db.execute(SCHEMA)
            db.execute("CREATE INDEX effect_of ON effect (op)")

    def make(self, op: str, stamp: str) -> None:
        """One more effect. Nothing here keeps it from being the second."""
        with self._open() as db:
            db.execute("INSERT INTO effect (op, stamp, at_ns) VALUES (?, ?, ?)", (op, stamp, time.monotonic_ns()))

    def of(self, op: str) -> list[Effect]:
        return self._ask("SELECT op, stamp, at_ns FROM effect WHERE op = ? ORDER BY n", op)

    def by(self, stamp: str) -> list[Effect]:
        return self._ask("SELECT op, stamp, at_ns FROM effect WHERE stamp = ? ORDER BY n", stamp)

    def everything(self) -> list[Effect]:
        return self._ask("SELECT op, stamp, at_ns FROM effect ORDER BY n")

    def _ask(self, sql: str, *values: str) -> list[Effect]:
        with self._open() as db:
            return [Effect(*row) for row in db.execute(sql, values)]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)) as db:
            yield db
