"""The embedded scheduler keeps the port's promise, over a file and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from readback import bootstrap
from readback.ports.runtime import Runtime
from readback.ports.storage.store import LedgerStore
from readback.ports.storage.wakeups import Wakeups
from readback.testing.conformance.wakeups import Ground, WakeupsConformance
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore


class OnOneMachine:
    """Several workers of one machine: each owner is a process of it."""

    def __init__(self, store: LedgerStore) -> None:
        self.store = store
        self.clock = VirtualRuntime()
        self.runtime: Runtime = self.clock

    def worker(self, owner: str = "") -> Wakeups:
        return bootstrap.wakeups(self.store, self.clock.sibling(owner) if owner else self.runtime)

    async def kill(self, worker: Wakeups, owner: str) -> None:
        self.clock.declare_gone(owner)

    def lose(self) -> None:
        """Nothing is on its way here: there is only the ledger."""


@pytest.mark.requirement("FLEET-wakeups")
class TestEmbedded(WakeupsConformance):
    @pytest.fixture(autouse=True, params=["memory", "sqlite"])
    def _where(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        self.kind, self.folder = request.param, tmp_path

    def ground(self) -> AbstractContextManager[Ground]:
        return self._ground()

    @contextmanager
    def _ground(self) -> Iterator[Ground]:
        store = MemoryStore() if self.kind == "memory" else bootstrap.store(f"sqlite:///{self.folder}/ledger.db")
        yield OnOneMachine(store)
        store.close()
