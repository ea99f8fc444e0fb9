"""The providers' HTTP doors: `python -m readback.demo.systems.trip --folder PATH`.

Runs as a process of its own, prints one JSON line with its ports, and ends with its stdin. The header `X-Tenant` scopes
every request. Writes and reads use separate ports:

    POST /{book}                  makes an entry           GET /{book}/{id}            one entry
    POST /{book}/{id}/{undo}      takes it back            GET /{book}?column=value    a complete list
    GET  /rest                    pending work             GET /{book}/journal?stamp=S every change under a stamp
                                                           GET /keys/{book}/{key}      the result of a request
"""

from __future__ import annotations

import argparse
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
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
from readback.demo.systems.trip_books import TRADES, Book, Row
from readback.demo.systems.trip_service import FAULTS, TENANTS, Refusal, Reply, Service

HEADERS = ("X-Tenant", "X-Actor", "X-Stamp", "Idempotency-Key")
NOT_FOUND = Refusal(404, "not_found", "no such thing here")


class CountingServer(QuietServer):
    """Counts open connections. A dead client's request counts until processed."""

    def __init__(self, handler: type[QuietHandler]) -> None:
        super().__init__(handler)
        self.open = 0
        self._count = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._count:
            self.open += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._count:
            self.open -= 1


class Door(QuietHandler):
    """The common part of both doors: the tenant check, and refusals as answers."""

    service: Service

    def guarded(self, work: Callable[[str, list[str]], Reply]) -> None:
        raw_path = urlsplit(self.path).path
        try:
            tenant = self.headers.get("X-Tenant")
            if tenant not in TENANTS:
                raise Refusal(403, "forbidden", f"no access to the tenant {tenant}")
            reply = work(tenant, [unquote(part) for part in raw_path.strip("/").split("/")])
        except Refusal as refusal:
            reply = Reply(refusal.code, refusal.body)
        except KeyError as missing:
            reply = Reply(400, {"error": "bad_request", "message": str(missing)})
        if reply.cut:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.answer(reply.code, reply.body, reply.headers)


class WritingDoor(Door):
    """The door for changes."""

    def do_POST(self) -> None:  # noqa: N802  # the base class's name
        raw = self.body_bytes()  # first, or the connection is out of step after a refusal
        self.guarded(lambda tenant, path: self._mutate(path, raw))

    def do_GET(self) -> None:  # noqa: N802
        if self.path != "/rest":
            self.answer(404, NOT_FOUND.body)
            return
        assert isinstance(self.server, CountingServer)
        self.answer(200, {"busy": self.server.open - 1 + self.service.still_to_land})

    def _mutate(self, path: list[str], raw: bytes) -> Reply:
        name, entry_id = path[0], ""
        if name not in TRADES:
            raise NOT_FOUND
        match path[1:]:
            case []:
                pass
            case [entry_id, verb] if verb == TRADES[name].undo:
                pass
            case _:
                raise NOT_FOUND
        headers = {each: value for each in HEADERS if (value := self.headers.get(each))}
        return self.service.mutate(name, entry_id, headers, _object(raw))


class ReadingDoor(Door):
    """The door for reads: changes nothing, and has none of the other door's faults."""

    def do_GET(self) -> None:  # noqa: N802
        self.guarded(self._read)

    def _read(self, tenant: str, path: list[str]) -> Reply:
        query = dict(parse_qsl(urlsplit(self.path).query))
        headers = {"X-As-Of-Us": str(now_us())}
        match path:
            case ["keys", name, key] if name in TRADES:
                return _key(self.service.books[name], tenant, key)
            case [name] if name in TRADES:
                found = self.service.books[name].select(tenant, query)
                return Reply(200, {"items": found, "complete": True}, headers)
            case [name, "journal"] if name in TRADES:
                changes = self.service.books[name].journal(tenant, query.get("stamp", ""))
                return Reply(200, {"changes": changes, "complete": True}, headers)
            case [name, entry_id] if name in TRADES:
                if (row := self.service.books[name].get(tenant, entry_id)) is None:
                    raise NOT_FOUND
                return Reply(200, row, {**headers, "ETag": f'"{row["version"]}"'})
            case _:
                raise NOT_FOUND


def _key(book: Book, tenant: str, key: str) -> Reply:
    if (known := book.key(tenant, key)) is None:
        raise Refusal(404, "not_found", f"no request with the key {key}")
    return Reply(200, {name: known[name] for name in ("key", "status", "code", "answer", "at_us")})


def _object(raw: bytes) -> Row:
    try:
        body = json.loads(raw or b"{}")
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Refusal(400, "bad_request", "the body must be a JSON object")
    return body


def main() -> None:
    parser = argparse.ArgumentParser(description="Five travel providers that lie on demand.")
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    faults = FaultBook(frozenset(FAULTS))
    service = Service(options.folder, faults)
    Door.service = service
    writing, reading = CountingServer(WritingDoor), QuietServer(ReadingDoor)
    announce(
        port=writing.serve_in_background(),
        read_port=reading.serve_in_background(),
        admin_port=open_admin(faults, {}, lambda: None),
    )
    live_until_stdin_closes(service.close)


if __name__ == "__main__":
    main()
