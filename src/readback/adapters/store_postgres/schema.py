"""The schema of the ledger and its numbered steps, each applied once and held to its checksum.

Called by `opening`. The text of a step that was released never changes: what is to be different is a new step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast
from zlib import crc32

import psycopg
from psycopg import sql

from readback.adapters.store_migration import Applied, left_of, migrations_of, refuse_older
from readback.adapters.store_migration import Migration as Migration
from readback.adapters.store_postgres.claiming import SCHEMA
from readback.domain.errors import StoreCorruptError

COMMENT: Final = "A ledger of Readback."
"""Stands at the schema that is one."""


def migrations() -> Sequence[Migration]:
    """Every step that this release knows, in order: 1, 2, 3 without gaps."""
    return migrations_of("readback.adapters.store_postgres")


def lock_class(schema: str) -> int:
    """The first half of this ledger's advisory locks (32 bits, signed); ledgers of one database have others."""
    return crc32(f"readback:{schema}".encode()) - 2**31


def migrate(connection: psycopg.Connection[Any], schema: str, shown: str) -> None:
    """Bring the schema up to this release, in one transaction; safe when several processes come at once."""
    if not pending(connection, schema, shown):
        return
    name = sql.Identifier(schema)
    with connection.transaction():
        # Whoever changes the ledger holds it together with others (`Watched`): none of them is in the middle here.
        connection.execute("SELECT pg_advisory_xact_lock(%s::int, %s::int)", (lock_class(schema), SCHEMA))
        if not _exists(connection, schema):
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
            connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(name, sql.Literal(COMMENT)))
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration (number int PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL)"
        )
        # Asked again under the lock: another process may have been here in between.
        for step in pending(connection, schema, shown):
            connection.execute(step.sql.encode())  # many statements: without parameters they go together
            connection.execute(
                "INSERT INTO migration (number, name, sha256) VALUES (%s, %s, %s)",
                (step.number, step.name, step.checksum),
            )


def pending(connection: psycopg.Connection[Any], schema: str, shown: str) -> list[Migration]:
    """The steps still to do. Raises StoreVersionError where the ledger and this release disagree."""
    return left_of(migrations(), _done(connection, schema, shown), f"The ledger at {shown}")


def refuse_unknown(connection: psycopg.Connection[Any], schema: str, shown: str) -> None:
    """Raises StoreVersionError where this release may not write what is there now, or is not what it opened."""
    refuse_older(pending(connection, schema, shown), f"The ledger at {shown}")


def _done(connection: psycopg.Connection[Any], schema: str, shown: str) -> dict[int, Applied]:
    """What was applied. Raises StoreCorruptError where the schema is somebody else's."""
    if not _exists(connection, schema):
        return {}
    looked = connection.execute(
        "SELECT to_regclass(quote_ident(%(s)s) || '.migration') IS NOT NULL,"
        " EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(%(s)s)) AND relkind = 'r'),"
        " obj_description(to_regnamespace(quote_ident(%(s)s)), 'pg_namespace')",
        {"s": schema},
    ).fetchone()
    has_steps, has_tables, comment = cast("tuple[bool, bool, str | None]", looked)
    if has_tables and (comment != COMMENT or not has_steps):
        raise StoreCorruptError(
            f"The schema {schema} at {shown} has tables, but not those of a Readback ledger.",
            remedy="Give the ledger a schema of its own: ?schema=NAME in its URL.",
            code="store.not-ours",
        )
    if not has_steps:
        return {}
    found = connection.execute("SELECT number, name, sha256 FROM migration").fetchall()
    return {number: Applied(name, checksum) for number, name, checksum in found}


def _exists(connection: psycopg.Connection[Any], schema: str) -> bool:
    found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
    return found.fetchone() is not None
