"""The schema of the ledger and its numbered steps, each applied once and held to its checksum.

Called by `opening`. The text of a step that was released never changes: what is to be different is a new
step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from readback.adapters.store_migration import Migration as Migration
from readback.adapters.store_migration import left_of, migrations_of

APPLICATION_ID: Final = 0x52424C31  # "RBL1"


def migrations() -> list[Migration]:
    """Every step that this release knows, in order: 1, 2, 3 without gaps."""
    return migrations_of("readback.adapters.store_sqlite")


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Bring the schema up to this release, in one transaction; safe when several processes come at once."""
    if not pending(connection, path):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration"
            " (number INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT"
        )
        # Asked again inside the lock: another process may have been here in between.
        for step in pending(connection, path):
            connection.execute(step.sql)
            connection.execute(
                "INSERT INTO migration (number, name, sha256) VALUES (?, ?, ?)",
                (step.number, step.name, step.checksum),
            )
            connection.pragma("user_version", step.number)
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def pending(connection: apsw.Connection, path: Path) -> list[Migration]:
    """The steps still to do. Raises StoreVersionError where the file and this release disagree."""
    known = migrations()
    done: dict[int, str] = {}
    if connection.table_exists("main", "migration"):
        done = dict(connection.execute("SELECT number, sha256 FROM migration"))
    return left_of(known, done, f"The database {path}")
