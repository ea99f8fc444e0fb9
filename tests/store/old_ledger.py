"""A ledger as an older release left it, which kept evidence once for a tenant: its rows, for a schema of that time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw

from readback.stores.migration import Migration
from readback.stores.sqlite import schema

KEPT: Final = json.loads((Path(__file__).parent / "data" / "ledger_of_schema_7.json").read_text(encoding="utf-8"))
IDS: Final[dict[str, str]] = KEPT["actions"]
"""`kept_by_another` was erased while `whole` had the same payloads; `gone` was erased alone, and `again` recorded the
same bytes behind it; `odd` has a NUL in its payload; `theirs` is of tenant `globex`, with the payloads of `whole`.
"""
SQLITE_STEP: Final = 7


def rows_of(table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table, by column."""
    held = KEPT["tables"][table]
    for row in held["rows"]:
        values = [bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in row]
        yield dict(zip(held["columns"], values, strict=True))


def write_old_ledger(path: Path) -> None:
    """The file of that ledger."""
    connection = apsw.Connection(str(path))
    connection.execute(
        "CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT"
    )
    for step in schema.migrations()[:SQLITE_STEP]:
        _apply(connection, step)
    for table in KEPT["tables"]:
        for row in rows_of(table):
            marks = ", ".join("?" * len(row))
            names = ", ".join(f'"{name}"' for name in row)
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
    connection.pragma("application_id", schema.APPLICATION_ID)
    connection.close()


def _apply(connection: apsw.Connection, step: Migration) -> None:
    connection.execute(step.sql)
    connection.execute("INSERT INTO migration VALUES (?, ?, ?)", (step.number, step.name, step.checksum))
    connection.pragma("user_version", step.number)
