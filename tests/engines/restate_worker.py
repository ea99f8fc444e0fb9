"""A Restate service in a process of its own; its port is the only argument."""

from __future__ import annotations

import asyncio
import socket
import sys

import hypercorn.asyncio
import restate
from hypercorn.config import Config

from readback.frameworks.durable.restate import operation, restate_errors
from tests.engines import shop

service = restate.Service("Shop")


@service.handler("ship")
async def ship(ctx: restate.Context, order: str) -> str:
    def step() -> str:
        with restate_errors(retry_seconds=0.1):
            return shop.ship_once(order, operation(ctx, "ship"), wait=0 if order.startswith("late") else 20)

    return await ctx.run_typed("ship", step)


if __name__ == "__main__":
    config = Config()
    listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    config.bind = [f"fd://{listening.detach()}"]
    print("ready", flush=True)
    asyncio.run(hypercorn.asyncio.serve(restate.app(services=[service]), config))
