"""The store on PostgreSQL keeps each promise of the port; the suite is the one that is shipped for third parties."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from readback.ports.storage.store import LedgerStore
from readback.stores.postgres import PostgresStore, open_postgres_store
from readback.testing.conformance.store import StoreConformance, conforms
from readback.testing.conformance.store_together import TogetherConformance

pytestmark = pytest.mark.slow


@pytest.mark.requirement("PGSTORE-conformance")
class TestPostgresStore(TogetherConformance, StoreConformance):
    """The real one, on a real server. Leases by the callers' times, which the suite makes up."""

    sequences_asynchronously = True

    @pytest.fixture(autouse=True)
    def opened(self, ledger_url: str) -> Iterator[None]:
        self.urls = (f"{ledger_url}_{number}" if number else ledger_url for number in itertools.count())
        self.opened_stores: list[PostgresStore] = []
        super().setup_method()
        yield
        for store in self.opened_stores:
            store.close()

    def setup_method(self) -> None:
        """The store is made by the fixture above, once the address is known."""

    def make_store(self) -> LedgerStore:
        self.url = next(self.urls)
        return conforms(self._open())

    def reopen(self, store: LedgerStore) -> LedgerStore:
        store.close()
        assert isinstance(store, PostgresStore)
        return self._open()

    def _open(self) -> PostgresStore:
        self.opened_stores.append(open_postgres_store(self.url, clock="callers"))
        return self.opened_stores[-1]
