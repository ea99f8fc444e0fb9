"""The schema is brought up by a newer release while this one has the ledger open: what it may do, and what not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from readback.errors import StoreError, StoreVersionError
from readback.ports.storage.log import AnchorMark, SealedHead
from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.stores.sqlite import SqliteStore, open_sqlite_store, schema
from readback.testing.store_samples import TENANT, sample_append, sample_creation

pytestmark = pytest.mark.requirement("FLEET-upgrade")
KNOWN = len(schema.migrations())
ENDS, SERVES = f"{KNOWN + 1:04d}_later.sql", f"{KNOWN + 1:04d}_later.serves_{KNOWN}.sql"
PATIENCE_S = 30.0
LETTER = DeadLetter("desk", 1, 0, 0, 1, "no")

CHANGES: dict[str, Callable[[SqliteStore], object]] = {
    "a new action": lambda store: store.append([sample_creation("a2")]),
    "what is known": lambda store: store.append([sample_append("a1", 1)]),
    "a lease": lambda store: store.lease("a1", "w", 0, 1_000_000),
    "a release": lambda store: store.release("w"),
    "a wake-up": lambda store: store.make_due("a1", 0),
    "a pace": lambda store: store.pace(TENANT, 0, 0, 1),
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
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A ledger with one action, open in this release."""
    with open_sqlite_store(tmp_path / "ledger.db") as opened:
        opened.append([sample_creation("a1")])
        yield opened


@pytest.fixture
def newer(store: SqliteStore) -> Iterator[apsw.Connection]:
    """The newer release's connection."""
    connection = apsw.Connection(str(store.path))
    connection.set_busy_timeout(int(PATIENCE_S * 1000))
    yield connection
    connection.close()


def bring_up(connection: apsw.Connection, file: str, number: int = KNOWN + 1) -> None:
    """What a release does as it opens the ledger, inside its transaction."""
    connection.execute("INSERT INTO migration (number, name, sha256) VALUES (?, ?, 'x')", (number, file))
    connection.pragma("user_version", number)


def content(connection: apsw.Connection) -> list[object]:
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'").get
    return [connection.execute(f'SELECT * FROM "{table}"').fetchall() for table in tables]


def refused(store: SqliteStore) -> set[object]:
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
    store: SqliteStore, newer: apsw.Connection
) -> None:
    with newer:
        bring_up(newer, ENDS)
    before = content(newer)
    assert refused(store) == set(CHANGES)
    assert content(newer) == before
    assert store.projection("a1") is not None, "it may still look"


def test_it_goes_on_under_one_that_serves_it_until_another_ends_that(
    store: SqliteStore, newer: apsw.Connection
) -> None:
    with newer:
        bring_up(newer, SERVES)
    assert refused(store) == set()
    open_sqlite_store(store.path).close()
    with newer:
        bring_up(newer, f"{KNOWN + 2:04d}_next.serves_{KNOWN + 1}.sql", KNOWN + 2)
    with pytest.raises(StoreVersionError, match=f"has schema {KNOWN + 2}; this release knows {KNOWN}"):
        store.append([sample_creation("a3")])
    with pytest.raises(StoreVersionError):
        open_sqlite_store(store.path)


@pytest.mark.parametrize("file", [ENDS, SERVES])
def test_a_change_that_comes_while_the_schema_is_brought_up_waits_and_is_held_to_the_new_one(
    store: SqliteStore, newer: apsw.Connection, file: str
) -> None:
    said: list[str] = []

    def change() -> None:
        try:
            store.append([sample_creation("a2")])
            said.append("made")
        except StoreError as error:
            said.append(error.code)

    newer.execute("BEGIN IMMEDIATE")
    bring_up(newer, file)
    before = content(newer)
    thread = threading.Thread(target=change)
    thread.start()
    thread.join(0.05)  # it cannot end: who writes has the file alone
    assert not said
    newer.execute("COMMIT")
    thread.join(PATIENCE_S)
    assert said == ["store.version" if file == ENDS else "made"]
    assert (content(newer) == before) is (file == ENDS)


def test_what_a_newer_schema_has_taken_away_is_said_as_that_and_not_as_a_fault(
    store: SqliteStore, newer: apsw.Connection
) -> None:
    looks = (lambda: store.projection("a1"), lambda: list(store.projections()))
    newer.execute("ALTER TABLE action RENAME COLUMN target TO aim")
    for look in looks:
        with pytest.raises(StoreError, match="could not be used") as caught:
            look()
        assert caught.value.code != "store.version"
    with newer:
        bring_up(newer, ENDS)
    for look in looks:
        with pytest.raises(StoreVersionError):
            look()


def test_a_ledger_that_was_put_back_behind_the_process_is_not_written(
    store: SqliteStore, newer: apsw.Connection
) -> None:
    with newer:
        newer.execute("DELETE FROM migration WHERE number = ?", (KNOWN,))
        newer.pragma("user_version", KNOWN - 1)
    with pytest.raises(StoreVersionError, match="a backup was restored while this process ran"):
        store.append([sample_creation("a2")])
    assert store.projection("a2") is None


def test_where_nobody_else_writes_nobody_asks_for_the_schema(store: SqliteStore) -> None:
    asked: list[str] = []
    writer = store._writer
    assert writer is not None
    store.append([sample_creation("a2")])
    writer.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: asked.append(event["sql"]))
    store.append([sample_creation("a3")])
    assert asked
    assert not [sql for sql in asked if "user_version" in sql]
