"""Who is due, out of more than is looked at by time alone: nobody waits behind another's backlog."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import pytest

from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import TooManyInFlight
from readback.ports.storage.store_rules import fairly
from readback.stores.sqlite import SqliteStore, due_queries, open_sqlite_store
from readback.testing.store_samples import sample_append, sample_creation
from tests.store.due_given import NOW_US, compare, filled


def _filled(store: SqliteStore, due: Sequence[tuple[str, int]]) -> list[tuple[str, int, str]]:
    """Actions that become due at these moments, by tenant."""
    made = [(tenant, at_us, f"a{number:05d}") for number, (tenant, at_us) in enumerate(due)]
    store.append([sample_creation(name, tenant=tenant, due_us=at_us) for tenant, at_us, name in made])
    return made


def _expected(made: Sequence[tuple[str, int, str]], limit: int) -> list[str]:
    """The port's text, word for word, over everything there is."""
    by_tenant: dict[str, list[tuple[int, str]]] = {}
    for tenant, at_us, name in made:
        if at_us <= NOW_US:
            by_tenant.setdefault(tenant, []).append((at_us, name))
    return fairly([sorted(each) for each in by_tenant.values()], limit)


def test_a_tenant_with_one_that_is_due_is_not_behind_another_with_very_many(tmp_path: Path) -> None:
    with open_sqlite_store(tmp_path / "ledger.db") as store:
        many = 2 * due_queries.LOOKED_BEYOND
        made = _filled(store, [("many", 1 + n) for n in range(many)] + [("one", NOW_US), ("later", NOW_US + 1)])
        assert store.due(NOW_US, 3) == ["a00000", f"a{many:05d}", "a00001"]
        assert store.due(NOW_US, 1) == ["a00000"]
        assert store.due(NOW_US, many + 9) == _expected(made, many + 9)
        assert len(store.due(NOW_US, many + 9)) == many + 1


@pytest.mark.requirement("DRILL-many-waiting")
@pytest.mark.parametrize("beyond", [0, 1, 7, due_queries.LOOKED_BEYOND])
def test_the_backlog_is_taken_in_turn_however_far_one_looks(
    tmp_path: Path, beyond: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_queries, "LOOKED_BEYOND", beyond)
    chance = random.Random(beyond)
    with open_sqlite_store(tmp_path / "ledger.db") as store:
        tenants = [f"t{n}" for n in range(9)]
        weights = [40, 20, 1, 1, 1, 5, 5, 1, 1]
        made = _filled(
            store, [(name, chance.randint(1, NOW_US + 200)) for name in chance.choices(tenants, weights, k=120)]
        )
        for limit in (1, 2, 5, 8, 9, 10, 30, 119, 500):
            assert store.due(NOW_US, limit) == _expected(made, limit), limit
        for tenant in tenants:
            mine = [one for one in made if one[0] == tenant]
            assert store.due(NOW_US, 500, tenant) == _expected(mine, 500)
            assert store.next_due_us(tenant) == min((at_us for _, at_us, _ in mine), default=None)
        assert store.next_due_us() == min(at_us for _, at_us, _ in made)


@pytest.mark.parametrize("beyond", [0, 1, 7, due_queries.LOOKED_BEYOND])
def test_what_a_worker_knows_is_found_whatever_else_is_due(
    tmp_path: Path, beyond: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_queries, "LOOKED_BEYOND", beyond)
    with open_sqlite_store(tmp_path / "ledger.db") as store:
        compare(store, filled(store, beyond))


def steps_of(store: SqliteStore, monkeypatch: pytest.MonkeyPatch, ask: Callable[[], None]) -> int:
    """How many steps SQLite's machine takes to answer."""
    connection, taken = store._readers._connect(), Counter[str]()

    def count() -> bool:
        taken["steps"] += 1
        return False

    def rows(sql: str, values: tuple[object, ...] = ()) -> list[Any]:
        return connection.execute(sql, cast("Any", values)).fetchall()

    connection.set_progress_handler(count, 1)
    monkeypatch.setattr(store, "_rows", rows)
    monkeypatch.setattr(store, "_many_rows", rows)
    ask()
    connection.close()
    return taken["steps"]


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_a_poll_reads_no_more_rows_where_more_is_due_that_the_worker_does_not_know(
    tmp_path: Path, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One action of a known version is due before all the others, and one behind them."""
    known = ContractFilter(frozenset({"ship"}), frozenset({"h5"}), 500)

    def steps(actions: int) -> int:
        with open_sqlite_store(tmp_path / f"{actions}.db") as store:
            unknown = [
                sample_creation(f"a{n:05d}", due_us=600, contract=name, contract_hash=version)
                for n, (name, version) in zip(
                    range(actions), cycle([("bill", "h1"), ("bill", ""), ("zeal", "h9"), ("ship", "h4")])
                )
            ]
            store.append([*unknown, *(sample_creation(f"k{at}", due_us=at, contract_hash="h5") for at in (1, 999))])

            def ask() -> None:
                assert store.due(NOW_US, 16, tenant, known) == ["k1", "k999"]
                assert store.next_due_us(tenant) == 1

            return steps_of(store, monkeypatch, ask)

    assert steps(4_000) <= steps(40) + 4


def test_sagas_are_found_by_time_although_each_has_a_definition_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def steps(sagas: int) -> int:
        with open_sqlite_store(tmp_path / f"{sagas}.db") as store:
            store.append(
                [
                    sample_creation(f"s{n:05d}", due_us=n + 1, kind="saga", contract=f"trip {n}", contract_hash=f"d{n}")
                    for n in range(sagas)
                ]
            )

            def ask() -> None:
                known = ContractFilter(frozenset(), frozenset(), 0)
                assert store.due(9_999, 3, "acme", known) == ["s00000", "s00001", "s00002"]
                assert store.due(9_999, 3, "", known) == ["s00000", "s00001", "s00002"]
                assert store.next_due_us() == 1

            return steps_of(store, monkeypatch, ask)

    assert steps(4_000) <= steps(400) + 4


def test_actions_in_flight_are_counted_no_further_than_one_over_the_limit(tmp_path: Path) -> None:
    with open_sqlite_store(tmp_path / "ledger.db") as store:
        store.append([sample_creation(f"a{number}", due_us=NOW_US) for number in range(6)])
        for limit in (1, 2, 4):
            assert store.append([sample_append("b", in_flight_max=limit)]) == [TooManyInFlight(limit + 1)]
        assert store.append([sample_append("b", in_flight_max=6)]) == [TooManyInFlight(6)]
