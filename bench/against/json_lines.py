"""A ledger as many write it by hand: a line of JSON before the tool, a line behind the reading, each with its fsync.

One file, opened for appending; a line is one write, so that lines of several threads do not mix. Nothing is locked: the
kernel lets writers that wait for the disk at the same time share it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time_ns
from typing import Any

from bench.against.slices import Sync, serve_threads, sqlite_path
from bench.against.work import NotShippedError, Orders, shipped


@contextmanager
def opened(url: str, orders: Orders) -> Iterator[Sync]:
    path = Path(sqlite_path(url))
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def append(line: dict[str, Any]) -> None:
        os.write(file, json.dumps(line).encode() + b"\n")
        os.fsync(file)

    def finish(name: str) -> None:
        found = orders.look(name)
        verified = shipped(found, name)
        append({"event": "result", "order": name, "verified": verified, "found": found, "at": time_ns()})
        if not verified:
            raise NotShippedError(name)

    def act(name: str) -> None:
        append({"event": "attempt", "order": name, "thread": threading.get_ident(), "at": time_ns()})
        orders.ship(name)
        finish(name)

    def recover(name: str) -> None:
        """What has an attempt and no result is read back: the tool is not called again."""
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        ended = {line["order"] for line in lines if line["event"] == "result"}
        for line in lines:
            if line["event"] == "attempt" and line["order"] not in ended:
                finish(line["order"])

    try:
        yield Sync(act, recover, {"fsync": "after each line"})
    finally:
        os.close(file)


if __name__ == "__main__":
    serve_threads(opened)
