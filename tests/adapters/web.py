"""A real HTTP server in a thread that answers as a test tells it, and remembers what it was asked."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Said:
    """One answer. `hang`: none comes until the test is over. `drop`: the connection is closed without one."""

    code: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False
    drop: bool = False

    @property
    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Web:
    """`answers` maps a path, as it came over the wire, to what is said; everything else is a 404."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers: dict[str, Said] = {}
        self.asked: list[Asked] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Server(ThreadingHTTPServer):
    web: Web

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news; anything else is."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _answer(self) -> None:
        web = self.server.web
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        web.asked.append(Asked(self.command, self.path, dict(self.headers.items()), body))
        said = web.answers.get(self.path, Said(404, {"error": "not found"}))
        if said.hang:
            web.over.wait()
        if said.hang or said.drop:
            self.close_connection = True
            return
        self.send_response_only(said.code)
        for name, value in {"Content-Length": str(len(said.raw)), **said.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(said.raw)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815  # the base class's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing: a test that wants to know looks at `asked`."""


@contextmanager
def serving(port: int = 0) -> Iterator[Web]:
    """The server, from now until the block is over. A port of before can be taken again."""
    with _Server(("127.0.0.1", port), _Handler) as server:
        server.daemon_threads = True
        server.web = Web(int(server.server_address[1]))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.web
        finally:
            server.web.over.set()
            server.shutdown()
            thread.join()
