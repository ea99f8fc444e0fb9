"""A toy system of record for steps of durable engines: each call of the tool is counted, beside its effect.

The order's name chooses the behaviour: `crash` acts, and its process ends before the answer; `lie` answers without an
effect; `late` shows its effect from the second reading on; `broken` acts and raises.
"""

from __future__ import annotations

import os
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

from readback import Context, Readback, Reading, action

HOME = Path(os.environ.get("SHOP_HOME", "."))
CRASHED = 9
_TABLES = (
    "create table if not exists orders (id text, tenant text, stamp text)",
    "create table if not exists calls (id text)",
    "create table if not exists readings (id text)",
    "create table if not exists steps (id text)",
)


def sql(query: str, *values: object) -> list[dict[str, Any]]:
    """Run one statement in a transaction of its own, and return its rows."""
    connection = sqlite3.connect(HOME / "shop.db", timeout=30)
    try:
        connection.row_factory = sqlite3.Row
        with connection:
            for table in _TABLES:
                connection.execute(table)
            return [dict(row) for row in connection.execute(query, values)]
    finally:
        connection.close()


def counted(table: str, order: str) -> int:
    """How many rows of a table name the order: `calls` of the tool, `steps` that began."""
    return int(sql(f"select count(*) as n from {table} where id = ?", order)[0]["n"])


@action(
    kind="create",
    side_effect="low_risk_internal",
    target="order/{requested.order}",
    identity={
        "target": "authoritative.id",
        "tenant": "authoritative.tenant",
        "stamp": "authoritative.stamp",
    },
    ensure={"shipped": "authoritative.id == requested.order"},
    within="1s",
    late_window="1s",
)
def ship(ctx: Context, order: str) -> object:
    sql("insert into calls values (?)", order)
    if not order.startswith("lie"):
        sql("insert into orders values (?, ?, ?)", order, ctx.tenant, ctx.stamp)
    if order.startswith("crash") and counted("steps", order) == 1:
        os._exit(CRASHED)
    if order.startswith("broken"):
        raise RuntimeError("connection reset after the write")
    return {"status": "ok"}


def _row(ctx: Context, order: str) -> list[dict[str, Any]]:
    if order.startswith("late"):
        sql("insert into readings values (?)", order)
        if counted("readings", order) == 1:
            return []
    return sql("select * from orders where stamp = ?", ctx.stamp)


@ship.read(source="orders", consistency="strong", independence="other_client")
def order_row(ctx: Context, order: str) -> Reading:
    rows = _row(ctx, order)
    return Reading.of(rows[0], stamp=rows[0]["stamp"]) if rows else Reading.absent()


@ship.find
def orders(ctx: Context, order: str) -> list[Reading]:
    return [Reading.of(row, stamp=row["stamp"]) for row in _row(ctx, order)]


@cache
def client() -> Readback:
    """Open the ledger that all processes of a test share; once a process."""
    return Readback.open(
        f"sqlite:///{HOME / 'ledger.db'}", tenant="acme", principal="agent:ops", actions=[ship], seal=False
    )


def ship_once(order: str, operation: str, wait: float) -> str:
    """What each engine's step does: run under the operation, and let nothing unverified pass."""
    sql("insert into steps values (?)", order)
    outcome = client().run(ship(order), operation=operation, wait=wait)
    outcome.raise_unless_verified()
    return outcome.cite()
