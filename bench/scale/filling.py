"""A ledger of so many actions: what every measurement of this folder begins with."""

from __future__ import annotations

import asyncio
from typing import Final

from readback.bench import workload
from readback.client.async_client import AsyncReadback
from readback.ports.storage.store import LedgerStore

WIDTH: Final = 256
"""How many are in flight meanwhile."""
US: Final = 1_000_000
"""Microseconds a second."""


async def filled(
    url: str, actions: int, seal: bool | dict[str, object], first: int = 0, store: LedgerStore | None = None
) -> None:
    """So many actions, a few hundred at once, each verified at its first reading. `store`: in place of the URL's."""
    names = iter(range(first, first + actions))
    async with AsyncReadback.open(
        url, tenant=workload.TENANT, principal=workload.PRINCIPAL, seal=seal, store=store
    ) as rb:

        async def one_after_another() -> None:
            for n in names:
                outcome = await rb.run(workload.ship_async(order_id=f"s-{n}", carrier="dhl"), operation=f"s-{n}")
                outcome.raise_unless_verified()
                workload.WORLD.pop(f"s-{n}")  # what is measured is the ledger, and not a growing world

        await asyncio.gather(*(one_after_another() for _ in range(min(WIDTH, actions))))
