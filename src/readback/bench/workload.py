"""The measured action: an in-process tool and reader, verified at the first reading, by an ordinary contract.

Both the hot path and the floor's rows use this action. `room` is the folder of the measurement.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from readback.client.async_client import AsyncReadback
from readback.client.authoring.action import ActionDefinition, action
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.errors import UsageError

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


async def ship(rb: AsyncReadback, name: str) -> None:
    """Run one action to its verified end."""
    outcome = await rb.run(ship_async(order_id=name, carrier="dhl"), operation=name)
    if not outcome.verified:
        outcome.raise_unless_verified()


async def in_flight(width: int, names: Iterable[str], work: Callable[[str], Awaitable[None]]) -> None:
    """Do the work for every name, `width` at a time."""
    left = iter(names)

    async def one_after_another() -> None:
        for name in left:
            await work(name)

    await asyncio.gather(*(one_after_another() for _ in range(width)))


@contextmanager
def room() -> Iterator[Path]:
    """A folder inside the working folder, on the tested disk, removed afterwards. Raises UsageError on failure."""
    try:
        made = tempfile.TemporaryDirectory(prefix="readback-bench-", dir=".")
    except OSError as error:
        raise UsageError(
            f"Nothing can be measured in the working folder: {error.strerror}.",
            remedy="Run it in a folder that you may write to, on the disk that is to be measured.",
        ) from error
    with made as name:
        yield Path(name).absolute()
