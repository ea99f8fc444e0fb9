"""The floor on SQLite: the rows that Readback writes for an action, copied by a program that does nothing else.

The same tables, the same indexes, two commits for as many actions as are in flight; no tool, no reading, no judgement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.against.slices import Batched, serve_batches, sqlite_path
from readback import bootstrap
from readback.bench.floor import Floor
from readback.bench.measure import capture


@contextmanager
def opened(url: str) -> Iterator[Batched]:
    path = Path(sqlite_path(url))
    appends = capture(path.parent, "rows")
    bootstrap.store(url).close()  # the tables of a real ledger
    floor = Floor(path, appends)
    try:
        yield Batched(floor.write, floor.settings())
    finally:
        floor.close()


if __name__ == "__main__":
    serve_batches(opened)
