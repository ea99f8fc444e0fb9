"""Who is due on PostgreSQL: by tenant, by version of a contract, and without a walk through what others have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import pytest

from readback.ports.storage.contract_filter import ContractFilter
from readback.stores.postgres import PostgresStore, due_queries, open_postgres_store
from readback.testing.store_samples import sample_creation
from tests.store.due_given import NOW_US, compare, filled

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("beyond", [0, 7, due_queries.LOOKED_BEYOND])
def test_what_a_worker_knows_is_found_whatever_else_is_due(
    ledger_url: str, beyond: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_queries, "LOOKED_BEYOND", beyond)
    with open_postgres_store(ledger_url, clock="callers") as store:
        compare(store, filled(store, beyond))


def _pages(store: PostgresStore, sql: str, values: Sequence[Any] | dict[str, Any]) -> int:
    """How many pages the server looks at to answer."""
    connection = store._readers._borrow()
    try:
        plan = connection.execute(b"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) " + sql.encode(), values).fetchall()
    finally:
        store._readers.give_back(connection)
    (first, *_) = [str(row[0]) for row in plan if "Buffers:" in str(row[0])]
    return sum(int(number) for number in re.findall(r"(?:hit|read)=(\d+)", first))


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_a_poll_reads_no_more_rows_where_more_is_due_that_the_worker_does_not_know(
    ledger_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = ContractFilter(frozenset({"ship"}), frozenset({"h5"}), 500)

    def pages(actions: int) -> int:
        with open_postgres_store(f"{ledger_url}_{actions}", clock="callers") as store:
            unknown = [
                sample_creation(f"a{n:05d}", due_us=600, contract=name, contract_hash=version)
                for n, (name, version) in zip(
                    range(actions), cycle([("bill", "h1"), ("bill", ""), ("zeal", "h9"), ("ship", "h4")])
                )
            ]
            store.append([*unknown, *(sample_creation(f"k{at}", due_us=at, contract_hash="h5") for at in (1, 999))])
            asked: list[tuple[str, Any]] = []
            answer = store._readers.rows

            def rows(sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
                asked.append((sql, values))
                return answer(sql, values)

            monkeypatch.setattr(store, "_rows", rows)
            monkeypatch.setattr(store, "_many_rows", rows)
            assert store.due(NOW_US, 16, tenant, known) == ["k1", "k999"]
            assert store.next_due_us(tenant) == 1
            return sum(_pages(store, sql, values) for sql, values in asked)

    few, many = pages(40), pages(4_000)
    assert many <= 3 * few, "each level of an index more is a page more; each row would be one too"


@pytest.mark.requirement("FLEET-unknown")
@pytest.mark.parametrize("skew_us", [-3_600_000_000, 0, 3_600_000_000])
def test_leases_are_judged_by_the_servers_clock_for_what_a_worker_knows_too(ledger_url: str, skew_us: int) -> None:
    """The worker's clock is an hour behind, right, or an hour ahead."""
    with open_postgres_store(ledger_url) as store:
        server_us = store.clock_us()
        assert server_us is not None
        now_us = server_us + skew_us
        store.append([sample_creation(name, due_us=now_us - 9, contract_hash="h1") for name in ("a1", "a2", "a3")])
        assert store.lease("a2", "w1", now_us, now_us + 60_000_000) == 1
        assert store.lease("a3", "w1", now_us, now_us - 1) == 1
        exact = ContractFilter(frozenset(), frozenset({"h1"}), 0)
        for tenant in ("", "acme"):
            assert store.due(now_us, 9, tenant, exact) == ["a1", "a3"]
            assert store.due(now_us - 10, 9, tenant, exact) == []
        name = ContractFilter(frozenset({"ship_order"}), frozenset(), now_us - 5)
        assert store.due(now_us, 9, "", name)[:1] == ["a1"]
        left = ContractFilter(frozenset({"ship_order"}), frozenset(), now_us - 10)
        assert store.due(now_us, 9, "", left) == []
