"""Verified resource: created and changed over an HTTP API, and queried back by stamp and by key with another client.

Run it with `python examples/22-verified-resource.py`. The API is in this file, and listens on this machine alone.

Prints:
    created: reconciled_success
    changed: reconciled_success, on the condition "1"
    between: failed, and the other's change stands
"""

from __future__ import annotations

import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from readback import Readback
from readback.recipes import Resource, verified_create, verified_update
from readback.systems import HttpExecutor, HttpSource
from readback.testing.runtime_virtual import VirtualRuntime


class Orders(BaseHTTPRequestHandler):
    """Orders with versions. A change needs the version that it is made on; a key makes one order, however often."""

    rows: ClassVar[dict[str, dict[str, Any]]] = {}
    keys: ClassVar[dict[str, str]] = {}
    conditions: ClassVar[list[str]] = []
    meanwhile: ClassVar[dict[str, Any]] = {}
    """What somebody else writes just before the next change."""

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.keys.setdefault(self.headers["Idempotency-Key"], wanted["id"])
        self.rows.setdefault(key, {**wanted, "version": 1})
        self.answer(201, self.rows[key])

    def do_PATCH(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        row = self.rows[self.path.rpartition("/")[2]]
        if self.meanwhile:
            row |= {**self.meanwhile, "version": row["version"] + 1, "stamp": "another"}
            self.meanwhile.clear()
        self.conditions.append(self.headers["If-Match"])
        if self.headers["If-Match"] != f'"{row["version"]}"':
            return self.answer(412, {"error": "it was changed since"})
        row |= {**wanted, "version": row["version"] + 1}
        return self.answer(200, row)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/orders":
            stamp = parse_qs(parts.query).get("stamp", [""])[0]
            return self.answer(200, {"items": [row for row in self.rows.values() if row["stamp"] == stamp]})
        row = self.rows.get(parts.path.rpartition("/")[2])
        return self.answer(200 if row else 404, row or {})

    def answer(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if "version" in body:
            self.send_header("ETag", f'"{body["version"]}"')
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Silence."""


def main() -> None:
    service = ThreadingHTTPServer(("127.0.0.1", 0), Orders)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{service.server_port}"
    with (
        tempfile.TemporaryDirectory() as folder,
        HttpExecutor(address, sole=True) as api,
        HttpSource("orders", address, canary="/orders") as records,
        Readback.open(
            f"sqlite:///{folder}/readback.db", tenant="acme", principal="agent:shop", runtime=VirtualRuntime(seed=22)
        ) as rb,
    ):
        orders = Resource("/orders/{key}", "/orders")
        create, change = verified_create(api, records, orders), verified_update(api, records, orders)
        created = rb.run(create(key="o-1", fields={"sku": "tea", "n": 1}), operation="o-1")
        print(f"created: {created.state}")
        changed = rb.run(change(key="o-1", fields={"n": 2}), operation="o-1 twice")
        print(f"changed: {changed.state}, on the condition {Orders.conditions[-1]}")
        Orders.meanwhile["n"] = 7
        between = rb.run(change(key="o-1", fields={"n": 3}), operation="o-1 thrice")
        stands = Orders.rows["o-1"]["n"] == 7
        print(f"between: {between.state}, and the other's change {'stands' if stands else 'is lost'}")
    service.shutdown()
    service.server_close()


if __name__ == "__main__":
    main()
