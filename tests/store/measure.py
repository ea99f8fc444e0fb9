"""The SQLite store against the bare rows, in one run: `python -m tests.store.measure`. No test; prints ratios.

Both write the same rows (an action, its reservation, three events, one piece of evidence) into the same
tables and indexes, turn by turn. The bare side has its rows ready and checks nothing.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import apsw

from readback.adapters.runtime_system import SystemRuntime
from readback.ports.storage.store import Append
from readback.stores.sqlite import connect, open_sqlite_store, rows
from readback.stores.sqlite import store as wal_checkpoint
from readback.testing.store_samples import sample_creation, sample_evidence

EVENTS = 3
KEY = "INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?, ?)"
SIZES = ((1, 1500), (16, 3200), (256, 10240))
ROUNDS = 3


def creations(count: int) -> list[Append]:
    runtime = SystemRuntime()
    found = []
    for _ in range(count):
        name = runtime.new_id()
        item = sample_creation(name, events=EVENTS, due_us=5, lease_owner=runtime.owner(), lease_until_us=9)
        events = tuple(replace(event, envelope=event.envelope + b"x" * 700) for event in item.events)
        found.append(replace(item, events=events, evidence=(sample_evidence(name.encode() * 30),)))
    return found


class Bare:
    """A ledger's tables, and nothing between the rows and them."""

    def __init__(self, path: Path) -> None:
        open_sqlite_store(path).close()
        self._db = apsw.Connection(str(path))
        self._db.pragma("synchronous", "FULL")
        self._db.pragma("cache_size", -connect.WRITER_CACHE_KIB)
        self._db.wal_autocheckpoint(wal_checkpoint.LONG_PAGES)
        self._seq = 0

    def ready(self, batch: Sequence[Append]) -> list[tuple[str, list[rows.Row]]]:
        """The rows of a batch, by statement."""
        events: list[rows.Row] = []
        for item in batch:
            for version, event in enumerate(item.events, 1):
                self._seq += 1
                events.append((self._seq, item.action_id, version, event.kind, event.at_us, event.envelope, event.leaf))
        return [
            (rows.INSERT_EVENT, events),
            (rows.INSERT_ACTION, [(*rows.projection_values(item.projection), EVENTS, 0, 9) for item in batch]),
            (KEY, [rows.key_values(item.reserve) for item in batch]),
            (
                rows.PUT_PAYLOAD,
                [(i.action_id, i.tenant, bytes.fromhex(e.digest), e.media, e.body) for i in batch for e in i.evidence],
            ),
        ]

    def write(self, ready: list[tuple[str, list[rows.Row]]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        for statement, values in ready:
            self._db.executemany(statement, values)
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()


def compare(folder: Path, size: int, count: int) -> tuple[float, float, float]:
    """Ratio of the sums, ratio of the medians, and the bare microseconds for each append."""
    bare, ours, least = Bare(folder / "bare.db"), [], []
    items = creations(count)
    with open_sqlite_store(folder / "store.db") as store:
        for start in range(0, count, size):
            batch = items[start : start + size]
            ready = bare.ready(batch)
            began = perf_counter()
            bare.write(ready)
            between = perf_counter()
            store.append(batch)
            least.append(between - began)
            ours.append(perf_counter() - between)
    bare.close()
    medians = statistics.median(ours) / statistics.median(least)
    return sum(ours) / sum(least), medians, sum(least) / count * 1e6


def main() -> None:
    for size, count in SIZES:
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as name:
                total, median, least = compare(Path(name), size, count)
            sys.stdout.write(
                f"{size:4} in a batch: {total:.2f} of the bare sum, {median:.2f} of the bare median,"
                f" {least:.0f} us bare for each append\n"
            )


if __name__ == "__main__":
    main()
