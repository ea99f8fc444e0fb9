"""The gateway's ledger client: an `AsyncReadback` with the action's id known before the call ends.

Used by the gate to answer after the hold time, and by the due worker to resume actions.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any

from readback.canon import ReadbackError
from readback.client.async_client import AsyncReadback
from readback.client.operations.taken_keys import key_of
from readback.client.proposal import Proposal
from readback.domain.contract.shadowing import ShadowTerms
from readback.domain.idempotency import KeyStatus, aged, may_replace
from readback.domain.outcome.outcome import Outcome
from readback.engine import coordinator
from readback.engine.compiled_contract import CompiledContract
from readback.ports.runtime import Runtime
from readback.ports.storage.store import Projection

ActionHandle = coordinator.ActionHandle


class GatewayClient(AsyncReadback):
    """The ledger of one tenant, open while the gateway runs."""

    def attended(
        self, proposal: Proposal, ticket: ActionHandle, *, operation: str | None, wait: float, ahead: bool = False
    ) -> Coroutine[Any, Any, Outcome]:
        """Run the proposal like `run`. The handle receives the action's id at once.

        `ahead`: the call may be sent early. A rejected proposal cannot be run again.
        """
        s = self._session
        until_us = s.give_up_us(wait)
        try:
            request = s.request(proposal, operation, None, "", ahead=ahead)
        except ReadbackError:
            proposal.mark_run()
            raise
        return self._told(coordinator.begin(s.engine, request, s.scope_of(None), s.plan_of, ticket), ticket, until_us)

    @property
    def runtime(self) -> Runtime:
        """Clock and sleep."""
        return self._session.runtime

    @property
    def shadow(self) -> ShadowTerms:
        """The contracts that run in shadow mode."""
        return self._session.scope.shadow

    def watch(self, contract: str) -> None:
        """Let the contract of watched calls run in shadow mode. No call of that contract is ever enforced."""
        s = self._session
        s.scope = replace(s.scope, shadow=replace(s.scope.shadow, allowed=(*s.scope.shadow.allowed, contract)))

    def know(self, plan: CompiledContract) -> None:
        """Register a contract, so that its actions can be resumed.

        Earlier versions stay registered for their actions.
        """
        self._session.know(plan)

    def each_due(self, limit: int) -> Iterator[str]:
        """Yield due actions with a known contract."""
        self._session.courier.sweep()
        return self._session.each_due(limit)

    def orphans(self, due_for_us: int, limit: int) -> list[Projection]:
        """Return actions without a known contract among the oldest overdue actions."""
        s = self._session
        found = map(s.store.projection, s.store.due(s.runtime.now_us() - due_for_us, limit, s.scope.tenant))
        return [each.projection for each in found if each is not None and not s.knows(each.projection)]

    def next_due_us(self) -> int | None:
        """Return the next due time."""
        return self._session.store.next_due_us(self._session.scope.tenant)

    def version(self, action_id: str) -> int:
        """Return the version of the action's record; 0 for no record."""
        stored = self._session.store.projection(action_id)
        return 0 if stored is None else stored.version

    def begun(self, contract: str, operation: str) -> Projection | None:
        """Return the action with the key of this operation, if any. The contract's operation cannot run again."""
        s = self._session
        record = key_of(s.store, s.scope.tenant, contract, operation)
        if record is None or may_replace(aged(KeyStatus(record.status), record.expires_us, s.runtime.now_us())):
            return None
        stored = s.store.projection(record.action_id)
        return None if stored is None else stored.projection

    async def advance(self, action_id: str) -> None:
        """Resume the action until the next wait."""
        await self._drive(self._session.advance(action_id, self._session.scope.tenant))

    def leave(self) -> None:
        """End this client's threads. The session stays open, where another client owns it."""
        self._driver.close()

    def give_back(self) -> None:
        """Release all leases of this process, so that the next worker need not wait."""
        self._session.store.release(self._session.runtime.owner())
