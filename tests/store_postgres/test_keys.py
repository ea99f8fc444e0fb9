"""Keys in the store on PostgreSQL, where somebody else moves one between the look and the writing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readback.adapters.store_postgres import open_postgres_store
from readback.adapters.store_postgres.writing import Transaction
from readback.ports.store import Appended, KeyTaken
from readback.testing.store_samples import sample_append, sample_creation, sample_projection


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
        assert isinstance(found, KeyTaken)
        assert (found.record.action_id, found.record.status) == ("a1", "PENDING")
        assert store.projection("a2") is None
        assert len(commits) == 3, "it was begun again"
