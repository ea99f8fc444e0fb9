"""Each store keeps each promise of the port; the suite is the one that is shipped for third parties."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from readback.ports.storage.store import LedgerStore
from readback.stores.sqlite import SqliteStore, open_sqlite_store
from readback.testing.conformance.store import StoreConformance, conforms
from readback.testing.store_memory import MemoryStore


class TestMemoryStore(StoreConformance):
    """The fake keeps the same promises as what it stands for."""

    def make_store(self) -> LedgerStore:
        return conforms(MemoryStore())

    def reopen(self, store: LedgerStore) -> LedgerStore:
        assert isinstance(store, MemoryStore)
        return store.reopened()


class TestMemoryStoreThatPlacesLater(TestMemoryStore):
    """The fake as it stands for a store that many processes append to."""

    sequences_asynchronously = True

    def make_store(self) -> LedgerStore:
        return conforms(MemoryStore(sequences_asynchronously=True))


class TestSqliteStore(StoreConformance):
    """The real one, on a real file."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.paths = (tmp_path / f"ledger-{number}.db" for number in itertools.count())

    def setup_method(self) -> None:
        """The store is made by the fixture below, once the folder is known."""

    @pytest.fixture(autouse=True)
    def opened(self, folder: None) -> None:
        super().setup_method()

    def make_store(self) -> LedgerStore:
        self.path = next(self.paths)
        return conforms(open_sqlite_store(self.path))

    def reopen(self, store: LedgerStore) -> LedgerStore:
        store.close()
        assert isinstance(store, SqliteStore)
        return open_sqlite_store(self.path)
