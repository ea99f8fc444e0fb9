"""idemkit, idempotent calls: a key out of the arguments is claimed under a lease, the result is kept. PostgreSQL.

The call is the tool and the reading behind it, so that what is kept is what was read. Coroutines over asyncpg's pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from idemkit import IdempotencyConflict, MethodConfig, idempotent
from idemkit.backends.postgres import PostgresBackend
from idemkit.cli import main as idemkit_command

from bench.against.slices import Async, serve_tasks
from bench.against.work import NotShippedError, Orders, shipped

CONNECTIONS: Final = 16


@asynccontextmanager
async def opened(url: str, orders: Orders) -> AsyncIterator[Async]:
    await asyncio.to_thread(idemkit_command, ["init-pg", url])
    backend = PostgresBackend.from_url(url, min_size=CONNECTIONS, max_size=CONNECTIONS, command_timeout=300)

    @idempotent(backend=backend, config=MethodConfig(key_fields=["name"], scope=lambda _: "bench"))
    async def ship(*, name: str) -> dict[str, Any] | None:
        orders.ship(name)
        return orders.look(name)

    async def act(name: str) -> None:
        if not shipped(await ship(name=name), name):
            raise NotShippedError(name)

    async def recover(name: str) -> None:
        """The caller asks again until the dead claim is no longer in the way; the call then runs again."""
        while True:
            try:
                return await act(name)
            except IdempotencyConflict:
                continue  # it has waited by itself

    async with backend:
        yield Async(act, recover, {"connections": CONNECTIONS})


if __name__ == "__main__":
    serve_tasks(opened)
