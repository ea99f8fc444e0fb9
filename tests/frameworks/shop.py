"""The toy system of record: orders, tickets, payments, and a foreign tool's entries. It counts every call of a tool.

No scenario trusts a text: `acted` counts the calls of a tool, and `holds` looks for the effect in the tables.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from readback import Approver, ApproverKey, Context, Reading, action

PASSPHRASE = "correct horse battery"
TABLES = (
    "create table orders (id text primary key, tenant text, status text, carrier text, stamp text)",
    "create table tickets (tenant text, queue text, title text, stamp text)",
    "create table backlog (tenant text, queue text, title text, stamp text)",
    "create table payments (id text primary key, tenant text, amount int, actor text, stamp text)",
    "create table entries (name text, amount integer)",
    "create table calls (tool text)",
)
CONTRACT = """apiVersion: readback/v1
kind: Contracts
metadata: {{name: book, version: 1.0.0}}
server: {{command: [python, book.py]}}
contracts:
  enter:
    kind: set
    side_effect: ephemeral_write
    target: entry/{{requested.name}}
    readers:
      - sql:
          database: {database}
          query: |
            select name, count(*) as n, sum(amount) as amount from entries where name = {{requested.name}} group by name
    ensure:
      entered once: authoritative.n == 1
      as asked: authoritative.amount == requested.amount
    within: 500ms
"""
_home: list[Path] = []


def use(home: Path) -> None:
    """Make `home` the shop of this process. A new folder gets the tables, the contract file and the approver's key."""
    _home[:] = [home]
    if (home / "shop.db").exists():
        return
    for statement in TABLES:
        sql(statement)
    for order in ("o-13", "o-17", "o-18", "o-19"):
        sql("insert into orders values (?, 'acme', 'open', null, null)", order)
    (home / "book.yaml").write_text(CONTRACT.format(database=home / "shop.db"), encoding="utf-8")
    ApproverKey.create(home / "alice.pem", passphrase=PASSPHRASE)


def home() -> Path:
    return _home[0]


def sql(statement: str, *values: object) -> list[dict[str, Any]]:
    connection = sqlite3.connect(home() / "shop.db", timeout=10)
    try:
        connection.row_factory = sqlite3.Row
        with connection:
            return [dict(row) for row in connection.execute(statement, values)]
    finally:
        connection.close()


def acted(tool: str) -> int:
    """How often a tool was called."""
    return int(sql("select count(*) n from calls where tool = ?", tool)[0]["n"])


def settle() -> None:
    """Let the backlog's tickets reach their queue."""
    sql("insert into tickets select * from backlog")
    sql("delete from backlog")


def holds(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the system of record shows the effect that a call asked for."""
    try:
        return _holds(tool, arguments)
    except KeyError:  # arguments that do not fit ask for no effect
        return False


def _holds(tool: str, arguments: Mapping[str, Any]) -> bool:
    match tool:
        case "ship_order":
            wanted = (arguments["order_id"], arguments.get("carrier", "ups"))
            return bool(sql("select 1 from orders where status = 'shipped' and id = ? and carrier = ?", *wanted))
        case "open_ticket":
            return bool(
                sql("select 1 from tickets where queue = ? and title = ?", arguments["queue"], arguments["title"])
            )
        case "pay":
            return bool(sql("select 1 from payments where id = ? and amount = ?", arguments["to"], arguments["amount"]))
        case "enter":
            return bool(
                sql("select 1 from entries where name = ? and amount = ?", arguments["name"], arguments["amount"])
            )
    return False


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    ensure={"shipped": "authoritative.status == 'shipped'", "carrier": "authoritative.carrier == requested.carrier"},
    within="500ms",
)
def ship_order(ctx: Context, order_id: str, carrier: str = "ups") -> object:
    """Ship an order with a carrier."""
    sql("insert into calls values ('ship_order')")
    if carrier != "dhl":  # with this carrier the tool lies
        sql("update orders set status='shipped', carrier=?, stamp=? where id=?", carrier, ctx.stamp, order_id)
    return {"status": "ok", "message": f"Order {order_id} shipped with {carrier}."}


@ship_order.read(source="orders", consistency="strong", independence="other_client")
def order_row(ctx: Context, order_id: str, carrier: str) -> Reading:
    rows = sql("select * from orders where id=?", order_id)
    if order_id == "o-13" and rows[0]["status"] == "shipped":
        raise RuntimeError("the reader is broken")
    return Reading.of(rows[0], stamp=rows[0]["stamp"]) if rows else Reading.absent()


@action(
    kind="create",
    side_effect="low_risk_internal",
    target="queue/{requested.queue}",
    identity={"target": "authoritative.queue", "tenant": "authoritative.tenant", "stamp": "authoritative.stamp"},
    ensure={"title": "authoritative.title == requested.title"},
    within="20s",
    late_window="20s",
)
def open_ticket(ctx: Context, queue: str, title: str) -> object:
    """Open a ticket in a queue."""
    sql("insert into calls values ('open_ticket')")
    table = "backlog" if queue == "slow" else "tickets"
    sql(f"insert into {table} values (?, ?, ?, ?)", ctx.tenant, queue, title, ctx.stamp)
    if queue == "crash" and os.environ.get("READBACK_BED_CRASH"):
        os._exit(9)
    if queue == "boom":
        raise RuntimeError("connection reset after the write")
    return {"status": "ok"}


@open_ticket.read(source="tickets", consistency="strong", independence="other_client")
def ticket_row(ctx: Context, queue: str, title: str) -> Reading:
    rows = sql("select * from tickets where stamp=?", ctx.stamp)
    return Reading.of(rows[0], stamp=rows[0]["stamp"]) if rows else Reading.absent()


@open_ticket.find
def tickets(ctx: Context, queue: str, title: str) -> list[Reading]:
    return [Reading.of(row, stamp=row["stamp"]) for row in sql("select * from tickets where stamp=?", ctx.stamp)]


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="payment/{requested.to}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant", "actor": "authoritative.actor"},
    ensure={"amount": "authoritative.amount == requested.amount"},
    approval={"expires": "1h", "when": "requested.amount > 100"},
    within="500ms",
)
def pay(ctx: Context, to: str, amount: int) -> object:
    """Pay an amount. A person approves amounts over 100."""
    sql("insert into calls values ('pay')")
    sql("insert into payments values (?,?,?,?,?)", to, ctx.tenant, amount, ctx.principal, ctx.stamp)
    return {"ok": True}


@pay.read(source="bank", consistency="strong", independence="other_client", attributes=True)
def payment_row(ctx: Context, to: str, amount: int) -> Reading:
    rows = sql("select * from payments where id=?", to)
    return Reading.of(rows[0], stamp=rows[0]["stamp"]) if rows else Reading.absent()


ACTIONS = (ship_order, open_ticket, pay)


def opening() -> dict[str, Any]:
    """The keyword arguments of every client and kit of this shop."""
    return {
        "url": f"sqlite:///{home() / 'ledger.db'}",
        "tenant": "acme",
        "principal": "agent:ops",
        "approvers": [Approver("alice", alice().public_key, tenants=("acme",))],
        "actions": ACTIONS,
    }


def alice() -> ApproverKey:
    return ApproverKey.open(home() / "alice.pem", passphrase=PASSPHRASE)


# --- a tool that other people wrote: its contract is a file, and its code knows nothing of Readback


ENTER_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["name", "amount"],
}


def enter(name: str, amount: int) -> str:
    """Enter an amount under a name."""
    sql("insert into calls values ('enter')")
    if name != "lost":  # under this name the tool lies
        sql("insert into entries values (?,?)", name, amount)
    return f"Successfully entered {amount} under {name}"


def peek(name: str) -> str:
    """Look a name up. No contract governs this tool."""
    sql("insert into calls values ('peek')")
    return str(sql("select * from entries where name = ?", name))
