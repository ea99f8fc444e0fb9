"""Several tenants on one ledger: whoever has little to do is served at once, whatever backlog another has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from readback import bootstrap
from readback.client.operations.tenants import TENANTS_MAX, Served
from readback.client.operations.worker import Worker
from readback.client.session import Session
from readback.errors import UsageError
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import LedgerStore, Projection
from readback.stores.sqlite.store import SqliteStore
from readback.testing.runtime_virtual import START_US, VirtualRuntime
from readback.testing.store_memory import MemoryStore
from readback.testing.store_samples import sample_append, sample_projection
from tests.cli import shop
from tests.cli.conftest import CONTRACTS, Desk

BACKLOG: Final = 10_000
HANDFUL: Final = 12
HOUR_US: Final = 3_600_000_000


def fill(store: LedgerStore, tenant: str, number: int, due_us: int) -> list[str]:
    """So many due actions, written as a store has them; what they are does not matter to who is served first."""
    ids = [f"{tenant}-{n:05}" for n in range(number)]
    for first in range(0, number, 1_000):
        held = [
            sample_projection(
                name, tenant=tenant, contract="ship", due_us=due_us, key_hash=f"{name:0<64}", stamp=f"rb-{name}"
            )
            for name in ids[first : first + 1_000]
        ]
        store.append([sample_append(each.action_id, projection=each) for each in held])
    return ids


class Noting(Worker):
    """Notes what it takes up, in order, and does nothing with it. What is of a tenant in `hangs` stays in hand."""

    def __init__(self, session: Session, served: Served, concurrency: int, stop_after: int, hangs: str = "") -> None:
        super().__init__(session, served=served, concurrency=concurrency, poll_us=1_000)
        self.order: list[str] = []
        self.stop_after, self.hangs, self.ending = stop_after, hangs, asyncio.Event()

    async def _advance(self, action_id: str, stored: object) -> None:
        now_us = self._session.runtime.now_us()
        self._session.store.lease(action_id, "noting", now_us, now_us + HOUR_US)
        self.order.append(action_id)
        if len(self.order) >= self.stop_after:
            self._stop.set()
            self.ending.set()
        if self.hangs and action_id.startswith(self.hangs):
            await self.ending.wait()

    def _known(self, now_us: int) -> ContractFilter:
        return ContractFilter(frozenset(), frozenset({sample_projection("any").contract_hash}), 0)

    def _knows(self, action_id: str, stored: object) -> bool:
        return True


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LedgerStore]:
    made: LedgerStore = MemoryStore() if request.param == "memory" else bootstrap.store(f"sqlite:///{tmp_path}/l.db")
    yield made
    made.close()


def session_on(store: LedgerStore) -> Session:
    return Session.open(
        None,
        tenant="large",
        principal="agent:w",
        run="",
        plan="",
        task_state="",
        boundary="",
        trace="",
        budget=None,
        break_glass="",
        actions=(),
        runtime=VirtualRuntime(),
        store=store,
    )


def taken_up(store: LedgerStore, served: Served, concurrency: int, stop_after: int, hangs: str = "") -> list[str]:
    async def go() -> list[str]:
        worker = Noting(session_on(store), served, concurrency, stop_after, hangs)
        await worker.stay()
        return worker.order

    return asyncio.run(go())


@pytest.mark.requirement("TENANT-fair")
@pytest.mark.parametrize("served", [Served(()), Served(("large", "small")), Served(("small", "large"))])
def test_a_small_tenant_is_served_within_the_first_handful(tmp_path: Path, served: Served) -> None:
    store = bootstrap.store(f"sqlite:///{tmp_path}/l.db")
    assert isinstance(store, SqliteStore)
    fill(store, "large", BACKLOG, START_US - HOUR_US)
    small = fill(store, "small", 3, START_US - 1)
    assert set(small) <= set(served.due(store, START_US, HANDFUL))
    order = taken_up(store, served, concurrency=4, stop_after=3 * HANDFUL)
    assert set(small) <= set(order[:HANDFUL]), order
    store.close()


@pytest.mark.requirement("TENANT-fair")
@pytest.mark.parametrize("concurrency", [2, 4, 16])
def test_a_tenant_whose_actions_hang_leaves_room_for_another(store: LedgerStore, concurrency: int) -> None:
    fill(store, "large", 200, START_US - HOUR_US)
    small = fill(store, "small", 3, START_US - 1)
    share = Served(()).share(concurrency)
    order = taken_up(store, Served(()), concurrency, stop_after=share + 3, hangs="large")
    assert set(small) <= set(order)
    assert sum(each.startswith("large") for each in order) <= share


def test_one_tenant_alone_has_the_whole_worker() -> None:
    assert Served(("acme",)).share(16) == 16
    assert Served(()).share(16) == 12
    assert [Served(("a", "b")).share(n) for n in (1, 2, 3, 4, 8)] == [1, 1, 2, 3, 6]


def test_who_is_served_is_said_and_bounded() -> None:
    assert Served.of((), "default", everybody=False) == Served(("default",))
    assert Served.of(("a", "b", "a"), "default", everybody=False) == Served(("a", "b"))
    assert Served.of((), "default", everybody=True).said == "every tenant"
    assert Served(("a", "b")).said == "tenants a, b"
    with pytest.raises(UsageError, match="257 tenants"):
        Served.of([str(n) for n in range(TENANTS_MAX + 1)], "default", everybody=False)


@pytest.mark.requirement("TENANT-fair")
@pytest.mark.parametrize("which", [("--tenant", "default", "--tenant", "globex"), ("--all-tenants",)])
@pytest.mark.parametrize("command", ["resume", "worker"])
def test_several_tenants_are_gone_on_with_by_one_command(desk: Desk, command: str, which: tuple[str, ...]) -> None:
    orders = shop.load()
    shop.save({**orders, "o-g": {**orders["o-17"], "id": "o-g", "tenant": "globex"}})
    for tenant, order in (("default", "o-17"), ("globex", "o-g")):
        desk.ship("a", "--wait", "0", "--tenant", tenant, order_id=order, how="lie", code=3)
    desk.runtime.advance(2)
    more = ("--until-idle",) if command == "worker" else ()
    answer = desk(command, "--contracts", CONTRACTS, *which, *more, "--json", code=3).json
    if command == "resume":
        assert {each["tenant"] for each in answer["actions"]} == {"default", "globex"}
    else:
        assert answer["advanced"] >= 2


def test_projections_of_samples_are_what_a_store_has(store: LedgerStore) -> None:
    (name,) = fill(store, "large", 1, START_US)
    stored = store.projection(name)
    assert stored is not None
    assert isinstance(stored.projection, Projection)
    assert stored.projection.due_us == START_US
