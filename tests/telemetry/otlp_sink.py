"""A receiver of OTLP over HTTP on loopback: parses what arrives, and refuses or hangs as told."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Sink:
    """What arrived. `status`: the answer to every request. `hold`: an unset event makes every request hang."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.status = 200
        self.hold: threading.Event | None = None
        self.came = threading.Event()
        self.url = ""

    @property
    def spans(self) -> list[Any]:
        """Every span that arrived, in order."""
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def resources(self) -> list[dict[str, str]]:
        """The attributes of each resource."""
        return [attributes(each.resource) for request in self.requests for each in request.resource_spans]


def attributes(thing: Any) -> dict[str, Any]:
    """The attributes of a span, an event, a link or a resource, as Python values."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in thing.attributes}


@contextmanager
def sink() -> Iterator[Sink]:
    """A running receiver."""
    made = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.came.set()
            if made.hold is not None:
                made.hold.wait(60)
            if made.status == 200:
                plain = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
                request = ExportTraceServiceRequest()
                request.ParseFromString(plain)
                made.headers.append({name.lower(): value for name, value in self.headers.items()})
                made.paths.append(self.path)
                made.requests.append(request)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(made.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it so
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield made
    finally:
        if made.hold is not None:
            made.hold.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
