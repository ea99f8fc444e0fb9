"""The metrics of a large ledger: the first fold, a start from the checkpoint, and a scrape: `python -m bench.metrics`.

The ledger holds copies of real actions, as rows of entries in a SQLite file. Only the fold reads the file, so the rows
of actions, keys and payloads are left out. Times are CPU times of this process, with the wall clock beside.
`plain_json_per_s` is the rate of the standard library's JSON parser over the same entries in the same run, as a measure
of the machine. A served scrape comes after the server's own thread has folded the new entries.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import apsw

from readback import Readback, verified
from readback.log.tree import leaf_hash
from readback.ports.storage.store import StoredEvent
from readback.stores.sqlite import open_sqlite_store, rows
from readback.telemetry.fold_reader import LedgerMetrics
from readback.telemetry.prometheus import MetricsServer, exposition

ENTRIES: Final = 1_000_000
NEW_ACTIONS: Final = 1_000
FOLD_MIN_PER_S: Final = 50_000
SCRAPE_MAX_MS: Final = 50.0
LIES_EVERY: Final = 20
PIECE: Final = 20_000


@cache
def templates() -> tuple[list[StoredEvent], list[StoredEvent]]:
    """The entries of a verified action, and of an action whose tool claims a success that is not there."""
    lamp = {"id": "lamp", "on": False}

    def switch_on(item: str) -> None:
        lamp["on"] = True

    def lie(item: str) -> dict[str, str]:
        return {"status": "ok"}

    made = [
        verified(tool, read=lambda item: dict(lamp), strong=True, expect={"on": value}, within="1s")
        for tool, value in ((switch_on, True), (lie, False))
    ]
    with Readback.open("memory:") as rb:
        for one in made:
            rb.run(one(item="lamp"))
        entries = [*rb._session.store.scan()]  # noqa: SLF001 - the bench reads entries as they are
    ids = list(dict.fromkeys(entry.action_id for entry in entries))
    first, second = ([entry for entry in entries if entry.action_id == name] for name in ids)
    return first, second


def copies(count: int, position: int, number: int) -> Iterator[tuple[Any, ...]]:
    """Rows of copied actions, until `count` entries; numbered from `number` on."""
    honest, lying = templates()
    made = 0
    while made < count:
        template = lying if number % LIES_EVERY == 0 else honest
        name = f"01b{number:023d}"
        for entry in template:
            envelope = entry.envelope.replace(entry.action_id.encode(), name.encode())
            position += 1
            yield (position, name, entry.version, entry.kind, entry.at_us, envelope, leaf_hash(envelope))
        made += len(template)
        number += 1


def fill(path: Path, count: int, position: int = 0, number: int = 0) -> int:
    """Append copies of actions to the file. Return the number of entries."""
    connection, added = apsw.Connection(str(path)), 0
    connection.pragma("synchronous", "OFF")
    piece: list[tuple[Any, ...]] = []
    for row in copies(count, position, number):
        piece.append(row)
        if len(piece) == PIECE:
            _insert(connection, piece)
            added, piece = added + len(piece), []
    _insert(connection, piece)
    connection.close()
    return added + len(piece)


def _insert(connection: apsw.Connection, piece: list[tuple[Any, ...]]) -> None:
    with connection:
        connection.executemany(rows.INSERT_EVENT, piece)


class Watch:
    """CPU time and wall time of a block, in seconds."""

    def __enter__(self) -> Watch:
        self._cpu, self._wall = process_time(), perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu, self.wall = process_time() - self._cpu, perf_counter() - self._wall


def measure(folder: Path, entries: int) -> dict[str, float]:
    """Make a ledger, and measure each step once; a scrape three times, and the best counts."""
    path, kept = folder / "ledger.db", folder / "kept.json"
    store = open_sqlite_store(f"sqlite:///{path}")
    total = fill(path, entries)

    def reader() -> LedgerMetrics:
        return LedgerMetrics(store, lambda: 1_800_000_000_000_000, checkpoint=kept)

    first = reader()
    with Watch() as fold:
        first.refresh()
    with Watch() as save:
        first.save(now=True)
    second = reader()
    with Watch() as start:
        second.refresh()
    scrapes: list[tuple[float, float]] = []
    added, per_action, text = total, len(templates()[0]), ""
    for _ in range(3):
        added += fill(path, NEW_ACTIONS * per_action, added, added)
        with Watch() as scrape:
            text = exposition(second.families())
        scrapes.append((scrape.cpu, scrape.wall))
    with Watch() as idle:
        exposition(second.families())
    served_ms = served(second, lambda: fill(path, NEW_ACTIONS * per_action, added, added))
    sample = [entry.envelope for _, entry in zip(range(PIECE), store.scan(), strict=False)]
    with Watch() as plain:
        for envelope in sample:
            json.loads(envelope)
    store.close()
    return {
        "entries": total,
        "plain_json_per_s": len(sample) / plain.cpu,
        "fold_per_s": total / fold.cpu,
        "fold_per_s_wall": total / fold.wall,
        "checkpoint_ms": save.cpu * 1e3,
        "checkpoint_bytes": kept.stat().st_size,
        "start_ms": start.cpu * 1e3,
        "scrape_ms": min(cpu for cpu, _ in scrapes) * 1e3,
        "scrape_ms_wall": min(wall for _, wall in scrapes) * 1e3,
        "scrape_new_entries": NEW_ACTIONS * per_action,
        "served_scrape_ms_wall": served_ms,
        "idle_scrape_ms": idle.cpu * 1e3,
        "scrape_bytes": len(text),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def served(reader: LedgerMetrics, append: Callable[[], object]) -> float:
    """Return the wall time of a scrape over HTTP, in milliseconds, after new actions and the server's next fold."""
    server = MetricsServer(reader, lambda: (True, {}), port=0)
    try:
        server.wait_ready(60)
        append()
        server.wait_folded(60)
        with Watch() as scrape, urllib.request.urlopen(f"http://{server.host}:{server.port}/metrics") as answer:
            answer.read()
    finally:
        server.close()
    return scrape.wall * 1e3


def main(arguments: list[str]) -> int:
    """Print the figures. Exit code 1 where a figure misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="readback-bench-") as folder:
        found = measure(Path(folder), asked.entries)
    if asked.json:
        print(json.dumps(found, indent=1))
    else:
        for name, value in found.items():
            print(f"{name:20} {value:>14,.1f}")
    scrapes = found["scrape_ms"], found["served_scrape_ms_wall"]
    return 0 if found["fold_per_s"] >= FOLD_MIN_PER_S and max(scrapes) <= SCRAPE_MAX_MS else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
