"""A module of actions, as `readback mcp --actions` takes it. The shop's folder comes from the environment."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from readback import Context, Reading, SagaStep, action
from readback.kit import saga
from tests.kit.shop import Shop

SHOP = Shop(Path(os.environ.get("SHOP_HOME", "/nonexistent")))
ship_order, open_ticket, pay = SHOP.ship_order, SHOP.open_ticket, SHOP.pay


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={"target": "authoritative.id", "tenant": "not_offered"},
    ensure={"held": "authoritative.status == 'held'"},
)
def hold_order(order_id: str) -> str:
    """Hold an order, and answer never."""
    SHOP.note("hold_order")
    SHOP.sql("update orders set status = 'held' where id = ?", order_id)
    threading.Event().wait()
    return "held"


@hold_order.read(source="orders", consistency="strong", independence="other_client")
def order(ctx: Context, order_id: str) -> Reading:
    return Reading.of(SHOP.sql("select * from orders where id = ?", order_id)[0])


@saga(operation="settle {to}", actions=[pay])
def settle(to: str, amount: int) -> list[SagaStep]:
    """Settle a debt."""
    return [pay(to, amount).as_step("pay", pivot=True)]
