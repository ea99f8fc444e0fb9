"""A service's HTTP door: `python -m readback.demo.systems.door {orders|trip} --db PATH`.

Runs as a process of its own and ends with its stdin. Mutations are the `ROUTES` of `rules`. The header `X-Tenant`
scopes every request. Reads:

    GET /{table}/{id}           the primary             GET /{table}?column=value   a complete list
    GET /replica/{table}/{id}   lags, in commit order   GET /cache/{table}/{id}     a write-through cache
    GET /search?stamp=S         every change under a stamp; X-Tenant: * looks at all tenants
    GET /keys/{key}             the result of the request with this Idempotency-Key
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from readback.demo.systems.faults import HOLD_S, LOOPBACK, FaultBook, live, now_us
from readback.demo.systems.rules import ROUTES, Refusal, Route, seed
from readback.demo.systems.service import FAULTS, Reply, Service
from readback.demo.systems.store import SHOP, TENANTS, TRIP, Store

TABLES = {"orders": SHOP, "trip": TRIP}
HEADERS = ("X-Tenant", "X-Actor", "X-Stamp", "Idempotency-Key", "If-Match")
NOT_FOUND = Refusal(404, "not_found", "no such thing here")


def read(store: Store, tenant: str, path: str, query: dict[str, str]) -> Reply:
    """Answer one GET after the tenant check."""
    source, position = "primary", store.position()
    match path.strip("/").split("/"):
        case ["search"]:
            return Reply(200, {"changes": store.search(tenant, query.get("stamp", "")), "complete": True})
        case ["keys", key]:
            if (known := store.key(tenant, key)) is None:
                raise Refusal(404, "not_found", f"no request with the key {key}")
            return Reply(200, {name: known[name] for name in ("key", "status", "code", "answer", "at_us")})
        case [table] if table in store.tables:
            return Reply(200, {"items": store.select(tenant, table, query), "complete": True})
        case [table, row_id] if table in store.tables:
            row = store.get(tenant, table, row_id)
        case ["replica" as source, table, row_id] if table in store.tables:
            row, position = store.replica(tenant, table, row_id)
        case ["cache" as source, table, row_id] if table in store.tables:
            row = store.cache(tenant, table, row_id)
        case _:
            raise NOT_FOUND
    headers = {"X-Source": source}
    if source != "cache":  # a cache does not know how old it is
        headers["X-Commit"] = str(position)
    if source == "primary":
        headers["X-As-Of-Us"] = str(now_us())
    if row is None:
        return Reply(404, {"error": "not_found", "message": f"no {table} {row_id} here"}, headers)
    return Reply(200, row, {**headers, "ETag": f'"{row["version"]}"'})


class Door(BaseHTTPRequestHandler):
    """JSON in and out, kept-alive connections, one write an answer, and no access log."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024
    service: Service
    routes: tuple[Route, ...]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        return

    def do_GET(self) -> None:  # the base class's name
        self._guarded(self._read)

    def do_POST(self) -> None:
        self._guarded(self._mutate)

    do_PATCH = do_DELETE = do_POST  # noqa: N815

    def _guarded(self, work: Callable[[str, str, bytes], Reply]) -> None:
        url = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))  # first, to keep the connection in step
        try:
            tenant = self.headers.get("X-Tenant", "")
            if tenant not in TENANTS and (url.path, tenant) != ("/search", "*"):
                raise Refusal(403, "forbidden", f"no access to the tenant {tenant!r}")
            reply = work(tenant, unquote(url.path), raw)
        except Refusal as refusal:
            reply = Reply(refusal.code, refusal.body)
        except KeyError as missing:
            reply = Reply(400, {"error": "bad_request", "message": str(missing)})
        if reply.silence:
            self._say_nothing(HOLD_S if reply.silence == "hold" else 0)
        else:
            self._answer(reply)

    def _read(self, tenant: str, path: str, raw: bytes) -> Reply:
        seen = {"method": "GET", "path": path, "tenant": tenant}
        if rule := self.service.book.take(seen, "outage", "timeout_before"):
            if rule.fault == "timeout_before":
                return Reply(0, silence="hold")
            self.service.begin_outage(rule)
        if (code := self.service.outage()) is not None:
            return Reply(code, {"error": "unavailable", "message": "reads are down"})
        return read(self.service.store, tenant, path, dict(parse_qsl(urlsplit(self.path).query)))

    def _mutate(self, tenant: str, path: str, raw: bytes) -> Reply:
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise Refusal(400, "bad_request", "the body must be a JSON object")
        for route in self.routes:
            if (target := route.target(self.command, path)) is not None:
                headers = {name: value for name in HEADERS if (value := self.headers.get(name))}
                return self.service.mutate(route, target, headers, body, path)
        raise NOT_FOUND

    def _answer(self, reply: Reply) -> None:
        raw = json.dumps(reply.body).encode()
        self.send_response(reply.code)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", len(raw)), *reply.headers.items()):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(raw)

    def _say_nothing(self, seconds: float) -> None:
        """End the connection without an answer: when the client disconnects, or after `seconds`."""
        self.close_connection = True
        if seconds:
            select.select([self.connection], [], [], seconds)
        else:
            self.connection.shutdown(socket.SHUT_RDWR)


class Server(socketserver.ThreadingTCPServer):
    """A loopback server on a free port. Open connections never keep the process alive.

    `open` counts the connections. A dead client's request counts until processed.
    """

    daemon_threads = True
    request_queue_size = 128  # simultaneous connections wait and are not refused

    def __init__(self, door: type[Door]) -> None:
        super().__init__((LOOPBACK, 0), door)
        self.open = 0
        self._count = threading.Lock()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._count:
            self.open += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._count:
            self.open -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that hangs up in the middle is the point of some faults, and no news.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main() -> None:
    parser = argparse.ArgumentParser(description="A service that lies on demand.")
    parser.add_argument("name", choices=[*TABLES])
    parser.add_argument("--db", type=Path, required=True)
    options = parser.parse_args()
    fresh = not options.db.exists()
    store = Store(options.db, TABLES[options.name])
    if fresh and options.name == "orders":
        seed(store)
    book = FaultBook(*FAULTS)
    service = Door.service = Service(store, book)
    Door.routes = ROUTES[options.name]
    acting, reading = Server(Door), Server(Door)
    live(
        book, recover=service.recover, busy=lambda: acting.open + service.still_to_land, on_end=store.close,
        port=acting.server_address[1], read_port=reading.server_address[1],
    )  # fmt: skip


if __name__ == "__main__":
    main()
