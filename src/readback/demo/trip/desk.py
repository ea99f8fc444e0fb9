"""The travel agent's connections: what acts on the providers, and, apart from it, what reads their books.

Opened once by whoever runs the contracts of a trip (the chapter, and the crash tests in processes of their own), and
used inside them. Executors and sources are the built-in ones, and share no client and no port.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from readback.demo.desk import AGENT, TENANT, TOOL_TIMEOUT_S
from readback.systems import HttpExecutor, HttpSource, SqlSource

BOOKS: Final = ("flights", "hotel", "car", "payments", "tickets")


class TripDesk:
    """All connections to the providers; open between `open` and `close`."""

    providers: HttpExecutor
    """Acts: one door for all five, with our key and our stamp in the headers of each request."""
    records: HttpSource
    """Reads the providers' own records, at another door and by a client of its own."""
    files: dict[str, SqlSource]
    """Reads the books behind the providers, of all tenants, whatever either door says."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def open(self, act_url: str, read_url: str, folder: Path, *, timeout_s: float = TOOL_TIMEOUT_S) -> None:
        """Connects to providers that are running. Nothing is sent yet. `timeout_s`: how long tools wait."""
        ours, enter = {"X-Tenant": TENANT}, self._stack.enter_context
        acting = {**ours, "X-Actor": AGENT}
        self.providers = enter(HttpExecutor(act_url, name="providers", headers=acting, timeout_s=timeout_s))
        self.records = enter(HttpSource("provider-records", read_url, headers=ours, timeout_s=2.0))
        self.files = {name: SqlSource(f"{name}-book", _opens(folder / f"{name}.db")) for name in BOOKS}

    def close(self) -> None:
        """Closes the connections."""
        self._stack.close()


def _opens(path: Path) -> Callable[[], sqlite3.Connection]:
    return lambda: sqlite3.connect(path, timeout=5, check_same_thread=False)


trip_desk = TripDesk()
"""The one travel desk of this process."""
