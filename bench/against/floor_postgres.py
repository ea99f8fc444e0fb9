"""The floor on PostgreSQL: the rows that Readback writes for an action, copied by bare psycopg.

The same tables, the same indexes, two commits for as many actions as are in flight, each a pipeline of one statement a
table, whose rows travel as arrays. What an append writes, and no more: no tool, no reading, no judgement, no place in
the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from bench.against.slices import Batched, serve_batches
from readback import Readback, bootstrap
from readback.bench import workload
from readback.ports.storage.store import Append, AppendResult, LedgerStore

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "action": ("action_id",),
    "event": ("action_id", "version"),
    "idempotency": ("tenant", "key_hash"),
    "payload": ("action_id", "digest"),
    "weight": ("tenant", "slot"),
}
"""What an append writes to, and by which columns a row is found."""
SCHEMA: Final = "readback"
"""The ledger's own, where its URL names no other."""
NAMED: Final = frozenset({"action_id", "key_hash", "stamp"})
PLANS: Final = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "enable_bitmapscan")
"""Switched off, as Readback's own store does: rows are found by their key, whatever the statistics say."""
Rows = dict[tuple[Any, ...], dict[str, Any]]


class Change(NamedTuple):
    """One statement of a commit, and the rows that are copied by it."""

    statement: sql.Composed
    rows: Sequence[Mapping[str, Any]]


class Watching:
    """A store that notes what the tables hold behind each append."""

    def __init__(self, store: LedgerStore, look: psycopg.Connection[Any]) -> None:
        self._store, self._look = store, look
        self.seen: list[dict[str, Rows]] = []

    def as_store(self) -> LedgerStore:
        return self  # type: ignore[return-value]  # everything else is handed on

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        done = self._store.append(batch)
        self.seen.append({table: _rows(self._look, table) for table in KEYS})
        return done

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


@contextmanager
def opened(url: str) -> Iterator[Batched]:
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        commits = _commits(url, connection)
        for plan in PLANS:
            connection.execute(sql.SQL("set {} = off").format(sql.Identifier(plan)))

        def write(names: list[str]) -> None:
            for commit in commits:
                with connection.pipeline():
                    connection.execute("begin")
                    for change in commit:
                        connection.execute(change.statement, _arrays(change.rows, names), binary=True)
                    connection.execute("commit")

        yield Batched(write, {})


def _commits(url: str, look: psycopg.Connection[Any]) -> list[list[Change]]:
    """The statements of both commits, out of an action that Readback runs. The one before it brings the contract."""
    store = Watching(bootstrap.store(url), look)
    look.execute(sql.SQL("set search_path to {}").format(sql.Identifier(SCHEMA)))
    with Readback.open(tenant=workload.TENANT, principal=workload.PRINCIPAL, store=store.as_store()) as rb:
        for name in ("before", "copied"):
            rb.run(workload.ship_sync(order_id=name, carrier="dhl"), operation=name).raise_unless_verified()
    *_, before, attempted, ended = store.seen
    return [_commit(look, before, attempted), _commit(look, attempted, ended)]


def _commit(look: psycopg.Connection[Any], before: dict[str, Rows], after: dict[str, Rows]) -> list[Change]:
    changes = []
    for table, keys in KEYS.items():
        new = [row for key, row in after[table].items() if key not in before[table]]
        kept = [(before[table][key], row) for key, row in after[table].items() if key in before[table]]
        if new:
            changes.append(Change(_insert(look, table, tuple(new[0])), new))
        for was, row in kept:
            moved = tuple(name for name in row if row[name] != was[name])
            if moved:
                changes.append(Change(_update(look, table, keys, moved), [{n: row[n] for n in (*keys, *moved)}]))
    return changes


def _rows(look: psycopg.Connection[Any], table: str) -> Rows:
    """Its rows by their key, without the columns that the database fills."""
    names = list(_types(look, table))
    found = look.execute(
        sql.SQL("select {} from {}").format(sql.SQL(", ").join(map(sql.Identifier, names)), sql.Identifier(table))
    ).fetchall()
    rows = [dict(zip(names, row, strict=True)) for row in found]
    return {tuple(row[key] for key in KEYS[table]): row for row in rows}


def _types(look: psycopg.Connection[Any], table: str) -> dict[str, str]:
    """The columns that a writer gives, with their types."""
    return dict(
        look.execute(
            "select attname, format_type(atttypid, atttypmod) from pg_attribute where attrelid = %s::regclass"
            " and attnum > 0 and not attisdropped and attidentity = '' and not atthasdef order by attnum",
            (table,),
        ).fetchall()
    )


def _unnested(look: psycopg.Connection[Any], table: str, names: Sequence[str]) -> sql.Composed:
    types = _types(look, table)
    arrays = sql.SQL(", ").join(
        sql.SQL("{}::{}[]").format(sql.Placeholder(name), sql.SQL(types[name])) for name in names
    )
    return sql.SQL("unnest({}) as new ({})").format(arrays, sql.SQL(", ").join(map(sql.Identifier, names)))


def _insert(look: psycopg.Connection[Any], table: str, names: Sequence[str]) -> sql.Composed:
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    return sql.SQL("insert into {} ({}) select * from {}").format(
        sql.Identifier(table), columns, _unnested(look, table, names)
    )


def _update(look: psycopg.Connection[Any], table: str, keys: Sequence[str], moved: Sequence[str]) -> sql.Composed:
    def each(names: Sequence[str], form: str, between: str) -> sql.Composed:
        pairs = [sql.SQL(form).format(sql.Identifier(name), sql.Identifier(name)) for name in names]
        return sql.SQL(between).join(pairs)

    return sql.SQL("update {} as old set {} from {} where {}").format(
        sql.Identifier(table), each(moved, "{} = new.{}", ", "), _unnested(look, table, (*keys, *moved)),
        each(keys, "old.{} = new.{}", " and "),
    )  # fmt: skip


def _arrays(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """The rows for each of these actions, a list for each column."""
    return {
        column: [_copied(column, row[column], name) for name in names for row in rows] for column in rows[0]
    }  # fmt: skip


def _copied(column: str, value: Any, name: str) -> Any:
    if column in NAMED:
        return name
    return os.urandom(32) if column == "digest" else value


if __name__ == "__main__":
    serve_batches(opened)
