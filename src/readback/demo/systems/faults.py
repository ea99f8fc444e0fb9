"""Faults on demand, and a small admin port for ordering them.

Each system owns one `FaultBook`. The demo writes rules through the admin port, and the system looks for a matching rule
for every request. The system alone knows the meaning of a fault.
"""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import json
import os
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOOPBACK = "127.0.0.1"


def now_us() -> int:
    """Wall-clock time in microseconds since the epoch. The systems run in real time."""
    return time.time_ns() // 1_000


@dataclass(slots=True)
class Rule:
    """One ordered fault: matching requests, fault, and number of uses (`times` -1: unlimited)."""

    id: int
    fault: str
    match: dict[str, str]
    times: int
    skip: int
    params: dict[str, Any]
    hits: int = field(default=0)

    def fits(self, request: Mapping[str, str]) -> bool:
        """True if every field of `match` has its value; `*` and `?` are wildcards."""
        return all(fnmatch.fnmatchcase(request.get(name, ""), glob) for name, glob in self.match.items())

    def public(self) -> dict[str, Any]:
        return {"id": self.id, "fault": self.fault, "match": self.match, "left": self.times,
                "hits": self.hits, **self.params}  # fmt: skip

    def ms(self, name: str, default: int) -> float:
        """A millisecond parameter as seconds."""
        return float(self.params.get(name, default)) / 1_000


class FaultBook:
    """The active rules, in order. Safe to use from several threads."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._rules: list[Rule] = []
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def add(self, order: Mapping[str, Any]) -> Rule:
        """Add a rule from JSON. Raises `ValueError` for a fault unknown to this system."""
        name = order.get("fault")
        if name not in self._names:
            raise ValueError(f"unknown fault {name!r}; this system knows {sorted(self._names)}")
        params = {k: v for k, v in order.items() if k not in ("fault", "match", "times", "skip")}
        match = {k: str(v) for k, v in dict(order.get("match", {})).items()}
        times, skip = int(order.get("times", 1)), int(order.get("skip", 0))
        rule = Rule(next(self._ids), name, match, times, skip, params)
        with self._lock:
            self._rules.append(rule)
        return rule

    def take(self, request: Mapping[str, str], among: frozenset[str] | None = None) -> Rule | None:
        """The first matching rule, counted as used, or None for an honest answer."""
        with self._lock:
            for rule in self._rules:
                if rule.times == 0 or not rule.fits(request):
                    continue
                if among is not None and rule.fault not in among:
                    continue
                if rule.skip > 0:
                    rule.skip -= 1
                    continue
                rule.times -= 1 if rule.times > 0 else 0
                rule.hits += 1
                return rule
        return None

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def public(self) -> list[dict[str, Any]]:
        with self._lock:
            return [rule.public() for rule in self._rules]


class QuietHandler(BaseHTTPRequestHandler):
    """JSON in and out, kept-alive connections, one write an answer, and no access log."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        return

    def body_bytes(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, code: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        """Send `body`: text as text/plain, anything else as JSON."""
        kind = "text/plain" if isinstance(body, str) else "application/json"
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(raw)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)


class QuietServer(ThreadingHTTPServer):
    """A loopback HTTP server on a free port. Open connections never keep the process alive."""

    daemon_threads = True
    request_queue_size = 128  # simultaneous connections wait and are not refused

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        super().__init__((LOOPBACK, port), handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which looks up this machine's name and can take seconds over it.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        # A client that hangs up in the middle is the point of some faults, and no news.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def serve_in_background(self) -> int:
        """Start serving, and return the port."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self.server_port


def open_admin(book: FaultBook, settings: dict[str, int], recover: Callable[[], None]) -> int:
    """Open the admin port and return its number. `recover` ends lasting effects of faults.

    `POST /admin/fault` orders a fault, `POST /admin/clear` removes all, `GET /admin/faults` lists faults with hits,
    `POST /admin/settings` changes existing numbers in `settings`.
    """

    class Admin(QuietHandler):
        def do_GET(self) -> None:
            self.answer(200, {"faults": book.public(), "settings": settings})

        def do_POST(self) -> None:
            order = json.loads(self.body_bytes() or b"{}")
            try:
                match self.path:
                    case "/admin/fault":
                        self.answer(201, book.add(order).public())
                    case "/admin/clear":
                        book.clear()
                        recover()
                        self.answer(200, {"status": "ok"})
                    case "/admin/settings" if order.keys() <= settings.keys():
                        settings.update({name: int(value) for name, value in order.items()})
                        self.answer(200, settings)
                    case _:
                        self.answer(404, {"error": f"no such order: {self.path} {sorted(order)}"})
            except ValueError as error:
                self.answer(422, {"error": str(error)})

    return QuietServer(Admin).serve_in_background()


def announce(**addresses: object) -> None:
    """Report readiness and addresses to the parent process in one JSON line."""
    print(json.dumps({"ready": True, "pid": os.getpid(), **addresses}), flush=True)


def live_until_stdin_closes(on_end: Callable[[], None]) -> None:
    """Block until the parent closes stdin or dies, so that no system outlives its parent."""
    with contextlib.suppress(KeyboardInterrupt):
        while sys.stdin.buffer.read(4096):
            pass
    on_end()
    os._exit(0)  # held connections and delayed effects end with the process, as in a power cut
