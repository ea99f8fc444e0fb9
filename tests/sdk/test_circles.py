"""An action that is done leaves nothing for Python to look for: what it made is let go at once."""

from __future__ import annotations

import asyncio
from typing import Any

from readback.drivers.executor import FallbackExecutor
from readback.errors import StoreError
from readback.testing.store_memory import MemoryStore
from tests.circles import circles
from tests.sdk.given import Desk, opened, opened_async, ship_async_of, ship_of


def test_an_action_leaves_no_circle() -> None:
    ship = ship_of(Desk())
    with opened() as rb:
        rb.run(ship(order_id="o-0", carrier="dhl"), operation="ship o-0")
        with circles() as left:
            for n in range(1, 4):
                assert rb.run(ship(order_id=f"o-{n}", carrier="dhl"), operation=f"ship o-{n}").verified
    assert left == []


def test_an_action_on_an_event_loop_leaves_none_either() -> None:
    async def main() -> list[str]:
        ship = ship_async_of(Desk())
        async with opened_async() as rb:
            await rb.run(ship(order_id="o-0", carrier="dhl"), operation="ship o-0")
            with circles() as left:
                for n in range(1, 4):
                    outcome = await rb.run(ship(order_id=f"o-{n}", carrier="dhl"), operation=f"ship o-{n}")
                    assert outcome.verified
        return left

    assert asyncio.run(main()) == []


def test_what_is_begun_after_the_end_leaves_none() -> None:
    beside = FallbackExecutor(1, "readback-writer")
    beside.close()
    with circles() as left:
        late = beside.begin(lambda: None)
        assert isinstance(late.exception(), StoreError)
        del late
    assert left == []


def test_a_circle_would_be_seen() -> None:
    with circles() as left:
        store: Any = MemoryStore()
        store.itself = store
        del store
    assert "readback.testing.store_memory.MemoryStore" in left
