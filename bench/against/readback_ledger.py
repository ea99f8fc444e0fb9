"""Readback, as its users write it: an action, its reader, a contract. SQLite or PostgreSQL by the URL alone.

The contract asks for more than the other programs check: identity and tenant of what was read, two postconditions as
expressions, and everything goes into the log with its leaf hash. One process, as many coroutines as are in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any, Final

from bench.against.slices import Async, serve_tasks, sqlite_path
from bench.against.work import CARRIER, TENANT, Orders
from readback import AsyncReadback, Context, Reading, action

PRINCIPAL: Final = "agent:bench"
PAUSE_S: Final = 0.05


def shipping(orders: Orders) -> Any:
    """The action over these orders."""

    @action(
        name="ship",
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
    async def ship(ctx: Context, order_id: str, carrier: str) -> object:
        """The tool."""
        return orders.ship(order_id)

    @ship.read(source="orders", consistency="strong", independence="other_client")
    async def row(ctx: Context, order_id: str, carrier: str) -> Reading:
        """The reader."""
        found = orders.look(order_id)
        return Reading.of(found) if found is not None else Reading.absent()

    return ship


def settings(url: str) -> dict[str, Any]:
    """What its store promises, asked through the same library. `synchronous` is FULL by the store's own hand."""
    if not url.startswith("sqlite"):
        return {}
    import apsw

    with closing(apsw.Connection(sqlite_path(url))) as connection:
        return {"journal_mode": connection.pragma("journal_mode")}


@asynccontextmanager
async def opened(url: str, orders: Orders) -> AsyncIterator[Async]:
    ship = shipping(orders)
    async with AsyncReadback.open(url, tenant=TENANT, principal=PRINCIPAL, actions=[ship]) as rb:

        async def act(name: str) -> None:
            outcome = await rb.run(ship(order_id=name, carrier=CARRIER), operation=name)
            outcome.raise_unless_verified()

        async def recover(name: str) -> None:
            """Takes what is due until the action that was left is verified; the tool is not called again."""
            while True:
                for outcome in await rb.resume():
                    if outcome.verified:
                        return
                await asyncio.sleep(PAUSE_S)

        yield Async(act, recover, settings(url))


if __name__ == "__main__":
    serve_tasks(opened)
