"""A pooler that shares sessions between transactions puts one process's statements into another's session."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from readback.errors import StoreError
from readback.ports.storage.store import Appended
from readback.stores.postgres import PostgresStore, open_postgres_store
from readback.testing.postgres_server import PostgresPair
from readback.testing.store_samples import sample_append, sample_creation
from tests.postgres import url_of

pytestmark = [pytest.mark.slow, pytest.mark.requirement("PGSTORE-session")]

CHANGES: dict[str, Callable[[PostgresStore], object]] = {
    "a new action": lambda store: store.append([sample_creation("a2")]),
    "what is known": lambda store: store.append([sample_append("a1", 1)]),
    "a lease": lambda store: store.lease("a1", "w", 0, 1_000_000),
    "places": lambda store: store.assign_sequence_numbers(10),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_in_a_session_of_another_ledger_is_refused_there(
    ledger_url: str, ledger_server: PostgresPair, change: Callable[[PostgresStore], object]
) -> None:
    other_url = url_of(ledger_server, ledger_url.rpartition("schema=")[2] + "_other")
    with open_postgres_store(ledger_url) as store, open_postgres_store(other_url) as other:
        assert store.append([sample_creation("a1")]) == other.append([sample_creation("a1")]) == [Appended(1, 0)]
        _every_session(store, f"SET search_path TO {other.address.schema}")
        _is_refused(lambda: change(store), f"works in schema {other.address.schema}")
        assert [event.version for event in other.events("a1")] == [1]
        assert other.projection("a2") is None
        stored = other.projection("a1")
        assert stored is not None
        assert (stored.projection.lease_owner, other.last_seq()) == ("", 0)
        _every_session(store, f"SET search_path TO {store.address.schema}")
        change(store)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_that_somebody_elses_settings_would_keep_off_the_disk_is_refused(
    ledger_url: str, change: Callable[[PostgresStore], object]
) -> None:
    with open_postgres_store(ledger_url) as store:
        store.append([sample_creation("a1")])
        _every_session(store, "SET synchronous_commit TO off")
        _is_refused(lambda: change(store), "synchronous_commit = off")
        assert [event.version for event in store.events("a1")] == [1]


def _every_session(store: PostgresStore, said: str) -> None:
    """What another client of the pooler has left behind in each session that changes things."""
    assert store._writer is not None
    sessions: list[psycopg.Connection[tuple[object, ...]]] = [store._writer._connection]
    if store._beside._connection is None:
        store.assign_sequence_numbers(0)
    assert store._beside._connection is not None
    for session in (*sessions, store._beside._connection):
        session.execute(said.encode())


def _is_refused(change: Callable[[], object], why: str) -> None:
    with pytest.raises(StoreError, match=why) as caught:
        change()
    assert caught.value.code == "store.session"
    assert "session pooling" in caught.value.remedy
