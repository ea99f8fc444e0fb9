"""A worker's heartbeat ends before what it beats through is closed."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from readback.client.operations.tenants import Served
from readback.client.operations.worker import Worker
from readback.stores.wakeups.embedded import EmbeddedWakeups
from readback.testing.store_memory import MemoryStore
from tests.cli.test_fairness import session_on


class Stubborn(EmbeddedWakeups):
    """Its first beat drops a cancellation, as a query does whose answer comes at the same moment."""

    beats = 0
    beating_at_the_end: bool | None = None
    begun: asyncio.Event

    @property
    def beat_every_us(self) -> int:
        return 1

    async def beat(self) -> list[str]:
        self.beats += 1
        self.begun.set()
        with suppress(*[asyncio.CancelledError][: self.beats == 1]):
            await asyncio.Event().wait()
        return []

    async def close(self) -> None:
        self.beating_at_the_end = any(task.get_name() == "readback-heart" for task in asyncio.all_tasks())


@pytest.mark.requirement("FLEET-dead")
def test_the_heartbeat_has_ended_when_the_wake_ups_are_closed() -> None:
    session = session_on(MemoryStore())
    wakeups = Stubborn(session.store, session.runtime)

    async def go() -> None:
        wakeups.begun = asyncio.Event()
        worker = Worker(session, served=Served(()), wakeups=wakeups)
        working = asyncio.create_task(worker.stay())
        await wakeups.begun.wait()
        worker.stop()
        await working

    asyncio.run(go())
    assert wakeups.beating_at_the_end is False
