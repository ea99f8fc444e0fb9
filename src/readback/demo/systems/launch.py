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
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from readback.demo.systems.faults import LOOPBACK
from readback.demo.systems.truth import TripBooks, Truth, trip_books

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 2.0
PROGRAMS = {"orders": ("door", "orders", "--db"), "mail": ("mail", "--root"), "trip": ("door", "trip", "--db")}
"""The module and the arguments of each system, before its place."""


class SystemsError(RuntimeError):
    """A system did not start, or refused an order."""


@dataclass(slots=True)
class _Running:
    """One started process, and its addresses."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    ready: dict[str, Any] = field(default_factory=dict)

    def ask(self, **order: object) -> dict[str, Any]:
        """Send an order, and return the answer."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # a process that has ended gives no answer
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
        answer = self.heard()
        if "error" in answer:
            raise SystemsError(f"{self.name} refused {order}: {answer['error']}")
        return answer

    def heard(self) -> dict[str, Any]:
        """The next JSON line of the process."""
        stdout = self.process.stdout
        assert stdout is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        line = b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(stdout.fileno(), 4096) if readable else b""
            if not piece:
                tail = self.log.read_text(errors="replace")[-2_000:]
                raise SystemsError(f"{self.name} did not start, or has ended: {tail.strip() or 'no word from it'}")
            line += piece
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """Wait, then terminate, then kill."""
        for insist in (self.process.poll, self.process.terminate, self.process.kill):
            insist()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_TIMEOUT_S)
                break
        if self.process.stdout:
            self.process.stdout.close()


class Systems:
    """The order service, the mail server, the trip's providers and a work folder, from `__enter__` to `__exit__`.

    All files are under `root`: a new temporary folder, or a given folder, kept afterwards. `only` names the systems to
    start (default: all).
    """

    def __init__(self, root: Path | None = None, *, only: Collection[str] = tuple(PROGRAMS)) -> None:
        self._given, self._only = root, frozenset(only)
        self._running: dict[str, _Running] = {}
        self.root = Path()

    def __enter__(self) -> Self:
        self.root = self._given or Path(tempfile.mkdtemp(prefix="readback-demo-"))
        self.work.mkdir(parents=True, exist_ok=True)
        places = {"orders": self.db_path, "mail": self.mail_root, "trip": self.trip_db}
        try:
            # All first, then all answers: they start side by side.
            for name in PROGRAMS:
                if name in self._only:
                    self._running[name] = self._start(name, str(places[name]))
            for running in self._running.values():
                running.ready = running.heard()
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
            running.stop()
        self._running.clear()
        if self._given is None and self.root != Path():
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
    def trip_db(self) -> Path:
        """The providers' SQLite file: the system of record of a trip, open to other readers."""
        return self.root / "trip.db"

    @property
    def mail_root(self) -> Path:
        return self.root / "mail"

    @property
    def orders_url(self) -> str:
        return self._url("orders", "port")

    @property
    def trip_url(self) -> str:
        """The providers' address for changes."""
        return self._url("trip", "port")

    @property
    def trip_records_url(self) -> str:
        """The providers' address for reads."""
        return self._url("trip", "read_port")

    @property
    def smtp(self) -> tuple[str, int]:
        return LOOPBACK, int(self._system("mail").ready["smtp_port"])

    @property
    def imap(self) -> tuple[str, int]:
        return LOOPBACK, int(self._system("mail").ready["imap_port"])

    @property
    def mailboxes(self) -> list[str]:
        """The addresses with a mailbox. Each address is also the IMAP user's name."""
        return list(self._system("mail").ready["mailboxes"])

    @property
    def mail_password(self) -> str:
        return str(self._system("mail").ready["password"])

    @property
    def addresses(self) -> dict[str, Any]:
        """The addresses of the shop's systems, in a form for another process, and the place of a file beside them."""
        mail = self._system("mail").ready
        return {
            "orders_url": self.orders_url,
            "orders_db": str(self.db_path),
            "smtp": self.smtp,
            "imap": self.imap,
            "mailboxes": mail["mailboxes"],
            "mail_password": mail["password"],
            "work": str(self.work),
            "overheard": str(self.root / "overheard.jsonl"),
        }

    @property
    def pids(self) -> dict[str, int]:
        return {name: running.process.pid for name, running in self._running.items()}

    # ---- what is true, and faults

    @property
    def truth(self) -> Truth:
        """The truth, from the systems' own files."""
        return Truth(self.db_path, self.mail_root, self.work)

    def trip_truth(self, trip: str) -> TripBooks:
        """The truth of a trip, from the providers' own file."""
        return trip_books(self.trip_db, trip)

    def trip_busy(self) -> int:
        """The number of open connections for changes to the providers plus pending effects. 0 means idle."""
        return int(self._system("trip").ask(order="busy")["busy"])

    def fault(
        self, name: str, *, system: str = "orders", match: dict[str, str] | None = None, times: int = 1, **params: Any
    ) -> None:
        """Order a fault for the next `times` requests matching `match` (-1: unlimited).

        Raises `SystemsError` for an unknown fault.
        """
        self._system(system).ask(order="fault", fault=name, match=match or {}, times=times, params=params)

    def clear_faults(self) -> None:
        for running in self._running.values():
            running.ask(order="clear")

    # ---- processes

    def _start(self, name: str, place: str) -> _Running:
        log = self.root / f"{name}.log"
        module, *arguments = PROGRAMS[name]
        paths = [str(Path(__file__).resolve().parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", f"readback.demo.systems.{module}", *arguments, place],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                start_new_session=True,  # Ctrl-C is ours to handle; they end when we do
            )
        return _Running(name, process, log)

    def _system(self, name: str) -> _Running:
        if name not in self._running:
            raise SystemsError(f"{name} is not running; use `with Systems() as systems:`")
        return self._running[name]

    def _url(self, name: str, port: str) -> str:
        return f"http://{LOOPBACK}:{self._system(name).ready[port]}"
