"""The schema of the ledger and its numbered steps, each applied once and held to its checksum.

Called by `opening`. The text of a step that was released never changes: what is to be different is a new
step.
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
    """Every step that this release knows, in order: 1, 2, 3 without gaps."""
    return migrations_of("readback.stores.sqlite")


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
    done: dict[int, Applied] = {}
    if connection.table_exists("main", "migration"):
        found = connection.execute("SELECT number, name, sha256 FROM migration")
        done = {number: Applied(name, checksum) for number, name, checksum in found}
    return left_of(migrations(), done, f"The database {path}")


def explained(error: apsw.Error, connection: apsw.Connection, path: Path) -> StoreError:
    """The typed error for what was raised: what a statement asks for may be what a newer schema has ended."""
    if isinstance(error, apsw.SQLError):
        try:
            pending(connection, path)
        except StoreError as other:
            return other
    return as_store_error(error, path)


OBJECTS: Final = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
Object = tuple[str, str, str, str | None]


def unknown(number: int) -> list[str]:
    """What of a ledger at this step nobody here can compare, a sentence each."""
    return not_compared(number, migrations())


def unlike(found: Iterable[Object], number: int) -> list[str]:
    """How the schema of a file differs from what these steps make, a sentence each: what guards its rows is missing or
    another one, or something stands beside it. A trigger or a unique index acts on rows; a table or a view may pass for
    one of the ledger's own. A plain index does neither. Empty for a newer release's schema, which this one does not
    know.
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
    other = [f"The {kind} {name} is missing, or is another one than its schema makes." for kind, name in changed]
    return other + [f"There is a {kind} that its schema does not make: {name!r}." for kind, name in strange]


def _counts(kind: str, name: str, text: str | None) -> bool:
    """Whether something beside the schema is named. SQLite's own tables, as of `ANALYZE`, are not."""
    if name.lower().startswith("sqlite_"):
        return False
    return kind != "index" or "unique" in (text or "").lower().partition(" on ")[0]


def misnumbered(user_version: int, number: int) -> list[str]:
    """How the number in the file's head differs from the one that its last step leaves there, a sentence."""
    if user_version == number:
        return []
    return [f"The file says user_version {user_version}, and its last step is {number}."]


class Watched:
    """The schema as a process that changes the ledger has to find it: a newer release may bring it up meanwhile."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._number = len(migrations())
        """The schema that this release may work on, as far as it was looked up."""

    def look(self) -> None:
        """Raises StoreVersionError where it is one now that this release may not write. Inside a transaction, which
        keeps everybody else from changing it.
        """
        number = self._connection.pragma("user_version")
        if number != self._number:
            refuse_older(pending(self._connection, self._path), f"The database {self._path}")
            self._number = number
