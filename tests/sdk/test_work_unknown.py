"""A worker beside very many actions that it cannot go on with: they cost it nothing, and others have them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from readback import Readback
from readback.canon import ReadbackError
from readback.client.operations import worker as workers
from readback.client.operations.tenants import Served
from readback.client.operations.worker import Watching, Worker
from readback.errors import NotFoundError
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.wakeups import Wakeup
from readback.stores.wakeups.embedded import EmbeddedWakeups
from readback.testing.runtime_virtual import VirtualRuntime
from tests.sdk.given import Desk, opened, ship_of
from tests.sdk.test_submit import ARGUMENTS, Kept

MANY = 300
WHILE_S = 300


class Counted(EmbeddedWakeups):
    """The real ones, which count what they bring."""

    taken = 0
    looks = 0

    async def take(
        self,
        tenants: Sequence[str],
        limit: int,
        leave: Collection[str] = (),
        full: Collection[str] = (),
        known: ContractFilter | None = None,
    ) -> list[Wakeup]:
        found = await super().take(tenants, limit, leave, full, known)
        self.taken, self.looks = self.taken + len(found), self.looks + 1
        return found


class Watched:
    """A worker that stays for a while, and what it said."""

    def __init__(self, rb: Readback, *, until_idle: bool = True) -> None:
        session = rb._session
        self.runtime = session.runtime
        self.said: list[tuple[str, ReadbackError]] = []
        self.wakeups = Counted(session.store, session.runtime)
        watching = Watching(refused=lambda name, error: self.said.append((name, error)))
        served = Served(("acme",))
        self.worker = Worker(
            session, served=served, until_idle=until_idle, watching=watching, wakeups=self.wakeups
        )  # fmt: skip

    def stay(self, seconds: float | None = None) -> None:
        async def go() -> None:
            working = asyncio.create_task(self.worker.stay())
            if seconds is not None:
                await self.runtime.sleep_async(seconds)
                self.worker.stop()
            await working

        asyncio.run(go())


def submitted(store: Kept, name: str, number: int) -> list[str]:
    with opened(store, VirtualRuntime(seed=len(name))) as rb:
        given: list[dict[str, Any]] = [{**ARGUMENTS, "order_id": f"{name}-{n}"} for n in range(number)]
        return [rb.submit(name, each, operation=each["order_id"]) for each in given]


@pytest.mark.requirement("FLEET-unknown")
def test_what_a_worker_does_not_know_is_neither_taken_nor_remembered_however_much_it_is() -> None:
    store, desk = Kept(), Desk()
    left = submitted(store, "unheard_of", MANY)
    mine = submitted(store, "ship", 3)
    with opened(store, actions=[ship_of(desk)]) as rb:
        watched = Watched(rb, until_idle=False)
        watched.stay(WHILE_S)
        assert watched.wakeups.taken == 3
        assert watched.wakeups.looks <= 2 * WHILE_S, "no more than it polls"
        assert watched.worker._refused == {}
        assert [type(error) for _, error in watched.said] == [NotFoundError], "named once, not with every action of it"
        assert all(rb.get(each).verified for each in mine)
        assert all(rb.get(each).attempts == 0 for each in left)


@pytest.mark.requirement("FLEET-unknown")
def test_another_worker_has_them_meanwhile_and_so_has_this_one_when_it_starts_with_the_contract() -> None:
    store, desk = Kept(), Desk()
    left = submitted(store, "unheard_of", 20)
    with opened(store, actions=[ship_of(desk)]) as rb:
        Watched(rb).stay()
        assert desk.calls == 0
    with opened(store, actions=[ship_of(desk, name="unheard_of")]) as rb:
        Watched(rb).stay()
        assert all(rb.get(each).verified for each in left)
    assert desk.calls == 20


@pytest.mark.requirement("FLEET-unknown")
def test_what_is_idle_names_all_that_was_left() -> None:
    store = Kept()
    left = submitted(store, "unheard_of", 90)
    with opened(store, actions=[ship_of(Desk())]) as rb:
        watched = Watched(rb)
        watched.stay()
        assert set(watched.worker.tally.errors) == set(left)


@pytest.mark.requirement("FLEET-unknown")
def test_of_what_fails_here_a_bounded_number_is_remembered_and_the_rest_is_tried_at_the_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "REFUSED_KEPT_MAX", 20)
    monkeypatch.setattr(workers, "TAKEN_AT_ONCE_MAX", 8)
    store, desk = Kept(), Desk()
    broken = submitted(store, "ship", 60)
    with opened(store, actions=[ship_of(desk)]) as rb:
        gone = {rb._session.fold(each).request_ref for each in broken}
        monkeypatch.setattr(
            store, "evidence", lambda _tenant, _action, digest: None if digest in gone else pytest.fail(digest)
        )
        watched = Watched(rb, until_idle=False)
        watched.stay(60)
        assert len(watched.worker._refused) == 20
        assert watched.wakeups.taken <= 8 * 61
        assert desk.calls == 0
