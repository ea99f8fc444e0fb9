"""Verified webhook: delivered with its id, and believed when the receiver's store of acknowledgements shows it whole.

Run it with `python examples/19-verified-webhook.py`. The receiver is in this file, and listens on this machine alone;
its second answer is a 200 for something that it threw away.

Prints:
    paid:     reconciled_success, received once
    shipped:  unknown, though the receiver said: success
"""

from __future__ import annotations

import json
import tempfile
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from readback import Readback
from readback.recipes import HttpReceipts, verified_webhook
from readback.systems import HttpExecutor, HttpSource
from readback.testing.runtime_virtual import VirtualRuntime


class Receiver(BaseHTTPRequestHandler):
    """Takes webhooks in at /hook, and says at /deliveries what it took in."""

    receipts: ClassVar[list[dict[str, Any]]] = []
    throws_away: ClassVar[str] = "order.shipped"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        said = json.loads(body)
        if said["event"] != self.throws_away:
            receipt = {"delivery": said["delivery"], "event": said["event"], "status": "processed"}
            self.receipts.append({**receipt, "sha256": sha256(body).hexdigest()})
        self.answer(200, {"ok": True})

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        wanted = parse_qs(parts.query).get("delivery", [parts.path.rpartition("/")[2]])[0]
        found = [each for each in self.receipts if each["delivery"] == wanted]
        if parts.query or parts.path == "/deliveries":
            self.answer(200, {"items": found})
        else:
            self.answer(200, found[0]) if found else self.answer(404, {})

    def answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Silence."""


def main() -> None:
    service = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{service.server_port}"
    with (
        tempfile.TemporaryDirectory() as folder,
        HttpExecutor(address, sole=True) as sender,
        HttpSource("receipts", address, canary="/deliveries") as store,
        Readback.open(
            f"sqlite:///{folder}/readback.db", tenant="acme", principal="agent:shop", runtime=VirtualRuntime(seed=19)
        ) as rb,
    ):
        deliver = verified_webhook(sender, HttpReceipts(store), path="/hook")
        paid = rb.run(deliver(event="order.paid", payload={"order": "o-17", "cents": 900}), operation="o-17 paid")
        assert paid.verified
        count = sum(each["delivery"] == paid.stamp for each in Receiver.receipts)
        print(f"paid:     {paid.state}, received {'once' if count == 1 else count}")
        shipped = rb.run(deliver(event="order.shipped", payload={"order": "o-17"}), operation="o-17 shipped")
        assert shipped.observation is not None
        print(f"shipped:  {shipped.state}, though the receiver said: {shipped.observation.status}")
    service.shutdown()
    service.server_close()


if __name__ == "__main__":
    main()
