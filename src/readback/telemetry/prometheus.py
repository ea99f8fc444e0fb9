"""The text format of Prometheus, and a small HTTP server for `/metrics` and `/healthz`.

Called by `readback metrics` and `readback worker --metrics-port`. The server listens on loopback unless told otherwise,
answers GET and HEAD only, and runs in threads of its own. It holds up no action: an error in a request becomes status
503 with the error's code, and the process continues.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from readback.audit.feedback.tally import Spread
from readback.canon import Json
from readback.canon.fault import ReadbackError
from readback.errors import MetricsPortError
from readback.telemetry.fold_reader import LedgerMetrics
from readback.telemetry.metrics import PREFIX, US, Family, Labels

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
HOST_DEFAULT: Final = "127.0.0.1"
REQUEST_TIMEOUT_S: Final = 10.0
FOLD_EVERY_S: Final = 1.0
"""The pause between two folds of new entries, in seconds."""
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

log: Final = logging.getLogger("readback.metrics")


def exposition(families: Iterable[Family]) -> str:
    """Return the series in the text format 0.0.4 of Prometheus."""
    return "".join(line for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    series = family.series
    name = PREFIX + series.name
    yield f"# HELP {name} {series.text}\n"
    yield f"# TYPE {name} {series.kind}\n"
    for labels, value in family.samples:
        if isinstance(value, Spread):
            yield from _histogram(name, labels, value)
        else:
            yield f"{name}{_labels(labels)} {value}\n"


def _histogram(name: str, labels: Labels, spread: Spread) -> Iterator[str]:
    told = _pairs(labels)
    start = f"{told}," if told else ""
    for bound_us, count in spread.below():
        yield f'{name}_bucket{{{start}le="{bound_us / US:g}"}} {count}\n'
    yield f'{name}_bucket{{{start}le="+Inf"}} {spread.count}\n'
    yield f"{name}_sum{_labels(labels)} {spread.total_us / US}\n"
    yield f"{name}_count{_labels(labels)} {spread.count}\n"


def _labels(labels: Labels) -> str:
    return f"{{{_pairs(labels)}}}" if labels else ""


def _pairs(labels: Labels) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


# --- the server ---------------------------------------------------------------------------------------------

Health = Callable[[], tuple[bool, dict[str, Json]]]
"""Returns whether the process is well, and the details for people."""


class MetricsServer:
    """Serves `/metrics` and `/healthz` until closed.

    Args:
        metrics: The ledger's metrics.
        health: Makes the answer of `/healthz`.
        port: The port; 0 for any free port.
        host: The address to listen on.

    Raises:
        MetricsPortError: The address is in use or not available.

    Example:
        >>> from readback import Readback
        >>> from readback.telemetry import MetricsServer, metrics_of
        >>> with Readback.open("memory:") as rb:
        ...     server = MetricsServer(metrics_of(rb), lambda: (True, {}), port=0)
        ...     server.close()
    """

    def __init__(self, metrics: LedgerMetrics, health: Health, *, port: int, host: str = HOST_DEFAULT) -> None:
        self._metrics, self._health = metrics, health
        self._ready, self._closed, self._folded = threading.Event(), threading.Event(), threading.Event()
        try:
            self._server = _Server((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise MetricsPortError(
                f"The metrics cannot be served at {host}:{port}: {error}.",
                remedy="Choose a free port with --metrics-port, or stop the process that uses the port.",
            ) from error
        self._server.answer, self._server.answered = self._answer, metrics.save
        self.host, self.port = host, int(self._server.server_address[1])
        self._threads = [
            threading.Thread(target=self._server.serve_forever, name="readback-metrics", daemon=True),
            threading.Thread(target=self._follow, name="readback-fold", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait for the first fold. Return whether it is complete."""
        return self._ready.wait(timeout_s)

    def close(self) -> None:
        """Stop serving, and write the checkpoint. May be called twice."""
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()
        if self._ready.is_set():
            self._metrics.save(now=True)

    def wait_folded(self, timeout_s: float) -> bool:
        """Wait for the next fold that begins from now on. Return whether it came in time."""
        for _ in range(2):  # a fold in progress may have begun before
            self._folded.clear()
            if not self._folded.wait(timeout_s):
                return False
        return True

    def _follow(self) -> None:
        """Fold new entries once a second, so that a scrape finds little to do.

        Before the first complete fold nothing is served: a partial count would look like a jump.
        """
        failing = ""
        while True:
            try:
                self._metrics.refresh()
                failing = ""
            except ReadbackError as error:
                if error.code != failing:
                    log.warning("The metrics are not available: %s", error, extra={"readback_code": error.code})
                failing = error.code
            self._ready.set()
            self._folded.set()
            if self._closed.wait(FOLD_EVERY_S):
                return

    def _answer(self, path: str) -> tuple[int, str, str]:
        match path:
            case "/metrics":
                if not self._ready.is_set():
                    return 503, "text/plain; charset=utf-8", "The ledger is being read for the first time.\n"
                return 200, CONTENT_TYPE, exposition(self._metrics.families())
            case "/healthz":
                well, details = self._health() if self._ready.is_set() else (True, {"status": "starting"})
                return 200 if well else 503, "application/json", json.dumps(details, sort_keys=True) + "\n"
            case _:
                return 404, "text/plain; charset=utf-8", "Only /metrics and /healthz are served here.\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    answer: Callable[[str], tuple[int, str, str]]
    answered: Callable[[], None]
    """Called after each complete answer."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a broken connection. The default prints a stack to stderr."""
        log.debug("A connection to the metrics ended early.")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "readback"
    sys_version = ""
    timeout = REQUEST_TIMEOUT_S

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        try:
            status, media, text = self.server.answer(path)
        except ReadbackError as error:
            log.warning("%s is not available: %s", path, error, extra={"readback_code": error.code})
            status, media, text = 503, "text/plain; charset=utf-8", f"{error.code}: {error.message}\n"
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.wfile.flush()
        if status == 200:
            self.server.answered()

    do_HEAD = do_GET  # noqa: N815 - the name of the overridden method

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the overridden method
        """Log a request at debug level. The default prints every request to stderr."""
        log.debug(format, *args)
