"""A toy system of record with honest and lying tools. Tests count its acts, and never trust a text."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from readback import Approver, ApproverKey, Context, Reading, action
from readback.client.authoring.action import ActionDefinition

PASSPHRASE = "correct horse battery staple"
ENTER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "Whose."}, "amount": {"type": "integer"}},
    "required": ["name", "amount"],
    "additionalProperties": False,
}
BOOK = """\
apiVersion: readback/v1
kind: Contracts
metadata: {{name: book, version: 1.0.0}}
contracts:
  enter:
    kind: set
    side_effect: ephemeral_write
    target: entry/{{requested.name}}
    description: Enters an amount.
    readers:
      - sql:
          database: {database}
          query: >-
            select name, count(*) as n, sum(amount) as amount from entries where name = {{requested.name}} group by name
    ensure:
      entered once: authoritative.n == 1
      as asked: authoritative.amount == requested.amount
    within: 100ms
  write_off:
    kind: set
    side_effect: ephemeral_write
    target: off/{{requested.name}}
    operation: "off {{requested.name}}"
    approval: {{expires: 1h}}
    readers:
      - sql: {{database: {database}, query: "select name, amount from entries where name = {{requested.name}}"}}
    ensure: {{written off: authoritative.amount == 0}}
    within: 100ms
"""


class Shop:
    """The system of record in a file, so that a second process sees the same state."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.file = home / "shop.db"
        fresh = not self.file.exists()
        if fresh:
            for statement in (
                "create table orders (id text primary key, status text, carrier text, stamp text)",
                "create table tickets (queue text, title text, stamp text)",
                "create table payments (id text primary key, amount int, actor text, stamp text)",
                "create table entries (name text, amount integer)",
                "create table calls (tool text)",
            ):
                self.sql(statement)
            for number in range(40):
                self.sql("insert into orders values (?, 'open', null, null)", f"o-{number}")
        self.ship_order = _ship(self)
        self.open_ticket = _ticket(self)
        self.pay = _pay(self)
        self.actions: list[ActionDefinition[Any]] = [self.ship_order, self.open_ticket, self.pay]
        self.book = home / "book.yaml"
        self.book.write_text(BOOK.format(database=self.file))
        self.slow = threading.Event()
        """Tickets of the queue "slow" appear once this event is set."""

    def sql(self, statement: str, *values: object) -> list[dict[str, Any]]:
        connection = sqlite3.connect(self.file, timeout=20)
        try:
            connection.row_factory = sqlite3.Row
            with connection:
                return [dict(row) for row in connection.execute(statement, values)]
        finally:
            connection.close()

    def acted(self, tool: str) -> int:
        """How often a tool acted."""
        return int(self.sql("select count(*) as n from calls where tool = ?", tool)[0]["n"])

    def note(self, tool: str) -> None:
        self.sql("insert into calls values (?)", tool)

    def enter(self, given: dict[str, Any]) -> str:
        """A foreign tool. It lies about the name "lost"."""
        self.note("enter")
        if given["name"] != "lost":
            self.sql("insert into entries values (?, ?)", given["name"], given["amount"])
        if given["name"] == "crash":
            os._exit(9)
        if given["name"] == "boom":
            raise ConnectionError("connection reset after write")
        return f"Successfully entered {given['amount']} under {given['name']}"

    async def enter_async(self, given: dict[str, Any]) -> str:
        return await asyncio.to_thread(self.enter, given)

    def write_off(self, given: dict[str, Any]) -> str:
        self.note("write_off")
        self.sql("update entries set amount = 0 where name = ?", given["name"])
        return "written off"

    def opened(self, **more: Any) -> dict[str, Any]:
        """Parameters for a kit over this shop's ledger."""
        alice = Approver("alice", key_of(self.home).public_key, tenants=("acme",))
        known: dict[str, Any] = {
            "url": f"sqlite:///{self.home / 'ledger.db'}",
            "tenant": "acme",
            "principal": "agent:ops",
            "approvers": [alice],
            "actions": self.actions,
            "contracts": [self.book],
            "run": "chat-1",
            "wait": 5,
        }
        return known | more


def key_of(home: Path) -> ApproverKey:
    """The approver's key, made at first use."""
    file = home / "alice.key"
    return ApproverKey.open(file, PASSPHRASE) if file.exists() else ApproverKey.create(file, PASSPHRASE)


def _ship(shop: Shop) -> ActionDefinition[Any]:
    @action(
        kind="set",
        side_effect="low_risk_internal",
        target="order/{requested.order_id}",
        identity={"target": "authoritative.id", "tenant": "not_offered"},
        ensure={
            "shipped": "authoritative.status == 'shipped'",
            "carrier": "authoritative.carrier == requested.carrier",
        },
        within="100ms",
    )
    def ship_order(ctx: Context, order_id: str, carrier: str = "ups") -> object:
        """Ship an order with a carrier."""
        shop.note("ship_order")
        if carrier != "dhl":  # of "dhl" the tool says so, and does nothing
            shop.sql(
                "update orders set status = 'shipped', carrier = ?, stamp = ? where id = ?",
                carrier,
                ctx.stamp,
                order_id,
            )
        return {"status": "ok", "message": f"Successfully shipped {order_id} with {carrier}."}

    @ship_order.read(source="orders", consistency="strong", independence="other_client")
    def order_row(ctx: Context, order_id: str) -> Reading:
        found = shop.sql("select * from orders where id = ?", order_id)
        return Reading.of(found[0], stamp=found[0]["stamp"]) if found else Reading.absent()

    return ship_order


def _ticket(shop: Shop) -> ActionDefinition[Any]:
    @action(
        kind="create",
        side_effect="low_risk_internal",
        target="queue/{requested.queue}",
        identity={"target": "authoritative.queue", "tenant": "not_offered", "stamp": "authoritative.stamp"},
        ensure={"title": "authoritative.title == requested.title"},
        within="1m",
        late_window="1m",
    )
    def open_ticket(ctx: Context, queue: str, title: str) -> object:
        """Open a ticket."""
        shop.note("open_ticket")
        shop.sql("insert into tickets values (?, ?, ?)", queue, title, ctx.stamp)
        if queue == "crash":
            os._exit(9)
        if queue == "boom":
            raise ConnectionError("connection reset after write")
        return {"status": "ok"}

    @open_ticket.read(source="tickets", consistency="strong", independence="other_client")
    def ticket_row(ctx: Context, queue: str, title: str) -> Reading:
        if queue == "slow" and not shop.slow.is_set():
            return Reading.absent()
        found = shop.sql("select * from tickets where stamp = ?", ctx.stamp)
        return Reading.of(found[0], stamp=found[0]["stamp"]) if found else Reading.absent()

    return open_ticket


def _pay(shop: Shop) -> ActionDefinition[Any]:
    @action(
        kind="create",
        side_effect="medium_risk_write",
        target="payment/{requested.to}",
        identity={"target": "authoritative.id", "tenant": "not_offered", "actor": "authoritative.actor"},
        ensure={"amount": "authoritative.amount == requested.amount"},
        approval={"expires": "1h", "when": "requested.amount > 100"},
        within="100ms",
    )
    def pay(ctx: Context, to: str, amount: int) -> object:
        """Pay an amount. Over 100 a person approves."""
        shop.note("pay")
        shop.sql("insert into payments values (?, ?, ?, ?)", to, amount, ctx.principal, ctx.stamp)
        return {"ok": True}

    @pay.read(source="bank", consistency="strong", independence="other_client", attributes=True)
    def payment_row(ctx: Context, to: str) -> Reading:
        found = shop.sql("select * from payments where id = ?", to)
        return Reading.of(found[0], stamp=found[0]["stamp"]) if found else Reading.absent()

    return pay


Way = Callable[[dict[str, Any]], Any]
