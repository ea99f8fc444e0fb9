"""Entries in partitions by their arrival: added by themselves, searched no more than needed, put away, brought back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from readback.audit.checks.ledger import audit
from readback.audit.sealing.seal import place_all
from readback.ports.storage.store import LedgerStore
from readback.stores.postgres import PostgresStore, open_postgres_store
from readback.stores.postgres.connection.rows import EVENT_COLUMNS, EVENT_FROM
from readback.stores.postgres.sequencing import _ENTRIES
from readback.testing.postgres_server import PostgresPair
from readback.testing.store_samples import sample_append
from tests.store_postgres.test_sequencing import place, schema_of, session_on

pytestmark = pytest.mark.slow
FULL = 33_554_432
SMALL = 10
ACTIONS = 5


@pytest.fixture
def store(ledger_url: str) -> Iterator[PostgresStore]:
    with open_postgres_store(ledger_url) as opened:
        yield opened


@pytest.fixture
def session(ledger_server: PostgresPair, ledger_url: str, store: PostgresStore) -> Iterator[psycopg.Connection[Any]]:
    """The ledger's owner, who has small partitions made, and the first nearly full."""
    with session_on(ledger_server, ledger_url) as connection:
        connection.execute(f"UPDATE sequencer SET entries_a_partition = {SMALL}".encode())
        connection.execute(f"ALTER TABLE event ALTER COLUMN id RESTART WITH {FULL - SMALL}".encode())
        connection.execute("SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off")
        connection.execute("SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan")
        yield connection


def partitions(session: psycopg.Connection[Any]) -> dict[str, int]:
    """How many entries each of them holds."""
    found = session.execute(
        "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'event'::regclass ORDER BY length(c.relname::text), c.relname"
    ).fetchall()
    counted: dict[str, int] = {}
    for (name,) in found:
        row = session.execute(f"SELECT count(*) FROM {name}".encode()).fetchone()
        assert row is not None
        counted[name] = row[0]
    return counted


def go_on_at(session: psycopg.Connection[Any], arrival: int) -> None:
    session.execute(f"ALTER SEQUENCE event_id_seq RESTART WITH {arrival}".encode())


def fill(store: PostgresStore, first: int, past: int) -> None:
    for version in range(first, past):
        store.append([sample_append(f"a{number}", version) for number in range(ACTIONS)])
        place(store)


@pytest.mark.requirement("PLACE-partitions")
def test_there_is_always_an_empty_partition_behind_the_one_that_is_written(
    store: PostgresStore, session: psycopg.Connection[Any]
) -> None:
    assert partitions(session) == {"event_1": 0, "event_2": 0}
    fill(store, 0, 2)
    assert partitions(session) == {"event_1": 10, "event_2": 0}
    go_on_at(session, 2 * FULL - 5)
    fill(store, 2, 8)
    assert partitions(session) == {
        "event_1": 10,
        "event_2": 5,
        "event_3": 10,
        "event_4": 10,
        "event_5": 5,
        "event_6": 0,
    }
    assert [each.seq for each in store.scan()] == list(range(1, 41))
    assert [each.version for each in store.events("a3")] == list(range(1, 9))
    bounds = session.execute("SELECT first, past FROM event_partition ORDER BY number").fetchall()
    assert bounds == [(0, FULL), (FULL, 2 * FULL), *((2 * FULL + n, 2 * FULL + n + SMALL) for n in (0, 10, 20, 30))]


@pytest.mark.requirement("PLACE-partitions")
def test_a_look_at_the_log_searches_the_partition_that_holds_it_alone(
    store: PostgresStore, session: psycopg.Connection[Any]
) -> None:
    go_on_at(session, 2 * FULL - 5)
    fill(store, 0, 5)
    plan = explained(session, _ENTRIES.replace("%s", "$1", 1).replace("%s", "$2", 1), "(bigint, bigint)", "(20, 5)")
    assert searched(plan) == {"event_4"}
    assert not scanned_whole(plan)
    plan = explained(session, f"SELECT {EVENT_COLUMNS} {EVENT_FROM} WHERE action_id = $1", "(text)", "('a3')")
    assert not scanned_whole(plan), "an index in each"


def explained(session: psycopg.Connection[Any], sql: str, kinds: str, given: str) -> list[str]:
    session.execute("DEALLOCATE ALL")
    session.execute(f"PREPARE look {kinds} AS {sql}".encode())
    found = session.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE look {given}".encode()).fetchall()
    return [row[0] for row in found]


def searched(plan: list[str]) -> set[str]:
    """The partitions in which something was looked for."""
    return {
        word
        for line in plan
        if "never executed" not in line
        for word in line.split()
        if word.startswith("event_") and word[6:].isdigit()
    }


def scanned_whole(plan: list[str]) -> list[str]:
    return [line for line in plan if "Seq Scan on event" in line]


def in_order(store: LedgerStore) -> list[tuple[int, str, int]]:
    return [(each.seq, each.action_id, each.version) for each in store.scan()]


@pytest.mark.requirement("PLACE-partitions", "L21")
def test_an_old_partition_can_be_put_away_and_brought_back_and_its_absence_is_seen(
    store: PostgresStore, session: psycopg.Connection[Any]
) -> None:
    fill(store, 0, 2)
    go_on_at(session, FULL)
    fill(store, 2, 4)
    before = in_order(store)
    session.execute("ALTER TABLE event DETACH PARTITION event_1")
    fill(store, 4, 5)
    assert [seq for seq, _, _ in in_order(store)] == list(range(11, 26))
    codes = {fault.code for fault in audit(store).faults}
    assert "log.gap" in codes, "a log without its beginning is not sound"
    session.execute(f"ALTER TABLE event ATTACH PARTITION event_1 FOR VALUES FROM (0) TO ({FULL})".encode())
    assert in_order(store)[:20] == before
    assert [seq for seq, _, _ in in_order(store)] == list(range(1, 26))
    assert "log.gap" not in {fault.code for fault in audit(store).faults}


@pytest.mark.requirement("PLACE-partitions", "LEDGER-append-only")
def test_an_entry_is_never_changed_in_its_partition_either(
    store: PostgresStore, session: psycopg.Connection[Any]
) -> None:
    fill(store, 0, 1)
    for statement in (
        "UPDATE event SET kind = 'x'",
        "UPDATE event_1 SET kind = 'x'",
        "DELETE FROM event",
        "DELETE FROM event_1",
        "TRUNCATE event",
        "TRUNCATE event_1",
        "INSERT INTO event (tenant, action_id, version, kind, at_us, envelope, leaf)"
        " SELECT tenant, action_id, version, kind, at_us, envelope, leaf FROM event LIMIT 1",
    ):
        with pytest.raises(psycopg.errors.IntegrityError):
            session.execute(statement.encode())
    assert place_all(store) == 0
    assert len(in_order(store)) == ACTIONS


def test_partitions_belong_to_their_own_ledger(ledger_server: PostgresPair, ledger_url: str) -> None:
    other = f"{ledger_url}_b"
    with open_postgres_store(ledger_url) as one, open_postgres_store(other) as two:
        one.append([sample_append("a1")])
        place(one)
        place(two)
        assert (one.last_seq(), two.last_seq()) == (1, 0)
    with closing(ledger_server.connect(autocommit=True)) as connection:
        connection.execute(f"DROP SCHEMA {schema_of(other)} CASCADE".encode())
