"""justonce, an effect ledger: a key is claimed, the effect runs, its result is recorded. SQLite or PostgreSQL.

The effect is the tool and the reading behind it, so that what is recorded is what was read. Its stores are used as they
come: one connection under a lock on SQLite, a new connection for each operation on PostgreSQL.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from justonce.core import Idempotent
from justonce.errors import OperationInFlightError
from justonce.keys import operation_key
from justonce.stores.sqlite import SqliteStore

from bench.against.slices import Sync, serve_threads, sqlite_path, sqlite_settings
from bench.against.work import NotShippedError, Orders, shipped

PAUSE_S: Final = 0.25


@contextmanager
def opened(url: str, orders: Orders) -> Iterator[Sync]:
    store: Any
    settings: dict[str, Any] = {}
    if url.startswith("sqlite"):
        store = SqliteStore(sqlite_path(url))
        settings = sqlite_settings(url)
    else:
        from justonce.stores.postgres import PostgresStore

        store = PostgresStore(url)
    engine = Idempotent(store)

    def effect(name: str) -> dict[str, Any] | None:
        orders.ship(name)
        return orders.look(name)

    def act(name: str) -> None:
        done = engine.run(operation_key("ship", name), lambda: effect(name), payload={"order": name})
        if not shipped(done.value, name):
            raise NotShippedError(name)

    def recover(name: str) -> None:
        """The caller asks again until the dead claim is no longer in the way; the effect then runs again."""
        while True:
            try:
                return act(name)
            except OperationInFlightError:
                time.sleep(PAUSE_S)

    try:
        yield Sync(act, recover, settings)
    finally:
        if hasattr(store, "close"):
            store.close()


if __name__ == "__main__":
    serve_threads(opened)
