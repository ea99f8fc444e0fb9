"""What a look costs a store, counted: steps of SQLite's machine, or rows that PostgreSQL visits. Never time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from readback import bootstrap
from readback.ports.storage.store import Append, LedgerStore
from readback.stores.postgres import PostgresStore
from readback.stores.sqlite import SqliteStore
from readback.testing.store_samples import NOON_US, sample_creation

SECOND_US = 1_000_000
AT_ONCE = 500


def numbered(number: int, **changes: Any) -> Append:
    """The first append of action `number`, which was proposed `number` seconds after noon."""
    at_us = NOON_US + number * SECOND_US
    made = sample_creation(f"a{number:06}", created_us=at_us, **changes)
    return replace(made, events=tuple(replace(each, at_us=at_us) for each in made.events))


@contextmanager
def filled(url: str, actions: int, make: Callable[[int], Append]) -> Iterator[LedgerStore]:
    """A ledger of so many actions, with what a server knows of them where it keeps statistics."""
    store = bootstrap.store(url)
    try:
        for first in range(0, actions, AT_ONCE):
            store.append([make(number) for number in range(first, min(first + AT_ONCE, actions))])
        while store.assign_sequence_numbers(10_000):
            pass
        if isinstance(store, PostgresStore):
            connection = store._writer._connection
            for table in (b"ANALYZE event", b"ANALYZE action"):
                connection.execute(table)
        yield store
    finally:
        store.close()


def work_of(store: LedgerStore, look: Callable[[], object]) -> int:
    """What all statements of a look cost the store, each carried out once more for the count."""
    assert isinstance(store, SqliteStore | PostgresStore)
    asked: list[tuple[str, Any]] = []
    few, many = store._rows, store._many_rows

    def remembered(answer: Callable[..., Any]) -> Callable[..., Any]:
        def ask(sql: str, values: Any = ()) -> Any:
            asked.append((sql, values))
            return answer(sql, values)

        return ask

    store._rows, store._many_rows = remembered(few), remembered(many)  # type: ignore[method-assign]
    try:
        look()
    finally:
        store._rows, store._many_rows = few, many  # type: ignore[method-assign]
    assert asked
    count = _steps if isinstance(store, SqliteStore) else _visited
    return sum(count(store, sql, values) for sql, values in asked)


def _steps(store: Any, sql: str, values: Any) -> int:
    taken = 0

    def step() -> bool:
        nonlocal taken
        taken += 1
        return False

    store._writer.set_progress_handler(step, 1)
    store._writer.execute(sql, values).fetchall()
    store._writer.set_progress_handler(None)
    return taken


def _visited(store: Any, sql: str, values: Any) -> int:
    asked = b"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + sql.encode()
    (plan,) = store._writer._connection.execute(asked, values).fetchone()[0]
    return _rows_of(plan["Plan"])


def _rows_of(node: dict[str, Any]) -> int:
    below = sum(_rows_of(each) for each in node.get("Plans", ()))
    if "Scan" not in node["Node Type"] or node["Node Type"] == "Subquery Scan":
        return below
    rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return below + round(rows * node["Actual Loops"])


def url_of(kind: str, folder: Path, actions: int, request: Any) -> str:
    """The address of a new ledger in this kind of store."""
    if kind == "sqlite":
        return f"sqlite:///{folder}/{actions}.db"
    from tests.postgres import _numbers, url_of

    return url_of(request.getfixturevalue("ledger_server"), f"ledger_{next(_numbers)}")
