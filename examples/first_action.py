"""A lie caught within a minute: the same action twice, once honest, once with a tool that only says so.

Run it with `python examples/first_action.py`. Everything it needs is in this file; the ledger goes to a temporary
folder.

Prints:
    honest: reconciled_success - The action completed successfully.
    lying:  unknown - The final state is unknown and requires review.
            the tool said: {'status': 'ok', 'message': 'Order o-18 shipped with dhl.'}
            violated: authoritative.status == 'shipped'
            violated: authoritative.carrier == requested.carrier
    again:  reconciled_success - replayed: True
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from readback import Context, Readback, Reading, action

shop = sqlite3.connect(":memory:", isolation_level=None)
shop.row_factory = sqlite3.Row
shop.execute("create table orders (id text primary key, tenant text, status text, carrier text, stamp text)")
shop.executemany(
    "insert into orders values (?, 'acme', 'open', null, null)",
    [("o-17",), ("o-18",)],
)
lying = False


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    ensure={
        "shipped": "authoritative.status == 'shipped'",
        "carrier": "authoritative.carrier == requested.carrier",
    },
    within="1s",
)
def ship_order(ctx: Context, order_id: str, carrier: str) -> object:
    """The action. What it returns is evidence, not truth. The stamp that it leaves shows later whose doing it was."""
    if not lying:
        change = "update orders set status = 'shipped', carrier = ?, stamp = ? where id = ?"
        shop.execute(change, [carrier, ctx.stamp, order_id])
    return {"status": "ok", "message": f"Order {order_id} shipped with {carrier}."}


@ship_order.read(source="orders-db", consistency="strong", independence="other_client")
def order_row(ctx: Context, order_id: str, carrier: str) -> Reading:
    """The readback: the system of record, by another path."""
    row = shop.execute("select * from orders where id = ?", [order_id]).fetchone()
    return Reading.of(row, stamp=row["stamp"]) if row else Reading.absent()


def main() -> None:
    global lying
    with tempfile.TemporaryDirectory() as folder:
        ledger = f"sqlite:///{Path(folder) / 'readback.db'}"
        with Readback.open(ledger, tenant="acme", principal="agent:ops") as rb:
            honest = rb.run(ship_order(order_id="o-17", carrier="dhl"), operation="ship o-17")
            print("honest:", honest.state, "-", honest.message)

            lying = True
            lie = rb.run(ship_order(order_id="o-18", carrier="dhl"), operation="ship o-18")
            print("lying: ", lie.state, "-", lie.message)
            print("        the tool said:", lie.observation.body if lie.observation else None)
            for postcondition in lie.postconditions:
                print(f"        {postcondition.truth}: {postcondition.source}")

            again = rb.run(ship_order(order_id="o-17", carrier="dhl"), operation="ship o-17")
            print("again: ", again.state, "- replayed:", again.replayed)


if __name__ == "__main__":
    main()
