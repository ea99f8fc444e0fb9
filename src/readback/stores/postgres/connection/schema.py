"""The ledger's schema and its numbered steps, each applied once and compared with its checksum.

Called by `connect`. The text of a released step never changes; a change is a new step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast
from zlib import crc32

import psycopg
from psycopg import sql

from readback.canon.frozen import dataclass
from readback.errors import StoreCorruptError
from readback.ports.storage.store import Append, Projection
from readback.stores.migration import Applied, left_of, migrations_of, not_compared, refuse_older
from readback.stores.migration import Migration as Migration

# The locks of a group of changes, and the duration of its leases.

BUCKETS: Final = 256
"""Tenants share locks, so a group of any number of tenants needs few locks."""
SCHEMA: Final = -1
"""The bucket without tenants, for the schema."""
LEASE_MAX_US: Final = 366 * 86_400_000_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """The locks of one transaction: shared and exclusive."""

    shared: list[int]
    exclusive: list[int]


@dataclass(frozen=True, slots=True)
class Locks:
    """`lock_class`: of this ledger. `own_clock`: the database's clock decides on leases, not the callers' clocks."""

    lock_class: int
    own_clock: bool

    def wanted(self, items: Sequence[Append], pacing: Sequence[str]) -> Wanted:
        """Return the locks for these appends, and for tenants with read-slot reservations."""
        shared = {SCHEMA}
        exclusive = {BUCKETS + bucket_of(tenant) for tenant in pacing}
        for item in items:
            alone = item.freezes or item.lifts or item.erases is not None or item.in_flight_max
            (exclusive if alone else shared).add(bucket_of(item.tenant))
        return Wanted(sorted(shared - exclusive), sorted(exclusive))

    def lease_us(self, projection: Projection) -> int:
        """Return the duration of a projection's lease by the database's clock, or its end by the caller's clock."""
        if not projection.lease_owner:
            return 0
        if not self.own_clock:
            return projection.lease_until_us
        return min(max(projection.lease_until_us - projection.updated_us, 0), LEASE_MAX_US)


def bucket_of(tenant: str) -> int:
    return crc32(tenant.encode("utf-8", "surrogatepass")) % BUCKETS


COMMENT: Final = "A ledger of Readback."
"""The comment on a ledger's schema."""


def migrations() -> Sequence[Migration]:
    """Return every step of this release in order: 1, 2, 3 without gaps."""
    return migrations_of("readback.stores.postgres")


def lock_class(schema: str) -> int:
    """Return the first half of this ledger's advisory locks (32 bits, signed). Other ledgers in the database have
    others.
    """
    return crc32(f"readback:{schema}".encode()) - 2**31


def migrate(connection: psycopg.Connection[Any], schema: str, shown: str) -> None:
    """Migrate the schema to this release in one transaction. Safe for several processes at once."""
    if not pending(connection, schema, shown):
        return
    name = sql.Identifier(schema)
    with connection.transaction():
        # Writers hold this lock shared (`Watched`): no writer is inside a transaction here.
        connection.execute("SELECT pg_advisory_xact_lock(%s::int, %s::int)", (lock_class(schema), SCHEMA))
        if not _exists(connection, schema):
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
            connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(name, sql.Literal(COMMENT)))
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration (number int PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL)"
        )
        # Read again under the lock: another process may have migrated meanwhile.
        for step in pending(connection, schema, shown):
            connection.execute(step.sql.encode())  # many statements: only without parameters can they be sent together
            connection.execute(
                "INSERT INTO migration (number, name, sha256) VALUES (%s, %s, %s)",
                (step.number, step.name, step.checksum),
            )


def pending(connection: psycopg.Connection[Any], schema: str, shown: str) -> list[Migration]:
    """Return the pending steps. Raises StoreVersionError if the ledger and this release disagree."""
    return left_of(migrations(), _done(connection, schema, shown), f"The ledger at {shown}")


GUARDS: Final = """
SELECT 'trigger', t.tgname, c.relname, coalesce(p.relname, c.relname), t.tgenabled IN ('O', 'A')
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
  LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
 WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal AND c.relname !~ '^procrastinate'
UNION ALL
SELECT 'rule', rulename, tablename, tablename, true FROM pg_rules WHERE schemaname = current_schema()
"""
"""Objects acting on writes to the ledger: kind, name, table, the parent of a partition, and whether enabled. The
workers' queue has triggers of its own.
"""
Guard = tuple[str, str, str, str, bool]
_TRIGGER: Final = re.compile(r"CREATE TRIGGER (\w+) BEFORE [A-Z ]+ ON (\w+)")


def unknown(number: int) -> list[str]:
    """Return sentences on parts of a ledger at this step that this release cannot compare."""
    return not_compared(number, migrations())


def unlike(found: Sequence[Guard], number: int) -> list[str]:
    """Return sentences on differences between a ledger's guards and the guards of these steps. Empty for a newer
    release's schema, unknown to this release.
    """
    if number > len(migrations()):
        return []
    wanted = {("trigger", *made) for step in migrations() for made in _TRIGGER.findall(step.sql)}
    there = {(kind, name, of) for kind, name, _, of, _ in found}
    missing = [(kind, name, of) for kind, name, of in wanted - there]
    off = [(kind, name, table) for kind, name, table, of, acts in found if not acts and (kind, name, of) in wanted]
    strange = [(kind, name, table) for kind, name, table, of, acts in found if acts and (kind, name, of) not in wanted]
    return [
        *(f"The {kind} {name} on {table} is missing or disabled." for kind, name, table in sorted(missing + off)),
        *(f"There is a {kind} on {table} outside its schema: {name!r}." for kind, name, table in sorted(strange)),
    ]


RELATIONS: Final = """
SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'view' WHEN 'f' THEN 'foreign table' ELSE 'table' END,
       c.relname, coalesce(p.relname, '')
  FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
UNION ALL
SELECT 'table', c.oid::regclass::text, p.relname
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
 WHERE p.relnamespace = current_schema()::regnamespace AND c.relnamespace <> p.relnamespace AND c.relkind IN ('r', 'f')
UNION ALL
SELECT 'unique index', c.relname, t.relname
  FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
 WHERE c.relnamespace = current_schema()::regnamespace AND (x.indisunique OR x.indisexclusion) AND NOT x.indisprimary
   AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)
UNION ALL
SELECT 'policy', policyname, tablename FROM pg_policies WHERE schemaname = current_schema()
"""
"""The objects in the schema: kind, name, and the owning or parent table."""
Relation = tuple[str, str, str]
_TABLE: Final = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_NO_TABLE: Final = re.compile(r"^DROP TABLE (\w+)", re.MULTILINE)
_UNIQUE: Final = re.compile(r"CREATE UNIQUE INDEX (\w+) ON (\w+)")
_POLICY: Final = re.compile(r"CREATE POLICY (\w+) ON (\w+)")
_PARTITION: Final = re.compile(r"event_\d+")
_OF_PARTITION: Final = re.compile(r"(event_\d+)_of_action")
_BY_CONSTRAINT: Final = frozenset({("unique index", "place_event_key", "place")})
_QUEUE: Final = re.compile(r"procrastinate_(jobs|workers|events|periodic_defers)|wakeup_worker")
"""The tables of the workers' queue, created by the queue, and the table of the queue's workers."""


def strange(found: Sequence[Relation], number: int) -> list[str]:
    """Return sentences on foreign objects in a ledger's schema, and on missing tables.

    A table or a view may pass for a part of the ledger, and an inheriting table adds its rows. A plain index and a
    function do nothing by themselves. Empty for a newer release's schema, unknown to this release.
    """
    if number > len(migrations()):
        return []
    text = "".join(step.sql for step in migrations())
    gone = {*_NO_TABLE.findall(text)}
    tables = {("table", name, "") for name in {*_TABLE.findall(text), "migration"} - gone}
    made = [("unique index", *each) for each in _UNIQUE.findall(text)]
    made += [("policy", *each) for each in _POLICY.findall(text)]
    wanted = tables | _BY_CONSTRAINT | {each for each in made if each[2] not in gone}
    missing = sorted(name for _, name, _ in tables - {*found})
    other = sorted(each for each in found if each not in wanted and not _grows(*each))
    return [
        *(f"The table {name} is missing, or is no longer a table." for name in missing),
        *(f"There is a {kind}{f' on {of}' if of else ''} outside its schema: {name!r}." for kind, name, of in other),
    ]


def _grows(kind: str, name: str, of: str) -> bool:
    """Return whether the object appears during use: a partition of the entries, or the workers' queue."""
    if kind == "table":
        return (of == "event" and _PARTITION.fullmatch(name) is not None) or (
            not of and _QUEUE.fullmatch(name) is not None
        )
    made = _OF_PARTITION.fullmatch(name)
    own = made is not None and made[1] == of
    return kind == "unique index" and (own or _QUEUE.fullmatch(of) is not None)


def refuse_unknown(connection: psycopg.Connection[Any], schema: str, shown: str) -> None:
    """Raise StoreVersionError if this release may not write the present schema, or if the schema is older than at
    opening.
    """
    refuse_older(pending(connection, schema, shown), f"The ledger at {shown}")


def _done(connection: psycopg.Connection[Any], schema: str, shown: str) -> dict[int, Applied]:
    """Return the applied steps. Raises StoreCorruptError for a foreign schema."""
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
