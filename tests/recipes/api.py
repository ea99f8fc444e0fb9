"""A real HTTP service in a thread: orders with versions and a receiver of webhooks, which lie when told to."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

FAULTS = frozenset(
    {
        "lost", "late", "partial", "twice", "unanswered", "elsewhere", "wrong_type", "refused_landed", "refused",
        "stale", "down", "hidden",
    }
)  # fmt: skip
"""What becomes of the next write: answered and not done; done at the next reading but two; done in part; done twice;
done and the connection cut; done to another; done with a text for a number; done and refused; refused. `stale`, `down`
and `hidden` are for readings, until `honest`: an old answer with its age, none at all, and a 403."""


@dataclass
class Service:
    """What there is, and what is true. Guarded by one lock: each request is answered whole."""

    orders: dict[str, dict[str, Any]] = field(default_factory=dict)
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    """What the server gives ids of its own."""
    keys: dict[str, str] = field(default_factory=dict)
    fault: str = ""
    reading: str = ""
    stale_left: int = 1_000
    """So many readings more are old ones."""
    port: int = 0
    conditions: list[str] = field(default_factory=list)
    _late: list[tuple[int, Any]] = field(default_factory=list)
    _old: Service | None = None
    """The state before the first write since readings became stale; none of the writes shows in it."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def honest(self) -> None:
        with self.lock:
            self.fault = self.reading = ""
            self._old = None
            self.stale_left = 1_000
            self._late.clear()

    def order(self, key: str, **fields: Any) -> None:
        with self.lock:
            self.orders[key] = {"id": key, "tenant": "acme", "version": 1, "stamp": "", **fields}

    # --- requests ---

    def ask(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any, dict[str, str]]:
        with self.lock:
            self._ripen()
            if self.reading == "down":
                return 503, {}, {}
            if self.reading == "hidden":
                return 403, {}, {}
            if self.reading == "stale" and self.stale_left > 0:
                self.stale_left -= 1
                status, body, headers = (self._old or self)._shown(path, query)
                return status, body, {**headers, "Age": "60"}
            return self._shown(path, query)

    def _shown(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any, dict[str, str]]:
        _, room, *rest = path.split("/")
        if room == "orders" and rest:
            order = self.orders.get(rest[0])
            return (404, {}, {}) if order is None else (200, order, {"ETag": f'"{order["version"]}"'})
        if room == "notes":
            asked = query.get("reference", [""])[0]
            return 200, {"items": [one for one in self.notes if not asked or one["reference"] == asked]}, {}
        if room == "orders":
            stamp = query.get("stamp", [""])[0]
            return 200, {"items": [o for o in self.orders.values() if not stamp or o["stamp"] == stamp]}, {}
        if room == "deliveries" and rest:
            found = [each for each in self.deliveries if each["delivery"] == rest[0]]
            return (200, found[0], {}) if found else (404, {}, {})
        if room == "deliveries":
            wanted = query.get("delivery", [""])[0]
            return 200, {"items": [each for each in self.deliveries if each["delivery"] == wanted]}, {}
        return (200, {}, {}) if room == "health" else (404, {}, {})

    def act(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any] | None:
        """The answer, or None for a connection that is cut."""
        with self.lock:
            fault, self.fault = self.fault, ""
            if self.reading == "stale" and self._old is None:
                self._old = Service(deepcopy(self.orders), deepcopy(self.deliveries))
            if fault == "refused":
                return 422, {"error": "no"}
            if fault == "lost":
                return 202, {"status": "accepted"}
            if fault == "late":
                self._late.append((3, lambda: self._do(method, path, headers, body, "")))
                return 202, {"status": "accepted"}
            said = self._do(method, path, headers, body, fault)
            if fault == "unanswered":
                return None
            return (500, {"error": "failed"}) if fault == "refused_landed" else said

    def _ripen(self) -> None:
        self._late = [(left - 1, do) for left, do in self._late]
        for _, do in [each for each in self._late if each[0] <= 0]:
            do()
        self._late = [each for each in self._late if each[0] > 0]

    def _do(self, method: str, path: str, headers: dict[str, str], body: bytes, fault: str) -> tuple[int, Any]:
        if path == "/hook":
            return self._received(headers, body, fault)
        given = json.loads(body)
        if method == "POST" and path == "/notes":
            for _ in range(2 if fault == "twice" else 1):
                made = {"id": 1_000 + len(self.notes), "tenant": "acme", **_spoiled(given, fault)}
                self.notes.append({**made, "reference": given["reference"]})
            return 201, self.notes[-1]
        if method == "POST":
            return self._created(headers.get("idempotency-key", ""), given, fault)
        key = path.rpartition("/")[2] + ("-other" if fault == "elsewhere" else "")
        order = self.orders.get(key)
        if order is None:
            return 404, {"error": "not found"}
        condition = headers.get("if-match")
        self.conditions.append(str(condition))
        if condition != f'"{order["version"]}"' and fault != "elsewhere":
            return 412, {"error": "changed since"}
        order.update(_spoiled(given, fault), version=order["version"] + 1)
        return 200, order

    def _created(self, key: str, given: dict[str, Any], fault: str) -> tuple[int, Any]:
        if key in self.keys and fault != "twice":
            return 200, self.orders[self.keys[key]]
        made = {"tenant": "acme", "version": 1, **_spoiled(given, fault)}
        if fault == "elsewhere":
            made["id"] += "-other"
        self.orders[made["id"]] = made
        self.keys[key] = made["id"]
        if fault == "twice":
            self.orders[made["id"] + " again"] = dict(made)
        return 201, made

    def _received(self, headers: dict[str, str], body: bytes, fault: str) -> tuple[int, Any]:
        given = json.loads(body)
        whole = body[:-1] if fault == "partial" else body
        receipt = {
            "delivery": given["delivery"], "event": given["event"], "status": "processed",
            "sha256": sha256(whole).hexdigest(), "header": headers.get("x-readback-delivery", ""),
        }  # fmt: skip
        if fault == "elsewhere":
            receipt["event"] = "another"
        self.deliveries += [receipt, dict(receipt)] if fault == "twice" else [receipt]
        return 200, {"ok": True}


def _spoiled(given: dict[str, Any], fault: str) -> dict[str, Any]:
    if fault == "partial":
        return {name: value for name, value in given.items() if name != "note"}
    if fault == "wrong_type":
        return {name: str(value) if isinstance(value, int) else value for name, value in given.items()}
    return given


class _Server(ThreadingHTTPServer):
    service: Service

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news; anything else is."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _ask(self) -> None:
        parts = urlsplit(self.path)
        status, body, headers = self.server.service.ask(parts.path, parse_qs(parts.query))
        self._say(status, body, headers)

    def _act(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        said = self.server.service.act(self.command, self.path, headers, body)
        if said is None:
            self.close_connection = True
            return
        self._say(said[0], said[1], {})

    def _say(self, status: int, body: object, headers: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response_only(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = _ask  # noqa: N815 - the base class's names
    do_POST = do_PUT = do_PATCH = _act  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
        """Requests are not worth a line."""


@contextmanager
def serving() -> Iterator[Service]:
    """The service on a free port of this machine; when this ends, no thread of it is left."""
    service = Service()
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = False
        server.service = service
        service.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()
