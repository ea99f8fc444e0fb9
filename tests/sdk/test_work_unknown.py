"""A worker beside very many actions that it cannot go on with: they cost it nothing, and others have them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from readback import Readback, bootstrap
from readback.canon import ReadbackError
from readback.client.operations import worker as workers
from readback.client.operations.tenants import Served
from readback.client.operations.worker import Watching, Worker
from readback.client.session import Session
from readback.errors import NotFoundError
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.wakeups import Wakeup
from readback.stores.wakeups.embedded import EmbeddedWakeups
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.lifecycle.trip import TENANT, S, Trip
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
        self._watch(rb._session, Served(("acme",)), until_idle=until_idle)

    @classmethod
    def of(cls, session: Session, served: Served) -> Watched:
        one = cls.__new__(cls)
        one._watch(session, served, until_idle=False)
        return one

    def _watch(self, session: Session, served: Served, *, until_idle: bool) -> None:
        self.runtime = session.runtime
        self.said: list[tuple[str, ReadbackError]] = []
        self.wakeups = Counted(session.store, session.runtime)
        watching = Watching(refused=lambda name, error: self.said.append((name, error)))
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


SAGAS = 40
REMEMBERED = 8


@pytest.mark.requirement("FLEET-unknown", "SAGA-processes")
@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_a_saga_is_gone_on_with_behind_any_number_of_sagas_of_unknown_contracts(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More sagas than a worker remembers are due before its own, and each is looked at again at once."""
    monkeypatch.setattr(workers, "REFUSED_KEPT_MAX", REMEMBERED)
    trip = Trip(MemoryStore() if where == "memory" else bootstrap.store(f"sqlite:///{tmp_path / 'ledger.db'}"))
    theirs, mine = trip.load("flight"), trip.load("car")
    for name in ("flight", "car"):
        trip.world.faults[name] = "late"
    for number in range(SAGAS):
        trip.driver.drive(
            trip.begin([theirs(trip=f"t-{number}", price=1).as_step("flight")], f"op-{number}", "theirs"),
            trip.runtime.now_us() + S,
        )
    trip.driver.drive(trip.begin([mine(trip="m", price=1).as_step("car")], "op-m", "mine"), trip.runtime.now_us() + S)
    trip.runtime.advance(120)
    trip.die()
    trip.session.plans.clear()
    trip.session.know(mine.plan)
    watched = Watched.of(trip.session, Served((TENANT,)))
    watched.stay(30)
    [saga] = [each for each in trip.saga_ids() if trip.saga(each).name == "mine"]
    assert trip.get(saga).verified
    assert len(watched.said) == 2, "the sagas and their steps' contract are named once, not each of them"
    assert trip.session.foreign_sagas == {trip.saga(each).contracts for each in trip.saga_ids() if each != saga}
    trip.session.know(theirs.plan)
    Watched.of(trip.session, Served((TENANT,))).stay(300)
    assert all(trip.get(each).verified for each in trip.saga_ids()), "what was loaded since is found at once"
    trip.store.close()
