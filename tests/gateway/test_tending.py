"""What is due is gone on with, whatever else cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

from readback.errors import StoreCorruptError
from readback.gateway.policy.due_worker import AT_ONCE_MAX, DueActionWorker
from readback.testing.runtime_virtual import VirtualRuntime
from tests.gateway.desk import until_asleep

pytestmark = pytest.mark.requirement("GATEWAY-pending")


class Ledger:
    """Of many actions that cannot be gone on with, and of one behind them that can."""

    def __init__(self) -> None:
        self.runtime = VirtualRuntime()
        self.due = [*(f"broken-{number}" for number in range(3 * AT_ONCE_MAX)), "sound"]
        self.tried: list[str] = []
        self.done: list[str] = []

    def each_due(self, limit: int) -> Iterator[str]:
        yield from self.due[:limit]

    def orphans(self, due_for_us: int, limit: int) -> list[Any]:
        return []

    def next_due_us(self) -> int:
        return self.runtime.now_us()

    def version(self, action_id: str) -> int:
        return self.done.count(action_id)

    async def advance(self, action_id: str) -> None:
        self.tried.append(action_id)
        if action_id != "sound":
            raise StoreCorruptError("Its record cannot be read.")
        self.due.remove(action_id)
        self.done.append(action_id)


def test_actions_that_cannot_be_gone_on_with_keep_no_other_one_waiting() -> None:
    async def main() -> None:
        ledger = Ledger()
        tending = DueActionWorker(cast("Any", ledger), lambda _: None)
        staying = asyncio.create_task(tending.stay())
        await until_asleep()
        staying.cancel()
        await asyncio.gather(staying, return_exceptions=True)
        assert ledger.done == ["sound"]
        assert len(ledger.tried) == len(set(ledger.tried))  # and none is tried again at once

    asyncio.run(main())
