"""A contract of the shop whose success is watched: `--contracts tests.cli.watched`."""

from __future__ import annotations

from readback import Context, Reading, action
from tests.cli import shop


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    ensure={"shipped": "authoritative.status == 'shipped'"},
    watch={"after": "1h", "every": "1d", "for": "30d"},
)
async def dispatch(ctx: Context, order_id: str) -> object:
    """Ships an order."""
    orders = shop.load()
    orders[order_id].update(status="shipped")
    shop.save(orders)
    return {"status": "ok"}


@dispatch.read(source="orders-file", consistency="strong", independence="other_client")
async def dispatched(ctx: Context, order_id: str) -> Reading:
    """The order's row."""
    row = shop.load().get(order_id)
    return Reading.of(row) if row else Reading.absent()
