"""Acting and reading over HTTP: a price service whose cache lags, unless it is asked to wait for a commit.

Run it with `python examples/01-http.py`. The service is in this file, and listens on this machine alone.

Prints:
    honest: reconciled_success, attribution ours
    lying:  unknown, no_op_failure
    gone:   True
"""

from __future__ import annotations

import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from readback import Context, Readback, Reading, action
from readback.systems import CommitToken, HttpExecutor, HttpSource


class Prices(BaseHTTPRequestHandler):
    """A PUT is answered with its commit number; a GET that names a commit is answered from after it."""

    rows: ClassVar[dict[str, dict[str, Any]]] = {
        "tea": {"sku": "tea", "tenant": "acme", "cents": 250, "version": 7, "stamp": None},
        "milk": {"sku": "milk", "tenant": "acme", "cents": 120, "version": 7, "stamp": None},
    }
    cached: ClassVar[dict[str, dict[str, Any]]] = {sku: dict(row) for sku, row in rows.items()}
    commit: ClassVar[int] = 7
    lying: ClassVar[bool] = False

    def do_PUT(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        sku = self.path.rpartition("/")[2]
        if not Prices.lying:
            Prices.commit += 1
            change = {"cents": wanted["cents"], "version": Prices.commit, "stamp": self.headers["X-Stamp"]}
            Prices.rows[sku] |= change
        self.answer(200, {"ok": True, "commit": Prices.commit})

    def do_DELETE(self) -> None:
        Prices.commit += 1
        del Prices.rows[self.path.rpartition("/")[2]]
        self.answer(200, {"ok": True, "commit": Prices.commit})

    def do_GET(self) -> None:
        fresh = self.headers.get("X-Wait-For") is not None
        row = (Prices.rows if fresh else Prices.cached).get(self.path.rpartition("/")[2])
        self.answer(200 if row else 404, row or {"error": "no such price"})

    def answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Commit", str(Prices.commit))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Silence."""


service = ThreadingHTTPServer(("127.0.0.1", 0), Prices)
threading.Thread(target=service.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{service.server_port}"

# Two clients that share nothing: one acts, the other reads. The executor sends key and stamp in headers. The source
# believes a 404 only where the same credentials are shown the canary.
shop = HttpExecutor(address, sole=True)
prices = HttpSource("prices", address, canary="/prices/tea", commit_token=CommitToken("X-Wait-For", "X-Commit"))


def current(ctx: Context, sku: str) -> Reading:
    """What the service shows. The tool's answer is a hint only: at which commit to look."""
    commit = ctx.observed["commit"] if isinstance(ctx.observed, dict) else 0
    return prices.get(
        ctx, "/prices/{sku}", params={"sku": sku}, version="/version", stamp="/stamp", commit_token=str(commit)
    )


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="price/{requested.sku}",
    identity={"target": "authoritative.sku", "tenant": "authoritative.tenant"},
    ensure={"price": "authoritative.cents == requested.cents"},
    within="500ms",
)
def set_price(ctx: Context, sku: str, cents: int) -> object:
    return shop.put(ctx, "/prices/{sku}", params={"sku": sku}, json={"cents": cents})


@set_price.read(source="prices", consistency="strong", independence="other_client", attributes=True)
def price(ctx: Context, sku: str, cents: int) -> Reading:
    return current(ctx, sku)


@action(
    kind="delete",
    side_effect="low_risk_internal",
    target="price/{requested.sku}",
    identity={"target": "authoritative.sku", "tenant": "authoritative.tenant"},
    ensure={"gone": "authoritative == null"},
    within="500ms",
)
def drop_price(ctx: Context, sku: str) -> object:
    return shop.delete(ctx, "/prices/{sku}", params={"sku": sku})


@drop_price.read(source="prices", consistency="strong", independence="other_client")
def no_price(ctx: Context, sku: str) -> Reading:
    return current(ctx, sku)


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        shop,
        prices,
        Readback.open(f"sqlite:///{folder}/readback.db", tenant="acme", principal="agent:ops") as rb,
    ):
        honest = rb.run(set_price(sku="tea", cents=300), operation="tea to 3.00")
        print(f"honest: {honest.state}, attribution {honest.attribution}")
        Prices.lying = True
        lying = rb.run(set_price(sku="tea", cents=900), operation="tea to 9.00")
        print(f"lying:  {lying.state}, {lying.discrepancy}")
        gone = rb.run(drop_price(sku="milk"), operation="no more milk")
        print(f"gone:   {gone.verified}")
    service.shutdown()


if __name__ == "__main__":
    main()
