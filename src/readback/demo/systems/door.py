"""The order service's HTTP door: `python -m readback.demo.systems.door --db PATH`.

Runs as a process of its own, prints one JSON line with its ports, and ends with its stdin.

Mutations are the `ROUTES` of `orders_rules`. Reads, all scoped by the header `X-Tenant`:

    GET /{resource}/{id}            the primary           GET /{resource}?column=value   a complete list
    GET /replica/{resource}/{id}    lags, in commit order GET /cache/{resource}/{id}     lags, entry by entry
    GET /search?stamp=S             every change under a stamp; X-Tenant: * looks at all tenants
    GET /keys/{key}                 the result of the request with this Idempotency-Key
"""

from __future__ import annotations

import argparse
import json
import select
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from readback.demo.systems.faults import (
    FaultBook,
    QuietHandler,
    QuietServer,
    announce,
    live_until_stdin_closes,
    now_us,
    open_admin,
)
from readback.demo.systems.rules import ROUTES, Refusal, seed
from readback.demo.systems.service import FAULTS, HOLD, READ_FAULTS, Reply, Service
from readback.demo.systems.store import TABLES, TENANTS, Row, Store

HEADERS = ("X-Tenant", "X-Actor", "X-Stamp", "Idempotency-Key", "If-Match")
NOT_FOUND = Refusal(404, "not_found", "no such thing here")


def read(service: Service, tenant: str, path: str, query: dict[str, str]) -> Reply:
    """Answer one GET after the tenant check."""
    store = service.store
    source, resource, row_id, row = "primary", "", "", None
    position = store.position()
    match path.strip("/").split("/"):
        case ["search"]:
            scope = None if tenant == "*" else tenant
            return Reply(200, {"changes": store.search(scope, query.get("stamp", "")), "complete": True})
        case ["keys", key]:
            if (known := store.key(tenant, key)) is None:
                raise Refusal(404, "not_found", f"no request with the key {key}")
            return Reply(200, {name: known[name] for name in ("key", "status", "code", "answer", "at_us")})
        case [resource] if resource in TABLES:
            return Reply(200, {"items": store.select(tenant, resource, query), "complete": True})
        case [resource, row_id] if resource in TABLES:
            row = store.get(tenant, resource, row_id)
        case ["replica", resource, row_id] if resource in TABLES:
            source, (row, position) = "replica", store.replica(tenant, resource, row_id)
        case ["cache", resource, row_id] if resource in TABLES:
            source, row = "cache", store.cache(tenant, resource, row_id)
        case _:
            raise NOT_FOUND
    headers = {"X-Source": source}
    if source != "cache":  # a cache does not know how old it is
        headers["X-Commit"] = str(position)
    if source == "primary":
        headers["X-As-Of-Us"] = str(now_us())
    if row is None:
        return Reply(404, {"error": "not_found", "message": f"no {resource} {row_id} here"}, headers)
    return Reply(200, row, {**headers, "ETag": f'"{row["version"]}"'})


def hold_until_gone(connection: socket.socket, seconds: float) -> None:
    """Send nothing until the client disconnects, or `seconds` have passed."""
    readable, _, _ = select.select([connection], [], [], seconds)
    if readable:
        try:
            connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return


def handler_for(service: Service) -> type[QuietHandler]:
    """The request handler class of this service."""

    class Door(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802  # the base class's name
            self._reply(self._guarded(self._read))

        def do_POST(self) -> None:  # noqa: N802
            self._reply(self._guarded(self._mutate))

        do_PATCH = do_DELETE = do_POST  # noqa: N815

        def _guarded(self, work: Callable[[], Reply]) -> Reply:
            try:
                return work()
            except Refusal as refusal:
                return Reply(refusal.code, refusal.body)
            except KeyError as missing:
                return Reply(400, {"error": "bad_request", "message": str(missing)})

        def _tenant(self, *, all_allowed: bool = False) -> str:
            tenant = self.headers.get("X-Tenant")
            if not tenant:
                raise Refusal(400, "bad_request", "the header X-Tenant is missing")
            if tenant not in TENANTS and not (all_allowed and tenant == "*"):
                raise Refusal(403, "forbidden", f"no access to the tenant {tenant}")
            return tenant

        def _read(self) -> Reply:
            url = urlsplit(self.path)
            tenant = self._tenant(all_allowed=url.path == "/search")
            seen = {"method": "GET", "path": url.path, "tenant": tenant}
            if rule := service.book.take(seen, READ_FAULTS):
                if rule.fault == "timeout_before":
                    return HOLD
                service.begin_outage(rule.params.get("ms"), int(rule.params.get("code", 503)))
            if (code := service.outage()) is not None:
                return Reply(code, {"error": "unavailable", "message": "reads are down"})
            return read(service, tenant, unquote(url.path), dict(parse_qsl(url.query)))

        def _mutate(self) -> Reply:
            raw = self.body_bytes()  # first, or the connection is out of step after a refusal
            self._tenant()
            path = unquote(urlsplit(self.path).path)
            for route in ROUTES:
                if route.method == self.command and (found := route.pattern.match(path)):
                    target = found.groupdict().get("id", "")
                    headers = {name: value for name in HEADERS if (value := self.headers.get(name))}
                    return service.mutate(route, target, headers, self._json(raw), path)
            raise NOT_FOUND

        def _json(self, raw: bytes) -> Row:
            try:
                body = json.loads(raw or b"{}")
            except ValueError:
                body = None
            if not isinstance(body, dict):
                raise Refusal(400, "bad_request", "the body must be a JSON object")
            return body

        def _reply(self, reply: Reply) -> None:
            if reply.hold:
                hold_until_gone(self.connection, service.settings["hold_ms"] / 1_000)
                self.close_connection = True
            else:
                self.answer(reply.code, reply.body, reply.headers)

    return Door


def main() -> None:
    parser = argparse.ArgumentParser(description="An order service that lies on demand.")
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    fresh = not options.db.exists()
    store = Store(options.db)
    if fresh:
        seed(store)
    book = FaultBook(frozenset(FAULTS))
    settings = {"capture_ms": 250, "replica_lag_ms": 0, "cache_lag_ms": 0, "hold_ms": 30_000}
    service = Service(store, book, settings)
    server = QuietServer(handler_for(service), options.port)
    announce(port=server.serve_in_background(), admin_port=open_admin(book, settings, service.recover))
    live_until_stdin_closes(store.close)


if __name__ == "__main__":
    main()
