"""The actions of the server's tests: a shop in a database of its own, whose tool lies, hides and dies on request.

`SHOP_DB` names the shop's file, and `SHOP_SANDBOX` the sandbox's. The shop counts every call of its tool.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from readback import Context, Reading, action

gate = threading.Event()
"""A slow call waits here, in a server of this process; `entered` counts the waiting calls."""
entered = threading.Semaphore(0)
GATE_S = 30.0
full = threading.Event()
"""Set by a call after its effect: from now on the test's store has no room."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (id TEXT, tenant TEXT, carrier TEXT, stamp TEXT, PRIMARY KEY (id, tenant));
CREATE TABLE IF NOT EXISTS calls (n INTEGER PRIMARY KEY, order_id TEXT, key TEXT);
"""


def shop(variable: str = "SHOP_DB") -> sqlite3.Connection:
    db = sqlite3.connect(os.environ[variable], timeout=30, isolation_level=None)
    db.executescript("PRAGMA synchronous = OFF;" + SCHEMA)
    return db


def calls(variable: str = "SHOP_DB") -> list[str]:
    db = shop(variable)
    try:
        return [row[0] for row in db.execute("SELECT order_id FROM calls ORDER BY n")]
    finally:
        db.close()


_passed: Counter[str] = Counter()


def _tick(name: str) -> None:
    """A process dies here where the test says so, at the named passage; the file shows that it came here."""
    _passed[name] += 1
    if os.environ.get("SHOP_DIE") == f"{name}:{_passed[name]}":
        Path(os.environ["SHOP_DB"] + ".died").write_text(name)
        os.kill(os.getpid(), 9)


def shipping(variable: str, **options: Any) -> Any:
    """One action of the shop, or of its sandbox: the same code on another file."""

    @action(
        **{
            "kind": "set", "side_effect": "low_risk_internal", "target": "order/{requested.order_id}",
            "identity": {"target": "authoritative.id", "tenant": "authoritative.tenant"},
            "ensure": {"carrier": "authoritative.carrier == requested.carrier"},
            "within": "1s", "polls": ["0s", "50ms", "200ms"], "deadline": "5s", **options,
        }
    )  # fmt: skip
    def ship(ctx: Context, order_id: str, carrier: str) -> object:
        _tick("before the call")
        db = shop(variable)
        try:
            db.execute("INSERT INTO calls (order_id, key) VALUES (?, ?)", (order_id, ctx.idempotency_key))
            if carrier == "slow":
                entered.release()
                gate.wait(GATE_S)
            if carrier not in ("lie", "raise"):
                row = (order_id, ctx.tenant, carrier, ctx.stamp)
                db.execute("INSERT OR REPLACE INTO orders VALUES (?, ?, ?, ?)", row)
        finally:
            db.close()
        _tick("after the effect")
        if carrier == "full":
            full.set()
        if carrier in ("raise", "late-raise"):
            raise RuntimeError("the shop's line broke; its secret is s3cr3t-in-the-tool")
        return {"status": "ok", "markup": "<script>alert(1)</script>"}

    @ship.read(source="shop", consistency="strong", independence="other_client", attributes=True)
    def order(ctx: Context, order_id: str, carrier: str) -> Reading:
        _tick("before a reading")
        if carrier == "dark" and order_id in calls(variable):
            return Reading.unavailable("dark")
        db = shop(variable)
        try:
            row = db.execute(
                "SELECT id, tenant, carrier, stamp FROM orders WHERE id = ? AND tenant = ?", (order_id, ctx.tenant)
            ).fetchone()
        finally:
            db.close()
        if row is None:
            return Reading.absent()
        return Reading.of({"id": row[0], "tenant": row[1], "carrier": row[2]}, stamp=row[3])

    return ship


ship = shipping("SHOP_DB", name="ship")
ship.twin(shipping("SHOP_SANDBOX", name="ship_in_sandbox"))
bare = shipping("SHOP_DB", name="bare")
post = shipping("SHOP_DB", name="post", execute={"honours_key": True})
pay = shipping("SHOP_DB", name="pay", approval={"people": 1, "expires": "1h"})
pay_soon = shipping("SHOP_DB", name="pay_soon", approval={"people": 1, "expires": "1s"})
