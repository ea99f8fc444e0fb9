"""Leases are judged by the database's clock: hosts whose clocks are apart agree on who holds one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from readback.ports.storage.store import Appended, VersionConflict
from readback.stores.postgres import PostgresStore, open_postgres_store
from readback.testing.postgres_server import PostgresPair
from readback.testing.store_samples import NOON_US, sample_append, sample_creation, sample_projection

pytestmark = pytest.mark.slow
MINUTE_US = 60_000_000
DAY_US = 86_400_000_000
SHORT_US = 20_000


@pytest.fixture
def store(ledger_url: str) -> Iterator[PostgresStore]:
    with open_postgres_store(ledger_url) as opened:
        opened.append([sample_creation("a1", due_us=NOON_US)])
        yield opened


def _let_pass(server: PostgresPair, us: int) -> None:
    """The server's own clock moves on; it waits, and nothing here does."""
    server.run(f"select pg_sleep({us / 1e6})")


@pytest.mark.parametrize("apart_us", [-DAY_US, -1, 0, 1, DAY_US])
@pytest.mark.requirement("PGSTORE-clock")
def test_a_live_lease_is_not_taken_by_a_host_whose_clock_is_apart(store: PostgresStore, apart_us: int) -> None:
    assert store.lease("a1", "w1", NOON_US, NOON_US + MINUTE_US) == 1
    there_us = NOON_US + apart_us
    assert store.lease("a1", "w2", there_us, there_us + MINUTE_US) is None
    assert store.lease("a1", "w2", there_us, there_us + MINUTE_US, dead="w1") == 2


@pytest.mark.parametrize("apart_us", [-DAY_US, 0, DAY_US])
def test_a_lease_that_has_ended_is_given_to_a_host_whose_clock_is_apart(
    store: PostgresStore, ledger_server: PostgresPair, apart_us: int
) -> None:
    assert store.lease("a1", "w1", NOON_US, NOON_US + SHORT_US) == 1
    _let_pass(ledger_server, SHORT_US)
    there_us = NOON_US + apart_us
    assert store.lease("a1", "w2", there_us, there_us + MINUTE_US) == 2
    assert store.append([sample_append("a1", 1, fence=1)]) == [VersionConflict(1, 2)]
    assert store.append([sample_append("a1", 1, fence=2)]) == [Appended(2, 0)]


def test_an_append_takes_a_lease_for_as_long_as_its_projection_says(
    store: PostgresStore, ledger_server: PostgresPair
) -> None:
    held = sample_projection("a2", updated_us=NOON_US, lease_owner="w1", lease_until_us=NOON_US + SHORT_US)
    longer = sample_projection("a3", updated_us=NOON_US, lease_owner="w1", lease_until_us=NOON_US + MINUTE_US)
    store.append([sample_append("a2", projection=held), sample_append("a3", projection=longer)])
    _let_pass(ledger_server, SHORT_US)
    assert store.lease("a2", "w2", NOON_US - DAY_US, NOON_US) == 1
    assert store.lease("a3", "w2", NOON_US + DAY_US, NOON_US + 2 * DAY_US) is None
    stored = store.projection("a3")
    assert stored is not None
    assert stored.projection == longer, "what it says is what its holder said"


@pytest.mark.requirement("PGSTORE-clock")
def test_what_is_leased_is_due_to_nobody_until_the_database_says_that_the_lease_has_ended(
    store: PostgresStore, ledger_server: PostgresPair
) -> None:
    now_us = 1_000_000 * int(ledger_server.run("select extract(epoch from clock_timestamp())::bigint")[0])
    store.append([sample_creation("a2", due_us=now_us)])
    assert store.due(now_us + DAY_US, 5) == ["a1", "a2"]
    assert store.due(now_us - 1, 5) == ["a1"], "an action is due by the time of who asks"
    assert store.lease("a2", "w1", now_us, now_us + MINUTE_US) == 1
    assert store.lease("a1", "w1", NOON_US, NOON_US + SHORT_US) == 1
    assert "a2" not in store.due(now_us + DAY_US, 5), "a clock that is a day ahead ends no lease"
    _let_pass(ledger_server, SHORT_US)
    assert store.due(now_us + DAY_US, 5) == ["a1"]
    assert store.due(NOON_US, 5) == ["a1"], "and one that is behind keeps none"
    store.release("w1")
    assert store.due(now_us + DAY_US, 5) == ["a1", "a2"]
    assert store.damage() == []
