"""A worker beside a backlog of a contract that it does not know: it finds its own actions, others find the rest."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from readback.client.operations.tenants import Served
from readback.client.operations.worker import Worker
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import LedgerStore, StoredProjection
from readback.testing.runtime_virtual import START_US
from readback.testing.store_memory import MemoryStore
from readback.testing.store_samples import sample_creation
from tests.cli.test_fairness import session_on

BACKLOG: Final = 2_000
POLLS: Final = 8
HOUR_US: Final = 3_600_000_000


class Learning(Worker):
    """Does nothing with what it takes up, beside noting it, and may come to know a contract with its third poll."""

    def __init__(self, store: LedgerStore, *, knows: str, learns: str = "") -> None:
        super().__init__(session_on(store), served=Served(()), poll_us=1_000, concurrency=4)
        self.versions, self.learns, self.polls = {knows}, learns, 0
        self.order: list[str] = []

    async def _take_up(self) -> bool:
        self.polls += 1
        if self.polls == 3 and self.learns:
            self.versions.add(self.learns)
        if self.polls == POLLS:
            self._stop.set()
        return await super()._take_up()

    def _known(self, now_us: int) -> ContractFilter:
        return ContractFilter(frozenset(), frozenset(self.versions), 0)

    def _knows(self, action_id: str, stored: StoredProjection | None) -> bool:
        return True

    async def _advance(self, action_id: str, stored: StoredProjection | None) -> None:
        now_us = self._session.runtime.now_us()
        self._session.store.lease(action_id, "learning", now_us, now_us + HOUR_US)
        self.order.append(action_id)


@pytest.fixture
def store() -> LedgerStore:
    made = MemoryStore()
    made.append(
        [sample_creation(f"u{n:05d}", due_us=START_US - HOUR_US, contract_hash="theirs") for n in range(BACKLOG)]
        + [sample_creation(f"k{n}", due_us=START_US - n, contract_hash="ours") for n in range(3)]
    )
    return made


def taken(worker: Learning) -> list[str]:
    asyncio.run(worker.stay())
    return worker.order


@pytest.mark.requirement("FLEET-unknown")
def test_a_worker_takes_what_it_knows_past_any_backlog_of_what_it_does_not(store: LedgerStore) -> None:
    assert taken(Learning(store, knows="ours")) == ["k2", "k1", "k0"]


@pytest.mark.requirement("FLEET-unknown")
def test_another_worker_that_knows_the_contract_finds_the_backlog_at_once(store: LedgerStore) -> None:
    taken(Learning(store, knows="ours"))
    assert taken(Learning(store, knows="theirs"))[:2] == ["u00000", "u00001"]


@pytest.mark.requirement("FLEET-unknown")
def test_a_contract_that_is_loaded_while_the_worker_runs_is_found_by_its_next_poll(store: LedgerStore) -> None:
    order = taken(Learning(store, knows="ours", learns="theirs"))
    assert order[:5] == ["k2", "k1", "k0", "u00000", "u00001"]
