"""New actions of one event loop ask a store that is far away together, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from readback import AsyncReadback, Outcome
from readback.domain.errors import PayloadConflictError, StoreError
from readback.ports.store import Opened
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened_async, ship_async_of

MANY = 40


class FarStore(MemoryStore):
    """Answers looks together, counts them, and may be out of reach."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[int] = []
        self.away = False

    def openings(self, asked: Sequence[tuple[str, str, Sequence[str]]]) -> list[Opened]:
        self.looks.append(len(asked))
        if self.away:
            raise StoreError("The ledger cannot be reached.", remedy="Wait.", code="store.unreachable")
        return [MemoryStore.opening(self, *one) for one in asked]

    def opening(self, tenant: str, key_hash: str, subjects: Sequence[str]) -> Opened:
        raise AssertionError("it is asked together")


async def _ship(rb: AsyncReadback, desk: Desk, number: int, operation: str = "") -> Outcome:
    ship = ship_async_of(desk)
    return await rb.run(ship(order_id=f"o-{number}", carrier="dhl"), operation=operation or f"ship {number}")


def test_many_actions_share_a_look_and_each_gets_its_own_answer() -> None:
    desk, store = Desk(), FarStore()

    async def work() -> None:
        async with opened_async(store) as rb:
            outcomes = await asyncio.gather(*(_ship(rb, desk, number) for number in range(MANY)))
            assert all(outcome.verified for outcome in outcomes)
            assert sum(store.looks) == MANY
            assert len(store.looks) < MANY / 4
            again = await asyncio.gather(*(_ship(rb, desk, number) for number in range(MANY)))
            assert [outcome.id for outcome in again] == [outcome.id for outcome in outcomes], "each found its own key"
            with pytest.raises(PayloadConflictError):
                await _ship(rb, desk, 7, operation="ship 8")

    asyncio.run(work())
    assert desk.calls == MANY


def test_what_the_store_raises_reaches_each_and_the_next_look_is_made_anew() -> None:
    desk, store = Desk(), FarStore()
    store.away = True

    async def work() -> None:
        async with opened_async(store) as rb:
            found = await asyncio.gather(*(_ship(rb, desk, n) for n in range(5)), return_exceptions=True)
            assert [one.code for one in found if isinstance(one, StoreError)] == ["store.unreachable"] * 5
            assert desk.calls == 0
            store.away = False
            assert (await _ship(rb, desk, 1)).verified

    asyncio.run(work())


def test_who_is_cancelled_while_he_waits_for_a_look_takes_nobody_with_him() -> None:
    desk, store = Desk(), FarStore()

    async def work() -> None:
        async with opened_async(store) as rb:
            leaving = asyncio.ensure_future(_ship(rb, desk, 1))
            staying = asyncio.ensure_future(_ship(rb, desk, 2))
            for _ in range(10_000):
                if not store.looks:
                    await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            assert (await staying).verified

    asyncio.run(work())
