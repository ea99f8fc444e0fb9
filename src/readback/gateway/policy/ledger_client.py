"""The gateway's client of the ledger: an `AsyncReadback` that says which action a call is before it has ended.

Used by the gate, which answers a caller whose patience is over, and by `tending`, which goes on with what is due.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

from readback.canon import ReadbackError
from readback.client.async_client import AsyncReadback
from readback.client.proposal import Proposal
from readback.client.taken_keys import key_of
from readback.domain.idempotency import KeyStatus, aged, may_replace
from readback.domain.outcome.outcome import Outcome
from readback.engine import coordinator
from readback.engine.compiled_contract import CompiledContract
from readback.ports.runtime import Runtime
from readback.ports.storage.store import Projection

Ticket = coordinator.ActionHandle


class GatewayClient(AsyncReadback):
    """One tenant's ledger, for as long as the gateway runs."""

    def attended(
        self, proposal: Proposal, ticket: Ticket, *, operation: str | None, wait: float, ahead: bool = False
    ) -> Coroutine[Any, Any, Outcome]:
        """As `run`; the ticket bears the action's id as soon as there is one. `ahead`: its call may be made so. A
        proposal that is refused is nobody's to run again.
        """
        s = self._session
        until_us = s.give_up_us(wait)
        try:
            request = s.request(proposal, operation, None, "", ahead=ahead)
        except ReadbackError:
            proposal.mark_run()
            raise
        return self._told(coordinator.begin(s.engine, request, s.scope, s.plan_of, ticket), ticket, until_us)

    @property
    def runtime(self) -> Runtime:
        """Clock and sleep."""
        return self._session.runtime

    def know(self, plan: CompiledContract) -> None:
        """Loads a contract, so that its actions can be gone on with; earlier versions stay for theirs."""
        self._session.know(plan)

    def each_due(self, limit: int) -> Iterator[str]:
        """Actions that somebody has to look at now, and whose contract is known here."""
        self._session.courier.sweep()
        return self._session.each_due(limit)

    def orphans(self, due_for_us: int, limit: int) -> list[Projection]:
        """Of the first so many that have been due for so long, those that nobody can go on with here."""
        s = self._session
        found = map(s.store.projection, s.store.due(s.runtime.now_us() - due_for_us, limit, s.scope.tenant))
        return [each.projection for each in found if each is not None and not s.knows(each.projection)]

    def next_due_us(self) -> int | None:
        """When the next one is due."""
        return self._session.store.next_due_us(self._session.scope.tenant)

    def version(self, action_id: str) -> int:
        """How far the action's record has come; 0 for none."""
        stored = self._session.store.projection(action_id)
        return 0 if stored is None else stored.version

    def begun(self, contract: str, operation: str) -> Projection | None:
        """The action that holds the key of an operation of a contract: the operation may not be run again under it."""
        s = self._session
        record = key_of(s.store, s.scope.tenant, contract, operation)
        if record is None or may_replace(aged(KeyStatus(record.status), record.expires_us, s.runtime.now_us())):
            return None
        stored = s.store.projection(record.action_id)
        return None if stored is None else stored.projection

    async def advance(self, action_id: str) -> None:
        """Goes on with what is due until it would have to wait."""
        await self._drive(self._session.advance(action_id, self._session.scope.tenant))

    def give_back(self) -> None:
        """Ends the leases held here, so that whoever comes next need not wait for them."""
        self._session.store.release(self._session.runtime.owner())
