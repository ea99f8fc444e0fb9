"""What a worker was brought is brought to nobody else while it lives: it is gone on with, or given back."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import pytest

from readback.client.operations.tenants import Served
from readback.client.operations.worker import Worker
from readback.errors import StoreLockedError
from readback.ports.runtime import Runtime
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import StoredProjection
from readback.ports.storage.wakeups import Wakeup
from readback.stores.wakeups.embedded import EmbeddedWakeups
from tests.sdk.given import Desk, opened, ship_of
from tests.sdk.test_submit import Kept
from tests.sdk.test_work import submitted


class Brought(EmbeddedWakeups):
    """As a queue does, it brings nothing that somebody has."""

    def __init__(self, store: Faltering, runtime: Runtime) -> None:
        super().__init__(store, runtime)
        self.had: set[str] = set()
        self._store_of = store

    async def take(
        self,
        tenants: Sequence[str],
        limit: int,
        leave: Collection[str] = (),
        full: Collection[str] = (),
        known: ContractFilter | None = None,
    ) -> list[Wakeup]:
        found = await super().take(tenants, limit, {*leave, *self.had}, full, known)
        self.had.update(each.action_id for each in found)
        if found:
            self._store_of.look_fails = self._store_of.fails_at
        return found

    async def done(self, wakeup: Wakeup) -> None:
        self.had.discard(wakeup.action_id)

    async def later(self, wakeup: Wakeup, at_us: int) -> None:
        self.had.discard(wakeup.action_id)


class Faltering(Kept):
    """A look fails, once: the first after something was brought, or the second."""

    def __init__(self, fails_at: int) -> None:
        super().__init__()
        self.fails_at, self.look_fails = fails_at, 0

    def projection(self, action_id: str) -> StoredProjection | None:
        if self.look_fails:
            self.look_fails -= 1
            if not self.look_fails:
                self.fails_at = 0
                raise StoreLockedError("Somebody has it.")
        return super().projection(action_id)


@pytest.mark.requirement("FLEET-wakeups")
@pytest.mark.parametrize("fails_at", [1, 3])
def test_what_it_could_not_look_at_when_it_was_brought_comes_again(fails_at: int) -> None:
    store, desk = Faltering(fails_at), Desk()
    submitted(store, 3)
    with opened(store, actions=[ship_of(desk)]) as rb:
        session = rb._session
        wakeups = Brought(store, session.runtime)
        worker = Worker(session, served=Served(("acme",)), wakeups=wakeups)

        async def go() -> None:
            working = asyncio.create_task(worker.stay())
            await session.runtime.sleep_async(60.0)
            worker.stop()
            await working

        asyncio.run(go())
    assert store.fails_at == 0
    assert (desk.calls, wakeups.had) == (3, set())
