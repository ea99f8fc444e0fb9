"""The schema of the ledger and its numbered steps, each applied once and held to its checksum.

Called by `opening`. The text of a step that was released never changes: what is to be different is a new
step.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import apsw

from readback.canon.digest import sha256_hex
from readback.domain.errors import StoreVersionError

APPLICATION_ID: Final = 0x52424C31  # "RBL1"


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema; once released its text never changes."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return sha256_hex(self.sql.encode())


def migrations() -> list[Migration]:
    """Every step that this release knows, in order: 1, 2, 3 without gaps."""
    folder = resources.files("readback.adapters.store_sqlite").joinpath("migrations")
    found = []
    for file in folder.iterdir():
        number, _, rest = file.name.partition("_")
        if rest.endswith(".sql"):
            found.append(Migration(int(number), file.name, file.read_text(encoding="utf-8")))
    found.sort(key=lambda step: step.number)
    return found


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
    newer = [number for number in done if number > len(known)]
    if newer:
        raise StoreVersionError(
            f"The database {path} has schema {max(newer)}; this release knows {len(known)}.",
            details={"found": max(newer), "known": len(known)},
        )
    for step in known:
        if step.number in done and done[step.number] != step.checksum:
            raise StoreVersionError(
                f"The database {path} was made with another text of migration {step.name}.",
                remedy="Use the release that made it; do not change migrations that were applied.",
                details={"migration": step.name},
            )
    return [step for step in known if step.number not in done]
