"""The store on PostgreSQL keeps each promise of the port; the suite is the one that is shipped for third parties."""

from __future__ import annotations

import itertools

import pytest

from readback.adapters.store_postgres import PostgresStore, open_postgres_store
from readback.ports.store import LedgerStore
from readback.testing.conformance_store import StoreConformance, conforms

pytestmark = pytest.mark.slow


class TestPostgresStore(StoreConformance):
    """The real one, on a real server. Leases by the callers' times, which the suite makes up."""

    places_later = True

    @pytest.fixture(autouse=True)
    def opened(self, ledger_url: str) -> None:
        self.urls = (f"{ledger_url}_{number}" if number else ledger_url for number in itertools.count())
        super().setup_method()

    def setup_method(self) -> None:
        """The store is made by the fixture above, once the address is known."""

    def make_store(self) -> LedgerStore:
        self.url = next(self.urls)
        return conforms(open_postgres_store(self.url, clock="callers"))

    def reopen(self, store: LedgerStore) -> LedgerStore:
        store.close()
        assert isinstance(store, PostgresStore)
        return open_postgres_store(self.url, clock="callers")
