"""The example of the interface's first page, as printed, over a shop that stands in for a real one.

mypy holds it strictly; tests/sdk/test_action_example.py runs it.
"""

from __future__ import annotations

import sqlite3
from typing import assert_type

from readback import Context, Outcome, Proposal, Readback, Reading, action


class Shop:
    """Somebody else's HTTP client, reduced to what the example calls."""

    def __init__(self) -> None:
        self.lies = False

    def post(self, path: str, json: dict[str, str], headers: dict[str, str]) -> object:
        if not self.lies:
            order_id = path.split("/")[2]
            orders.execute(
                "update orders set status = 'shipped', carrier = ? where id = ?", [json["carrier"], order_id]
            )
        return {"ok": True, "status": "shipped"}


shop = Shop()
orders = sqlite3.connect(":memory:", isolation_level=None)
orders.row_factory = sqlite3.Row
orders.execute("create table orders (id text primary key, tenant text, status text, carrier text)")
orders.execute("insert into orders values ('o-17', 'acme', 'open', null), ('o-18', 'acme', 'open', null)")


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    ensure={
        "shipped": "authoritative.status == 'shipped'",
        "carrier": "authoritative.carrier == requested.carrier",
    },
    within="10s",
)
def ship_order(ctx: Context, order_id: str, carrier: str) -> object:
    """The action. What it returns is evidence, not truth."""
    return shop.post(
        f"/orders/{order_id}/ship",
        json={"carrier": carrier},
        headers={"Idempotency-Key": ctx.idempotency_key, "X-Stamp": ctx.stamp},
    )


@ship_order.read(source="orders-db", consistency="strong", independence="other_client")
def order_row(ctx: Context, order_id: str, carrier: str) -> Reading:
    """The readback: the system of record, by another path."""
    row = orders.execute("select * from orders where id = ?", [order_id]).fetchone()
    return Reading.of(row) if row else Reading.absent()


def ship(url: str, order_id: str) -> Outcome:
    """Runs the action against a ledger."""
    with Readback.open(url, tenant="acme", principal="agent:ops") as rb:
        proposal = ship_order(order_id=order_id, carrier="dhl")  # calling an action only proposes: nothing happens yet
        outcome = rb.run(proposal, operation=f"ship {order_id}", wait=0)
    assert_type(proposal, Proposal)
    assert_type(outcome, Outcome)
    return outcome
