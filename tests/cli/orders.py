"""Contracts over a real HTTP order service, for tests of approvals. `--contracts tests.cli.orders` finds them.

The service is at ORDERS_URL. It takes refunds only from who bears ORDERS_TOKEN: an operator's worker does, an agent
does not. Everybody may read its books.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from readback import Context, Reading, action

PATIENCE_SECONDS = 10


def ask(path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    """One exchange with the service."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {os.environ.get('ORDERS_TOKEN', '')}"}
    try:
        with urlopen(Request(os.environ["ORDERS_URL"] + path, data, headers), timeout=PATIENCE_SECONDS) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as refused:
        return refused.code, {}


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="refund/{requested.refund_id}",
    identity={
        "target": "authoritative.id",
        "tenant": "authoritative.tenant",
        "actor": "authoritative.actor",
        "stamp": "authoritative.stamp",
    },
    ensure={"amount": "authoritative.amount == requested.amount"},
    approval={"expires": "1h"},
    within="2s",
    deadline="4s",
)
def refund(ctx: Context, refund_id: str, amount: int, memo: str = "") -> object:
    """Pays money back."""
    made = {"id": refund_id, "amount": amount, "stamp": ctx.stamp, "tenant": ctx.tenant, "actor": ctx.principal}
    return ask("/refunds", made)


@refund.read(source="orders", consistency="strong", independence="other_client", attributes=True)
def refund_row(ctx: Context, refund_id: str, amount: int, memo: str = "") -> Reading:
    """The refund in the books."""
    status, row = ask(f"/refunds/{refund_id}")
    if status == 404:
        return Reading.absent()
    if status != 200:
        raise ConnectionError(f"The books answered {status}.")
    return Reading.of(row, stamp=row["stamp"])


@contextmanager
def service(token: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The order service, at its address and with its books."""
    books: dict[str, Any] = {}

    class Orders(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            row = books.get(self.path.rpartition("/")[2])
            self._answer(200 if row else 404, row or {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers["Authorization"] != f"Bearer {token}":
                self._answer(401, {})
                return
            books[body["id"]] = body
            self._answer(201, {"status": "ok"})

        def _answer(self, status: int, body: object) -> None:
            written = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

        def log_message(self, *_: object) -> None:
            """Nothing: the books tell it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Orders)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", books
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
