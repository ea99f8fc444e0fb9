"""The schema is brought up by a newer release while this one has the ledger open: what it may do, and what not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from readback.errors import StoreError, StoreVersionError
from readback.ports.storage.batch_reads import LeaseWanted
from readback.ports.storage.log import AnchorMark, SealedHead
from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.ports.storage.store import Appended
from readback.stores.postgres import PostgresStore, open_postgres_store
from readback.stores.postgres.connection import schema
from readback.stores.postgres.connection.schema import SCHEMA
from readback.testing.postgres_server import PostgresPair
from readback.testing.store_samples import TENANT, sample_append, sample_creation

pytestmark = [pytest.mark.slow, pytest.mark.requirement("PGSTORE-upgrade")]
KNOWN = len(schema.migrations())
ENDS, SERVES = f"{KNOWN + 1:04d}_later.sql", f"{KNOWN + 1:04d}_later.serves_{KNOWN}.sql"
TABLES = (
    "event", "action", "idempotency", "payload", "contract_text", "weight",
    "counter", "place", "sequencer", "tile", "checkpoint", "anchor",
    "subscriber", "dead_letter",
)  # fmt: skip
PATIENCE_S = 30.0
LOOK_S = 0.01
LETTER = DeadLetter("desk", 1, 0, 0, 1, "no")

CHANGES: dict[str, Callable[[PostgresStore], object]] = {
    "a new action": lambda store: store.append([sample_creation("a2")]),
    "what is known": lambda store: store.append([sample_append("a1", 1)]),
    "a lease": lambda store: store.lease("a1", "w", 0, 1_000_000),
    "leases": lambda store: store.leases([LeaseWanted("a1", 1_000_000, "")], "w", 0),
    "a release": lambda store: store.release("w"),
    "a wake-up": lambda store: store.make_due("a1", 0),
    "a pace": lambda store: store.pace(TENANT, 0, 0, 1),
    "places": lambda store: store.assign_sequence_numbers(10),
    "a seal": lambda store: store.seal(0, [], SealedHead(1, 0, b"note")),
    "a cosignature": lambda store: store.cosigned(1, b"note"),
    "an anchor": lambda store: store.mark(AnchorMark("git", 0, 0, "")),
    "a subscriber": lambda store: store.enrol("desk", 0),
    "a position": lambda store: store.take_cursor("desk", "w", 0, 1),
    "a position kept": lambda store: store.keep_cursor(Cursor("desk", 0), Cursor("desk", 1)),
    "a letter": lambda store: store.put_letter(LETTER),
    "a letter's end": lambda store: store.drop_letter(LETTER),
}


@pytest.fixture
def name(ledger_url: str) -> str:
    return ledger_url.rpartition("schema=")[2]


@pytest.fixture
def store(ledger_url: str) -> Iterator[PostgresStore]:
    """A ledger with one action, open in this release."""
    with open_postgres_store(ledger_url) as opened:
        assert opened.append([sample_creation("a1")]) == [Appended(1, 0)]
        yield opened


def step(name: str, file: str, number: int = KNOWN + 1) -> str:
    return f"INSERT INTO {name}.migration VALUES ({number}, '{file}', 'x')"


def content(server: PostgresPair, name: str) -> list[tuple[object, ...]]:
    return [
        server.run(f"SELECT string_agg(t::text, '|' ORDER BY t::text) FROM {name}.{table} AS t") for table in TABLES
    ]


def refused(store: PostgresStore) -> set[object]:
    """The changes that are refused for the schema's sake; the others may be refused for another reason, or made."""
    found: set[tuple[object, ...]] = set()
    for what, change in CHANGES.items():
        try:
            change(store)
        except StoreVersionError as error:
            found.add((what, error.code, *error.details.items()))
        except StoreError as error:
            found.add((what, error.code))
    version = ("store.version", ("found", KNOWN + 1), ("known", KNOWN))
    return {what for what, *said in found if tuple(said) == version}


def test_a_process_that_runs_changes_nothing_more_under_a_schema_that_ends_what_it_may_write(
    store: PostgresStore, ledger_server: PostgresPair, name: str
) -> None:
    ledger_server.run(step(name, ENDS))
    before = content(ledger_server, name)
    assert refused(store) == set(CHANGES)
    assert content(ledger_server, name) == before
    assert store.projection("a1") is not None, "it may still look"


def test_it_goes_on_under_one_that_serves_it_until_another_ends_that(
    store: PostgresStore, ledger_server: PostgresPair, name: str, ledger_url: str
) -> None:
    assert store.not_compared() == []
    ledger_server.run(step(name, SERVES))
    assert refused(store) == set()
    (said,) = store.not_compared()
    assert f"step {KNOWN + 1} is recorded, and this release knows {KNOWN}" in said
    open_postgres_store(ledger_url).close()
    ledger_server.run(step(name, f"{KNOWN + 2:04d}_next.serves_{KNOWN + 1}.sql", KNOWN + 2))
    with pytest.raises(StoreVersionError, match=f"has schema {KNOWN + 2}; this release knows {KNOWN}"):
        store.append([sample_creation("a3")])
    with pytest.raises(StoreVersionError):
        open_postgres_store(ledger_url)


@pytest.mark.parametrize("file", [ENDS, SERVES])
@pytest.mark.parametrize("what", ["a new action", "a lease", "places"])
def test_a_change_that_comes_while_the_schema_is_brought_up_waits_and_is_held_to_the_new_one(
    store: PostgresStore, ledger_server: PostgresPair, name: str, file: str, what: str
) -> None:
    said: list[str] = []

    def change() -> None:
        try:
            CHANGES[what](store)
            said.append("made")
        except StoreError as error:
            said.append(error.code)

    waiting = "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with closing(ledger_server.connect()) as newer:  # what a release does as it opens the ledger, up to its commit
        newer.execute("SELECT pg_advisory_xact_lock(%s, %s)", (schema.lock_class(name), SCHEMA))
        newer.execute(step(name, file).encode())
        before = content(ledger_server, name)
        thread = threading.Thread(target=change)
        thread.start()
        for _ in range(int(PATIENCE_S / LOOK_S)):
            if ledger_server.run(waiting) == (True,):
                break
            threading.Event().wait(LOOK_S)
        assert not said
        assert content(ledger_server, name) == before
        newer.commit()
    thread.join(PATIENCE_S)
    assert said == ["store.version" if file == ENDS else "made"]
    assert (content(ledger_server, name) == before) is (file == ENDS)


def test_what_a_newer_schema_has_taken_away_is_said_as_that_and_not_as_a_fault(
    store: PostgresStore, ledger_server: PostgresPair, name: str
) -> None:
    ledger_server.run(f"ALTER TABLE {name}.action RENAME COLUMN state TO stage")
    for look in (lambda: store.projection("a1"), lambda: store.append([sample_append("a1", 0)])):
        with pytest.raises(StoreError, match="could not be used") as caught:
            look()
        assert caught.value.code != "store.version"
    ledger_server.run(step(name, ENDS))
    for look in (lambda: store.projection("a1"), lambda: store.append([sample_append("a1", 0)])):
        with pytest.raises(StoreVersionError):
            look()


def test_a_ledger_that_was_put_back_behind_the_process_is_not_written(
    store: PostgresStore, ledger_server: PostgresPair, name: str
) -> None:
    ledger_server.run(f"DELETE FROM {name}.migration WHERE number = {KNOWN}")
    with pytest.raises(StoreVersionError, match="a backup was restored while this process ran"):
        store.append([sample_creation("a2")])
    assert store.projection("a2") is None
