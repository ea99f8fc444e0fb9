"""Start the demo's systems, each in a process of its own, and leave nothing behind.

Usage: `with Systems() as systems: ...`. The module provides addresses, orders faults, and reports the truth. The module
never acts on the systems.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from readback.demo.systems.trip_truth import TripBooks, books
from readback.demo.systems.truth import Truth

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 2.0
HOST = "127.0.0.1"
PACKAGE = "readback.demo.systems"


class SystemsError(RuntimeError):
    """A system did not start, or refused an order."""


@dataclass(slots=True)
class _Running:
    """One started process and its announcement."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    ready: dict[str, Any]


class Systems:
    """The order service, the mail server, the trip's providers and a work folder, from `__enter__` to `__exit__`.

    All files are under `root`: a new temporary folder, or a given folder, kept afterwards. `only` names the systems to
    start (default: all).
    """

    def __init__(self, root: Path | None = None, *, only: Collection[str] = ("orders", "mail", "trip")) -> None:
        self._keep = root is not None
        self._only = frozenset(only)
        self._given = root
        self._running: dict[str, _Running] = {}
        self.root = Path()

    def __enter__(self) -> Self:
        self.root = self._given or Path(tempfile.mkdtemp(prefix="readback-demo-"))
        self.work.mkdir(parents=True, exist_ok=True)
        try:
            # All first, then all answers: they start side by side.
            orders = {
                "orders": ("--db", str(self.db_path)),
                "mail": ("--root", str(self.mail_root)),
                "trip": ("--folder", str(self.trip_books)),
            }
            for name, arguments in orders.items():
                if name in self._only:
                    self._start(name, *arguments)
            for running in self._running.values():
                running.ready = _await_ready(running)
        except BaseException:  # Ctrl-C too
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop every process and remove the temporary folder. May be called twice."""
        for running in self._running.values():
            if running.process.stdin:
                with contextlib.suppress(OSError):
                    running.process.stdin.close()  # they end by themselves on that
        for running in self._running.values():
            _stop(running.process)
        self._running.clear()
        if not self._keep and self.root != Path():
            shutil.rmtree(self.root, ignore_errors=True)

    # ---- where things are

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def db_path(self) -> Path:
        """The order service's SQLite file: the system of record of orders, open to other readers."""
        return self.root / "orders.db"

    @property
    def mail_root(self) -> Path:
        return self.root / "mail"

    @property
    def orders_url(self) -> str:
        return f"http://{HOST}:{self._ready('orders')['port']}"

    @property
    def smtp(self) -> tuple[str, int]:
        return HOST, int(self._ready("mail")["smtp_port"])

    @property
    def imap(self) -> tuple[str, int]:
        return HOST, int(self._ready("mail")["imap_port"])

    @property
    def trip_books(self) -> Path:
        """The folder of the five providers' SQLite files: the systems of record of a trip, open to other readers."""
        return self.root / "trip"

    @property
    def trip_url(self) -> str:
        """The providers' address for changes."""
        return f"http://{HOST}:{self._ready('trip')['port']}"

    @property
    def trip_records_url(self) -> str:
        """The providers' address for reads."""
        return f"http://{HOST}:{self._ready('trip')['read_port']}"

    @property
    def mailboxes(self) -> list[str]:
        """The addresses with a mailbox. Each address is also the IMAP user's name."""
        return list(self._ready("mail")["mailboxes"])

    @property
    def mail_password(self) -> str:
        return str(self._ready("mail")["password"])

    @property
    def pids(self) -> dict[str, int]:
        return {name: running.process.pid for name, running in self._running.items()}

    def trip_truth(self, trip: str) -> TripBooks:
        """The truth of a trip, from the providers' own files."""
        return books(self.trip_books, trip)

    def trip_busy(self) -> int:
        """The number of open connections to the providers plus pending effects. 0 means idle."""
        with _DIRECT.open(f"{self.trip_url}/rest", timeout=5) as response:
            return int(json.load(response)["busy"])

    @property
    def truth(self) -> Truth:
        """The truth, from the systems' own files."""
        return Truth(self.db_path, self.mail_root, self.work)

    # ---- faults

    def fault(
        self,
        name: str,
        *,
        system: str = "orders",
        match: dict[str, str] | None = None,
        times: int = 1,
        skip: int = 0,
        **params: Any,
    ) -> int:
        """Order a fault for the next requests matching `match`, and return the rule's id.

        `times` -1 means unlimited. `skip`: honest requests first. Raises `SystemsError` for an unknown fault.
        """
        order = {"fault": name, "match": match or {}, "times": times, "skip": skip, **params}
        return int(self._admin(system, "/admin/fault", order)["id"])

    def clear_faults(self) -> None:
        for name in self._running:
            self._admin(name, "/admin/clear", {})

    def faults(self, system: str = "orders") -> list[dict[str, Any]]:
        """The active rules with their `hits`."""
        rules = self._admin(system, "/admin/faults", None)["faults"]
        return list(rules)

    def settings(self, system: str = "orders", **numbers: int) -> dict[str, int]:
        """Change a system's settings (`capture_ms`, `replica_lag_ms`, `cache_lag_ms`, `hold_ms`)."""
        return self._admin(system, "/admin/settings", dict(numbers))

    def _admin(self, system: str, path: str, order: dict[str, Any] | None) -> dict[str, Any]:
        url = f"http://{HOST}:{self._ready(system)['admin_port']}{path}"
        data = None if order is None else json.dumps(order).encode()
        try:
            with _DIRECT.open(urllib.request.Request(url, data), timeout=5) as response:
                answer: dict[str, Any] = json.load(response)
                return answer
        except urllib.error.HTTPError as error:
            with error:
                raise SystemsError(f"{system} refused {path}: {error.read().decode()}") from None

    # ---- processes

    def _start(self, name: str, *arguments: str) -> None:
        log = self.root / f"{name}.log"
        source = str(Path(__file__).resolve().parents[3])
        paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", f"{PACKAGE}.{'door' if name == 'orders' else name}", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                start_new_session=True,  # Ctrl-C is ours to handle; they end when we do
            )
        self._running[name] = _Running(name, process, log, {})

    def _ready(self, name: str) -> dict[str, Any]:
        if name not in self._running:
            raise SystemsError(f"{name} is not running; use `with Systems() as systems:`")
        return self._running[name].ready


# Loopback never goes through a proxy that the environment names.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _await_ready(running: _Running) -> dict[str, Any]:
    """Wait for a system's JSON line of readiness."""
    stdout = running.process.stdout
    assert stdout is not None
    deadline = time.monotonic() + START_TIMEOUT_S
    line = b""
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
        piece = os.read(stdout.fileno(), 4096) if readable else b""
        if not piece:
            tail = running.log.read_text(errors="replace")[-2_000:]
            raise SystemsError(f"{running.name} did not start: {tail.strip() or 'no word from it'}")
        line += piece
    ready: dict[str, Any] = json.loads(line)
    return ready


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Wait, then terminate, then kill."""
    for insist in (process.poll, process.terminate, process.kill):
        insist()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
            break
    if process.stdout:
        process.stdout.close()
