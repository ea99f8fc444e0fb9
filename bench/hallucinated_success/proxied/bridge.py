"""A task behind a loopback port, for programs that stand in another process: `GET /` reads, `POST /` calls the tool.

A reading comes from the primary. While the system of record is down, the connection is closed without an answer.
Standard library alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from bench.hallucinated_success.tasks import Task
from bench.side_by_side.environments import ROOT

TIMEOUT_S = 30


class Bridge:
    """The server of one task, for a `with`."""

    def __init__(self, task: Task) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(task))
        self.port = self._server.server_port

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *given: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(task: Task) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                row = task.look(fresh=True)
            except ConnectionError:
                self.close_connection = True
                self.connection.close()
                return
            self._answer(200 if row is not None else 404, row or {})

        def do_POST(self) -> None:
            try:
                self._answer(200, {"answer": task.call("o1")})
            except OSError as error:
                self._answer(200, {"error": f"{type(error).__name__}: {error}"})

        def _answer(self, status: int, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given: Any) -> None:
            """Say nothing."""

    return Handler


def called_through(proxy: Sequence[str], port: int, env: dict[str, str]) -> dict[str, Any]:
    """Start a proxy in front of the tool as an MCP server on stdio, call the tool once, and return the result."""
    backend = [sys.executable, "-m", "bench.hallucinated_success.proxied.stdio_tool", str(port)]
    process = subprocess.Popen(
        [*proxy, *backend], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=env, cwd=ROOT,
    )  # fmt: skip
    try:
        greeting = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        _asked(process, 1, "initialize", greeting)
        _send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        called = {"name": "change_order", "arguments": {"order_id": "o1"}}
        return _asked(process, 2, "tools/call", called)
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def _send(process: subprocess.Popen[str], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def _asked(process: subprocess.Popen[str], number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    assert process.stdout is not None
    _send(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    for line in process.stdout:
        answer = json.loads(line)
        if answer.get("id") == number and "method" not in answer:
            return dict(answer.get("result") or {"isError": True, "content": []})
    raise RuntimeError(f"the proxy ended without an answer to {method}")
