"""The measured action: an in-process tool and reader, verified at the first reading, by an ordinary contract.

Both the hot path and the floor's rows use this action.
"""

from __future__ import annotations

from typing import Any

from readback.client.authoring.action import ActionDefinition, action
from readback.domain.context import Context
from readback.domain.verification.reading import Reading

TENANT, PRINCIPAL = "acme", "agent:bench"
WORLD: dict[str, dict[str, Any]] = {}
TERMS: dict[str, Any] = {
    "kind": "set",
    "side_effect": "low_risk_internal",
    "target": "order/{requested.order_id}",
    "identity": {"target": "authoritative.id", "tenant": "authoritative.tenant"},
    "ensure": {
        "shipped": "authoritative.status == 'shipped'",
        "carrier": "authoritative.carrier == requested.carrier",
    },
    "within": "10s",
}


def _ship(order_id: str, carrier: str) -> object:
    WORLD[order_id] = {"id": order_id, "tenant": TENANT, "status": "shipped", "carrier": carrier}
    return {"status": "ok", "order": order_id}


def _row(order_id: str) -> Reading:
    row = WORLD.get(order_id)
    return Reading.of(row) if row is not None else Reading.absent()


@action(name="ship_sync", **TERMS)
def ship_sync(ctx: Context, order_id: str, carrier: str) -> object:
    """The tool of the sequential run."""
    return _ship(order_id, carrier)


@ship_sync.read(source="orders", consistency="strong", independence="other_client")
def row_sync(ctx: Context, order_id: str, carrier: str) -> Reading:
    """The reader of the sequential run."""
    return _row(order_id)


@action(name="ship_async", **TERMS)
async def ship_async(ctx: Context, order_id: str, carrier: str) -> object:
    """The tool of the concurrent runs."""
    return _ship(order_id, carrier)


@ship_async.read(source="orders", consistency="strong", independence="other_client")
async def row_async(ctx: Context, order_id: str, carrier: str) -> Reading:
    """The reader of the concurrent runs."""
    return _row(order_id)


@action(name="ship_waiting", **{**TERMS, "within": "1h", "polls": ["1s"]})
def ship_waiting(ctx: Context, order_id: str, carrier: str) -> object:
    """Accept the order. The order is shipped when the reader says so."""
    return {"status": "accepted"}


@ship_waiting.read(source="orders", consistency="strong", independence="other_client")
def row_waiting(ctx: Context, order_id: str, carrier: str) -> Reading:
    """The reader of the waiting order."""
    return _row(order_id)


ALL: tuple[ActionDefinition[Any], ...] = (ship_sync, ship_async, ship_waiting)
