"""One ledger for every thread and event loop of a kit: a sync client, and one async client a running loop.

All clients share one session: one store, one list of contracts. An async client of a closed loop serves the next loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from threading import Lock
from typing import Any

from readback.client.async_client import AsyncReadback
from readback.client.client import Readback
from readback.client.operations import attempts
from readback.client.proposal import Definition, Proposal
from readback.client.session import Session
from readback.client.step import SagaStep
from readback.domain.outcome.outcome import Outcome
from readback.engine import coordinator
from readback.engine.compiled_contract import CompiledContract
from readback.engine.saga import attend as saga_attend

ActionHandle = coordinator.ActionHandle
RUN: ContextVar[str | None] = ContextVar("readback_kit_run", default=None)
"""The run of the calls in this context; see `Kit.session`."""


class SyncClient(Readback):
    """A sync client with the action's id known before a call ends."""

    @property
    def shared(self) -> Session:
        """The session of all clients."""
        return self._session

    def know(self, definitions: Iterable[Definition]) -> None:
        """Register contracts, so that their actions can be resumed."""
        for each in definitions:
            self._session.know(each.plan)

    def attended(
        self, proposal: Proposal, ticket: ActionHandle, operation: str | None, wait: float, run: str
    ) -> Outcome:
        """Run the proposal as `run` does. The ticket receives the action's id at once."""
        s = self._session
        until_us = s.give_up_us(wait)
        request = s.request(proposal, operation, None, "")
        work = coordinator.begin(s.engine, request, s.scope_of(run), s.plan_of, ticket)
        return self._told(work, ticket, until_us)

    def attended_saga(
        self, steps: list[SagaStep], ticket: ActionHandle, name: str, operation: str | None, wait: float, run: str
    ) -> Outcome:
        """Run a saga as `saga` does. The ticket receives the saga's id at once."""
        s = self._session
        until_us = s.give_up_us(wait)
        request = s.saga_request(steps, name, operation)
        work = saga_attend.begin(s.engine, request, s.scope_of(run), s.plan_of, ticket)
        return self._told(work, ticket, until_us)

    def held(self, proposal: Proposal, operation: str | None) -> str:
        """Return the id of the action of this call that is held for an approval; "" for none."""
        return attempts.waiting_action(self._session, proposal, operation)

    def leave(self) -> None:
        """End this client's threads. The session stays open."""
        self._driver.close()


class LoopClient(AsyncReadback):
    """An async client of the shared session, for one event loop at a time."""

    async def attended(
        self, proposal: Proposal, ticket: ActionHandle, operation: str | None, wait: float, run: str
    ) -> Outcome:
        """Run the proposal as `run` does. The ticket receives the action's id at once."""
        s = self._session
        until_us = s.give_up_us(wait)
        request = s.request(proposal, operation, None, "")
        work = coordinator.begin(s.engine, request, s.scope_of(run), s.plan_of, ticket)
        return await self._told(work, ticket, until_us, in_turn=not request.plan.hands.execute.is_async)

    async def attended_saga(
        self, steps: list[SagaStep], ticket: ActionHandle, name: str, operation: str | None, wait: float, run: str
    ) -> Outcome:
        """Run a saga as `saga` does. The ticket receives the saga's id at once."""
        s = self._session
        until_us = s.give_up_us(wait)
        request = s.saga_request(steps, name, operation)
        work = saga_attend.begin(s.engine, request, s.scope_of(run), s.plan_of, ticket)
        return await self._told(work, ticket, until_us)

    def leave(self) -> None:
        """End this client's threads. The session stays open."""
        self._driver.close()


class Clients:
    """The clients of one kit. Safe from any thread.

    `owned`: whether the kit opened the session, and so closes the session.
    """

    def __init__(self, sync: SyncClient, *, owned: bool) -> None:
        self.sync = sync
        self._owned = owned
        self._loops: dict[asyncio.AbstractEventLoop, LoopClient] = {}
        self._lock = Lock()

    @classmethod
    def opened(cls, url: str | None, opened: Mapping[str, Any]) -> Clients:
        """Open a ledger as `Readback.open` does, and raise as it does."""
        sync = SyncClient.open(url, **opened)
        assert isinstance(sync, SyncClient)
        return cls(sync, owned=True)

    @classmethod
    def over(cls, client: Readback) -> Clients:
        """Return clients of an open client's session. The session stays open at the end."""
        return cls(SyncClient(client._session), owned=False)  # noqa: SLF001 - one session for all clients of a ledger

    @property
    def session(self) -> Session:
        """The shared session."""
        return self.sync.shared

    def know(self, plan: CompiledContract) -> None:
        """Register a contract, so that the contract's actions can be resumed."""
        self.session.know(plan)

    def here(self) -> LoopClient:
        """Return the client of the running event loop."""
        loop = asyncio.get_running_loop()
        found = self._loops.get(loop)
        if found is not None:
            return found
        with self._lock:
            ended = next((each for each in self._loops if each.is_closed()), None)
            client = LoopClient(self.session) if ended is None else self._loops.pop(ended)
            self._loops[loop] = client
        return client

    def close(self) -> None:
        """End all clients, and the session, where the kit opened it."""
        with self._lock:
            leaving, self._loops = [*self._loops.values()], {}
        for client in leaving:
            client.leave()
        if self._owned:
            self.sync.close()
        else:
            self.sync.leave()
