"""What an action costs on PostgreSQL, its processes included: a real server, which makes everything durable.

Called by `measure`. The server is the one of `bench.side_by_side`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench.scale.filling import US, filled
from bench.scale.records import Database
from bench.side_by_side.postgres import PostgresServer
from readback import bootstrap
from readback.ports.storage.store import LedgerStore

PLACED_AT_ONCE: Final = 4_096
WARM: Final = 64
WAL: Final = "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
COMMITS: Final = "select xact_commit from pg_stat_database where datname = current_database()"
DISK: Final = "select pg_database_size(current_database())"


def measured_on_postgres(folder: Path, sizes: Sequence[int], progress: Callable[[str], None]) -> tuple[Database, ...]:
    """A database for each size, one after another on one server."""
    found = []
    with PostgresServer(folder) as server:
        for actions in sizes:
            progress(f"{actions:,} actions on PostgreSQL")
            found.append(_one(server, f"scale{actions}", actions))
    return tuple(found)


class StaysOpen:
    """A store that stays open behind its clients, so that what the server did for it is still told by its processes."""

    def __init__(self, store: LedgerStore) -> None:
        self.store = store

    def as_store(self) -> LedgerStore:
        return self  # type: ignore[return-value]  # everything else is handed on

    def close(self) -> None:
        """Not yet."""

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)


class _Unplaced(StaysOpen):
    """Its clients leave it to somebody else to give places, so that these have a cost of their own."""

    sequences_asynchronously = False


def _one(server: PostgresServer, name: str, actions: int) -> Database:
    url = server.create(name)
    store = bootstrap.store(url)
    through = _Unplaced(store).as_store()
    try:
        asyncio.run(filled(url, WARM, False, store=through))  # the schema, plans and caches are no action's
        _place(store)
        seq = store.last_seq()
        before = [int(server.ask(question, name)) for question in (WAL, COMMITS, DISK)]
        server_s, client_s = server.cpu_s(), time.process_time()
        asyncio.run(filled(url, actions, False, WARM, through))
        client_s, server_s = time.process_time() - client_s, server.cpu_s() - server_s
        placing = time.process_time() + server.cpu_s()
        _place(store)
        placing = time.process_time() + server.cpu_s() - placing
        after = [int(server.ask(question, name)) for question in (WAL, COMMITS, DISK)]
        wal, commits, disk = (b - a for a, b in zip(before, after, strict=True))
        return Database(
            actions, store.last_seq() - seq, round(client_s * US), round(server_s * US), round(placing * US), wal, disk,
            commits,
        )  # fmt: skip
    finally:
        store.close()


def _place(store: LedgerStore) -> None:
    """Until every entry has its place."""
    while store.assign_sequence_numbers(PLACED_AT_ONCE):
        pass
