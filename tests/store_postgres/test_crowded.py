"""A server that has as many connections as it may: what a process has it uses, and else says what is in the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from readback.errors import StoreError
from readback.stores.postgres import PostgresStore, open_postgres_store, queries
from readback.stores.postgres.connection.connect import Connection
from readback.testing.postgres_server import PostgresPair
from readback.testing.store_samples import sample_creation
from tests.postgres import url_of

pytestmark = pytest.mark.slow
LOCKS = (
    "pg_advisory_xact_lock(int, int), pg_advisory_xact_lock_shared(int, int), "
    "pg_try_advisory_xact_lock(int, int), pg_advisory_xact_lock(bigint)"
)
FEW = 2
"""One that writes and one that looks."""


@pytest.fixture
def store(ledger_server: PostgresPair) -> Iterator[PostgresStore]:
    with ledger_server.connect(autocommit=True) as boss:
        boss.execute(f"CREATE ROLE few LOGIN CONNECTION LIMIT {FEW}")
        boss.execute("GRANT CREATE ON DATABASE postgres TO few")
        # Another test may have admitted an auditor, which takes these rights from all roles of the database.
        boss.execute(f"GRANT EXECUTE ON FUNCTION {LOCKS} TO few")
    try:
        with open_postgres_store(url_of(ledger_server, "crowded", "few")) as opened:
            opened.append([sample_creation("a1")])
            yield opened
    finally:
        with ledger_server.connect(autocommit=True) as boss:
            boss.execute("DROP OWNED BY few CASCADE")
            boss.execute("DROP ROLE few")


def test_a_look_for_which_there_is_no_further_connection_waits_for_one_of_ours(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused, and the call with it, while another thread of the same process looked."""
    readers, refused, connect = store._readers, threading.Event(), store._opening.reader

    def connected() -> Connection:
        try:
            return connect()
        except StoreError:
            refused.set()
            raise

    monkeypatch.setattr(readers, "_connect", connected)
    lent, found = readers._borrow(), list[object]()
    looking = threading.Thread(target=lambda: found.append(store.projection("a1")))
    looking.start()
    assert refused.wait(30)
    readers.give_back(lent)
    looking.join(30)
    assert [type(each).__name__ for each in found] == ["StoredProjection"]


def test_a_server_that_takes_no_more_connections_is_told_as_that(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "RETURN_WAITED_S", 0.01)
    lent = store._readers._borrow()
    with pytest.raises(StoreError, match="takes no more connections") as caught:
        store.projection("a1")
    assert caught.value.code == "store.unreachable", "it goes away by itself"
    assert "max_connections" in caught.value.remedy
    store._readers.give_back(lent)
    assert store.projection("a1") is not None
