"""The travel agent's connections: clients that act on the providers, and separate clients that read their books.

The chapter opens the desk once, and so do the crash tests in their own processes. Executors and sources are the
built-in classes, and share no client and no port.
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
    """All connections to the providers, between `open` and `close`."""

    providers: HttpExecutor
    """Acts on all five providers, with our key and our stamp in the headers of each request."""
    records: HttpSource
    """Reads the providers' records, on another port and through a client of its own."""
    files: dict[str, SqlSource]
    """Reads the books behind the providers, for all tenants, independent of both doors."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def open(self, act_url: str, read_url: str, folder: Path, *, timeout_s: float = TOOL_TIMEOUT_S) -> None:
        """Connect to running providers. Nothing is sent yet. `timeout_s`: time limit of tools, in seconds."""
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
"""The only travel desk of this process."""
