"""Every question of the port is answered through an index, also where its plan was made while the tables were empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from readback.ports.storage.store import ActionFilter
from readback.stores.postgres import PostgresStore, open_postgres_store, sequencing
from readback.stores.postgres.connection import rows
from readback.testing.store_samples import sample_creation

pytestmark = pytest.mark.slow

QUESTIONS: dict[str, Callable[[PostgresStore], object]] = {
    "events": lambda store: store.events("a1"),
    "projection": lambda store: store.projection("a1"),
    "key": lambda store: store.key("acme", "k"),
    "keys": lambda store: store.keys("acme", ["k", "l"]),
    "by_stamp": lambda store: store.by_stamp("acme", "rb-a1"),
    "due": lambda store: store.due(9, 9),
    "due of a tenant": lambda store: store.due(9, 9, "acme"),
    "next_due_us": lambda store: store.next_due_us(),
    "next_due_us of a tenant": lambda store: store.next_due_us("acme"),
    "owners": lambda store: store.owners(),
    "page": lambda store: store.page(ActionFilter()),
    "page of a tenant": lambda store: store.page(ActionFilter("acme", before_id="b")),
    "page of a state": lambda store: store.page(ActionFilter("acme", state="PENDING")),
    "page of a contract": lambda store: store.page(ActionFilter("acme", contract="c")),
    "page of a run": lambda store: store.page(ActionFilter("acme", run="r")),
    "page of a saga": lambda store: store.page(ActionFilter("acme", saga="s")),
    "page of sagas": lambda store: store.page(ActionFilter("acme", kind="saga")),
    "page in review": lambda store: store.page(ActionFilter("acme", review=True)),
    "page of claims": lambda store: store.page(ActionFilter("acme", claim=True)),
    "evidence": lambda store: store.evidence("acme", "a1", "ab" * 32),
    "evidence of a tenant": lambda store: store.evidence_bytes("acme"),
    "erased": lambda store: store.erased("acme", "a1", "ab" * 32),
    "bodies": lambda store: store.bodies("acme", [("a1", "ab" * 32), ("", "ab" * 32)]),
    "count": lambda store: store.count("acme", "s", "n"),
    "counts": lambda store: store.counts("acme"),
    "opening": lambda store: store.opening("acme", "k", ("tool:x",)),
    "frozen": lambda store: store.frozen("acme", ("tool:x",)),
    "in_flight": lambda store: store.in_flight("acme"),
    "dependants": lambda store: store.dependants("acme", "c", 9),
    "scan": lambda store: list(store.scan(1)),
    "pick": lambda store: store.pick(1, ("judged",), 9),
    "entries": lambda store: store.entries(1, 9),
    "last_seq": lambda store: store.last_seq(),
    "unplaced": lambda store: store.unsequenced(1),
    "projections": lambda store: list(store.projections()),
    "tile": lambda store: store.tile(0, 0),
    "checkpoint": lambda store: store.checkpoint(),
}
SMALL = ("sequencer",)
"""Tables of one row."""


@pytest.fixture
def store(ledger_url: str) -> Iterator[PostgresStore]:
    with open_postgres_store(ledger_url) as opened:
        for n in range(3):
            opened.append([sample_creation(f"a{n}{m:03}", due_us=n, tenant=f"t{m % 5}") for m in range(300)])
            while opened.unsequenced(1):
                opened.assign_sequence_numbers(10_000)
        yield opened


def _plan(store: PostgresStore, sql: str, values: Sequence[Any] | dict[str, Any]) -> list[str]:
    connection = store._readers._borrow()
    try:
        return [str(row[0]) for row in connection.execute(b"EXPLAIN " + sql.encode(), values).fetchall()]
    finally:
        store._readers.give_back(connection)


def test_no_question_reads_a_whole_table(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any]] = []
    answer = store._readers.rows

    def rows(sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        asked.append((sql, values))
        return answer(sql, values)

    monkeypatch.setattr(store, "_rows", rows)
    monkeypatch.setattr(store, "_many_rows", rows)
    read_whole: list[str] = []
    for name, question in QUESTIONS.items():
        asked.clear()
        question(store)
        assert asked, name
        for sql, values in asked:
            scans = [line for line in _plan(store, sql, values) if "Seq Scan on" in line]
            read_whole += [f"{name}: {line}" for line in scans if not any(f" on {one} " in line for one in SMALL)]
    assert read_whole == []


def test_a_look_up_by_stamp_goes_by_the_stamps_alone(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not along the ids: for a stamp that nothing has, that is every action of the ledger."""
    asked: list[tuple[str, Any]] = []
    answer = store._readers.rows

    def rows(sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        asked.append((sql, values))
        return answer(sql, values)

    monkeypatch.setattr(store, "_rows", rows)
    assert store.by_stamp("t1", "nobody's") is None
    plan = "\n".join(_plan(store, *asked[0]))
    assert "action_of_stamp" in plan, plan


def test_an_erasure_and_new_evidence_look_at_their_own_action_alone(store: PostgresStore) -> None:
    plan = _plan(store, rows.ERASE, {"id": "a1", "tenant": "acme", "digests": [b"1", b"2"]})
    assert not [line for line in plan if "Seq Scan on payload" in line], plan
    assert [line for line in plan if "Index Cond: (action_id = " in line], plan


def test_what_has_no_place_is_found_without_walking_what_has_one(store: PostgresStore) -> None:
    store.append([sample_creation("z")])
    plan = "\n".join(_plan(store, sequencing._UNPLACED, (1,)))
    assert "Index Cond: (xid >= " in plan, plan
