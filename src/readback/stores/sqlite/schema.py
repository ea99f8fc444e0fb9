"""The ledger's schema and its numbered steps, each applied once and compared with its checksum.

Called by `connect`. The text of a released step never changes; a change is a new step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import apsw

from readback.errors import StoreError
from readback.stores.migration import Applied, left_of, migrations_of, not_compared, refuse_older
from readback.stores.migration import Migration as Migration
from readback.stores.sqlite.faults import as_store_error

APPLICATION_ID: Final = 0x52424C31  # "RBL1"


def migrations() -> Sequence[Migration]:
    """Return every step of this release in order: 1, 2, 3 without gaps."""
    return migrations_of("readback.stores.sqlite")


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Migrate the schema to this release in one transaction. Safe for several processes at once."""
    if not pending(connection, path):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration"
            " (number INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT"
        )
        # Read again inside the lock: another process may have migrated meanwhile.
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
    """Return the pending steps. Raises StoreVersionError if the file and this release disagree."""
    done: dict[int, Applied] = {}
    if connection.table_exists("main", "migration"):
        found = connection.execute("SELECT number, name, sha256 FROM migration")
        done = {number: Applied(name, checksum) for number, name, checksum in found}
    return left_of(migrations(), done, f"The database {path}")


def explained(error: apsw.Error, connection: apsw.Connection, path: Path) -> StoreError:
    """Return the typed error for an exception. A newer schema may have removed the target of the statement."""
    if isinstance(error, apsw.SQLError):
        try:
            pending(connection, path)
        except StoreError as other:
            return other
    return as_store_error(error, path)


OBJECTS: Final = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
Object = tuple[str, str, str, str | None]


def unknown(number: int) -> list[str]:
    """Return sentences on parts of a ledger at this step that this release cannot compare."""
    return not_compared(number, migrations())


def unlike(found: Iterable[Object], number: int) -> list[str]:
    """Return sentences on differences between a file's schema and the schema of these steps.

    Reported are missing or changed guards of rows, and foreign objects. A trigger or a unique index acts on rows. A
    table or a view may pass for a part of the ledger. A plain index does neither. Empty for a newer release's schema,
    unknown to this release.
    """
    if number > len(migrations()):
        return []
    fresh = apsw.Connection(":memory:")
    try:
        migrate(fresh, Path(":memory:"))
        wanted = {(str(kind), str(name)): (of, sql) for kind, name, of, sql in fresh.execute(OBJECTS)}
    finally:
        fresh.close()
    there = {(kind, name): (of, sql) for kind, name, of, sql in found}
    changed = [at for at in wanted if wanted[at] != there.get(at)]
    strange = sorted((kind, name) for kind, name in there.keys() - wanted if _counts(kind, name, there[kind, name][1]))
    other = [f"The {kind} {name} is missing, or differs from its schema." for kind, name in changed]
    return other + [f"There is a {kind} outside its schema: {name!r}." for kind, name in strange]


def _counts(kind: str, name: str, text: str | None) -> bool:
    """Return whether the name is a foreign object in the schema. SQLite's own tables, such as for `ANALYZE`, do not
    count.
    """
    if name.lower().startswith("sqlite_"):
        return False
    return kind != "index" or "unique" in (text or "").lower().partition(" on ")[0]


def misnumbered(user_version: int, number: int) -> list[str]:
    """Return a sentence on a difference between the number in the file header and the number of the last step."""
    if user_version == number:
        return []
    return [f"The file says user_version {user_version}, and its last step is {number}."]


class Watched:
    """The schema a writing process expects. A newer release may migrate meanwhile."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._number = len(migrations())
        """The last accepted schema number."""

    def look(self) -> None:
        """Raise StoreVersionError if this release may no longer write the schema. Call inside a transaction, to block
        changes by other processes.
        """
        number = self._connection.pragma("user_version")
        if number != self._number:
            refuse_older(pending(self._connection, self._path), f"The database {self._path}")
            self._number = number
