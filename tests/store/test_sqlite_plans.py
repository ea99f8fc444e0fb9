"""Every question that is asked while work goes on is answered from an index, however many actions there are.

Time is not measured here: the plan is what decides whether it grows with the ledger.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from readback.ports.storage.store import ActionFilter
from readback.stores.sqlite import SqliteStore, due_queries, open_sqlite_store, rows
from readback.stores.sqlite.due_queries import Ready
from readback.testing.store_samples import sample_append, sample_creation

OF_ONE_ROW = ("CO-ROUTINE (subquery", "SCAN (subquery")
"""Steps over the single row that a statement makes up itself."""
OF_SEVERAL_PARTS = ("COMPOUND QUERY", "LEFT-MOST SUBQUERY", "UNION ALL")
"""Each part has steps of its own, which follow."""
OF_LEAPS = ("CO-ROUTINE each", "SETUP", "SCAN CONSTANT ROW", "RECURSIVE STEP", "SCAN each", "SEARCH each")
"""Steps over the rows that a recursion makes, one a leap."""

QUESTIONS: dict[str, Callable[[SqliteStore], object]] = {
    "due": lambda store: store.due(5, 10),
    "due of a tenant": lambda store: store.due(5, 10, "acme"),
    "next": lambda store: store.next_due_us(),
    "owners": lambda store: store.owners(),
    "events": lambda store: store.events("a1"),
    "projection": lambda store: store.projection("a1"),
    "key": lambda store: store.key("acme", "k"),
    "opening": lambda store: store.opening("acme", "k", ("tool:x",)),
    "stamp": lambda store: store.by_stamp("acme", "s"),
    "evidence of a tenant": lambda store: store.evidence_bytes("acme"),
    "erased": lambda store: store.erased("acme", "a1", "ab" * 32),
    "bodies": lambda store: store.bodies("acme", [("a1", "ab" * 32), ("", "ab" * 32)]),
    "evidence": lambda store: store.evidence("acme", "a1", "ab" * 32),
    "count": lambda store: store.count("acme", "s", "n"),
    "scan": lambda store: list(store.scan()),
    "projections": lambda store: list(store.projections()),
}


def _page_by(fields: tuple[str, ...]) -> Callable[[SqliteStore], object]:
    query = replace(ActionFilter(), **dict.fromkeys(fields, "x"))  # type: ignore[arg-type]
    return lambda store: store.page(query)


QUESTIONS |= {
    f"page by {fields}": _page_by(fields)
    for size in range(6)
    for fields in itertools.combinations(("tenant", "state", "contract", "run", "before_id"), size)
}


def _plan(store: SqliteStore, sql: str, values: rows.Row) -> list[str]:
    assert store._writer is not None
    return [str(row[3]) for row in store._writer.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


@pytest.mark.parametrize("name", QUESTIONS)
def test_it_is_answered_from_an_index(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_sqlite_store(tmp_path / "ledger.db") as store:
        store.append([sample_creation("a1", due_us=1), sample_creation("a2", tenant="x")])
        asked: list[tuple[str, rows.Row]] = []
        answer = store._many_rows

        def remember(sql: str, values: rows.Row = ()) -> list[rows.Row]:
            asked.append((sql, values))
            return answer(sql, values)

        monkeypatch.setattr(store, "_rows", remember)
        monkeypatch.setattr(store, "_many_rows", remember)
        QUESTIONS[name](store)
        assert asked
        for sql, values in asked:
            for step in _plan(store, sql, values):
                allowed = step.startswith(("SEARCH ", "CORRELATED SCALAR", *OF_ONE_ROW)) or step in OF_SEVERAL_PARTS
                assert allowed or step in OF_LEAPS, f"{sql}: {step}"


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        (rows.SELECT_HEAD, 1),
        (rows.SELECT_HEADS, rows.LOOKED_UP_AT_ONCE),
        (rows.SELECT_KEY, 2),
        (rows.SELECT_KEYS, rows.LOOKED_UP_AT_ONCE + 1),
        (rows.SETTLE_KEY, 5),
        (rows.RELEASE, 1),
        (rows.ERASABLE, 2),
        (rows.ERASE, 1),
        (rows.IS_ERASED, 3),
        (rows.EVIDENCE_BYTES, 1),
    ],
)
def test_what_the_writer_looks_up_is_in_an_index(tmp_path: Path, sql: str, count: int) -> None:
    with open_sqlite_store(tmp_path / "ledger.db") as store:
        for step in _plan(store, sql, (None,) * count):
            assert step.startswith("SEARCH "), f"{sql}: {step}"


@pytest.mark.parametrize("stamp", ["rb-a00007", "nobody's"])
def test_a_look_up_by_stamp_costs_the_same_in_a_ledger_of_any_size(tmp_path: Path, stamp: str) -> None:
    """Counted in steps of SQLite's machine: the tenant's index has the ids in order, and is as long as the ledger."""

    def steps(actions: int) -> int:
        with open_sqlite_store(tmp_path / f"{actions}.db") as store:
            store.append([sample_creation(f"a{number:05}") for number in range(actions)])
            asked: list[tuple[str, rows.Row]] = []
            answer = store._rows

            def remember(sql: str, values: rows.Row = ()) -> list[rows.Row]:
                asked.append((sql, values))
                return answer(sql, values)

            store._rows = remember  # type: ignore[method-assign]
            found = store.by_stamp("acme", stamp)
            assert found == (None if stamp == "nobody's" else "a00007")
            assert store._writer is not None
            taken: list[None] = []
            store._writer.set_progress_handler(lambda: bool(taken.append(None)), 1)
            store._writer.execute(*asked[0]).fetchall()
            store._writer.set_progress_handler(None)
            return len(taken)

    assert steps(2_000) <= steps(20) + 4


def test_polling_again_and_again_touches_four_indexes_less(tmp_path: Path) -> None:
    """An update that leaves tenant, run, contract and stamp alone does not say that it sets them."""
    with open_sqlite_store(tmp_path / "ledger.db") as store:
        assert store._writer is not None
        store.append([sample_creation("a1")])
        said: list[str] = []

        def trace(cursor: object, sql: str, values: object) -> bool:
            said.append(sql)
            return True

        store._writer.exec_trace = trace
        store.append([sample_append("a1", 1)])
        store._writer.exec_trace = None
    assert rows.UPDATE_ACTION in said
    assert rows.UPDATE_ACTION_SELDOM not in said
    assert rows.SELECT_HEAD not in said, "who wrote it last knows where it stands"


@pytest.mark.parametrize(
    "question", [f"{kind}.{field.name}" for kind in ("OPEN", "WATCHED") for field in fields(Ready)]
)
def test_what_is_due_is_found_without_a_look_at_what_only_waits(tmp_path: Path, question: str) -> None:
    kind, _, name = question.partition(".")
    sql: str = getattr(getattr(due_queries, kind), name)
    with open_sqlite_store(tmp_path / "ledger.db") as store:
        steps = _plan(store, sql, (None,) * sql.count("?"))
    assert any(step.startswith("SEARCH ") for step in steps)
    assert not [step for step in steps if "TEMP B-TREE" in step or (step.startswith("SCAN ") and step not in OF_LEAPS)]
