"""Keys in the store on PostgreSQL, where somebody else moves one between the look and the writing."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from readback.ports.storage.store import Appended, Freeze, KeyConflict, VersionConflict
from readback.stores.postgres import open_postgres_store
from readback.stores.postgres.writing.transaction import Transaction
from readback.testing.store_samples import (
    NOON_US,
    TENANT,
    sample_append,
    sample_creation,
    sample_projection,
    sample_reservation,
)


def test_a_key_that_is_open_again_when_the_transaction_writes_is_not_taken_over(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = sample_projection("a1", key_hash="k")
    with open_postgres_store(ledger_url) as store, open_postgres_store(ledger_url) as other:
        store.append([sample_creation("a1", key_hash="k")])
        commit, commits = Transaction.commit, list[int]()

        def after_somebody_else(transaction: Transaction) -> None:
            commits.append(1)
            if len(commits) == 1:
                opened = sample_append("a1", 1, projection=held, settle=("PENDING", 0))
                assert isinstance(other.append([opened])[0], Appended)
            commit(transaction)

        monkeypatch.setattr(Transaction, "commit", after_somebody_else)
        [found] = store.append([replace(sample_creation("a2", key_hash="k"), replaces="a1")])
        assert isinstance(found, KeyConflict)
        assert (found.record.action_id, found.record.status) == ("a1", "PENDING")
        assert store.projection("a2") is None
        assert len(commits) == 3, "it was begun again"


def test_what_another_process_moved_on_is_told_as_that_and_not_as_barred_by_what_was_remembered(
    ledger_url: str,
) -> None:
    with open_postgres_store(ledger_url) as store, open_postgres_store(ledger_url) as other:
        store.append([sample_creation("a1"), sample_creation("a2", key_hash="k2", due_us=NOON_US)])
        held = sample_projection("a1", key_hash="k2")
        freeze = Freeze(TENANT, "tool:ship_order", "a2", "why", NOON_US)
        other.append([sample_append("a1", 1), replace(sample_append("a2", 1), freezes=(freeze,))])
        stale = sample_append("a1", 1, projection=held, reserve=sample_reservation(held))
        assert store.append([stale]) == [VersionConflict(2, 0)]
        other.append([sample_append("a1", 2)])
        frozen = replace(sample_append("a1", 2), require_not_frozen=("tool:ship_order",))
        assert store.append([frozen]) == [VersionConflict(3, 0)]


@pytest.mark.requirement("KEY-one-taker")
@pytest.mark.parametrize("held_at", ["before it writes", "while the other one holds its locks"])
def test_a_settled_key_is_taken_by_one_of_two_hosts_that_reach_for_it_at_once(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch, held_at: str
) -> None:
    """Both have read that the key is free. The first one is held between its look and its writing."""
    with open_postgres_store(ledger_url) as store, open_postgres_store(ledger_url) as other:
        held = sample_projection("a1", key_hash="k")
        store.append([sample_creation("a1", key_hash="k")])
        store.append([sample_append("a1", 1, projection=held, settle=("FAILED_RETRYABLE", NOON_US))])
        commit, answers, began = Transaction.commit, list[object](), list[int]()
        threads = list[threading.Thread]()

        def reach() -> None:
            answers.extend(other.append([replace(sample_creation("a3", key_hash="k"), replaces="a1")]))

        def held_back(transaction: Transaction) -> None:
            began.append(1)
            if len(began) == 1 and held_at == "before it writes":
                monkeypatch.setattr(Transaction, "commit", commit)
                reach()
                monkeypatch.setattr(Transaction, "commit", held_back)
            elif len(began) == 1:
                monkeypatch.setattr(Transaction, "commit", commit)
                threads.append(threading.Thread(target=reach, daemon=True))
                threads[0].start()
                monkeypatch.setattr(Transaction, "commit", held_back)
            commit(transaction)

        monkeypatch.setattr(Transaction, "commit", held_back)
        answers.extend(store.append([replace(sample_creation("a2", key_hash="k"), replaces="a1")]))
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive()
        assert sorted(type(each).__name__ for each in answers) == ["Appended", "KeyConflict"]
        record = store.key(TENANT, held.key_hash)
        assert record is not None
        assert record.action_id in ("a2", "a3")
        present = [name for name in ("a2", "a3") if store.projection(name) is not None]
        assert present == [record.action_id], "the other one left nothing"
