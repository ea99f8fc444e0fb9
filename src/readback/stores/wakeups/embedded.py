"""The embedded scheduler: wake-ups directly from the ledger, for one machine, without a service to start.

Chosen by `bootstrap` for every ledger without a queue of its own. The scheduler queries due actions and stores nothing,
so nothing can be lost. A worker's death is proved by its process, and its actions become due again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from readback.ports.runtime import Runtime
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import LedgerStore
from readback.ports.storage.wakeups import Wakeup, due_in_turn


class EmbeddedWakeups:
    """Implements `Wakeups` over a store's `due`."""

    def __init__(self, store: LedgerStore, runtime: Runtime) -> None:
        self._store, self._runtime = store, runtime

    @property
    def beat_every_us(self) -> int:
        return 0

    async def take(
        self,
        tenants: Sequence[str],
        limit: int,
        leave: Collection[str] = (),
        full: Collection[str] = (),
        known: ContractFilter | None = None,
    ) -> list[Wakeup]:
        open_to = [tenant for tenant in tenants if tenant not in full]
        if not open_to and tenants:
            return []
        due = due_in_turn(self._store, open_to, self._runtime.now_us(), limit + len(leave) + len(full) * limit, known)
        fresh = [action_id for action_id in due if action_id not in leave]
        if full and not tenants:
            fresh = [action_id for action_id in fresh if self._tenant_of(action_id) not in full]
        return [Wakeup(action_id) for action_id in fresh[:limit]]

    def _tenant_of(self, action_id: str) -> str:
        stored = self._store.projection(action_id)
        return stored.projection.tenant if stored is not None else ""

    async def done(self, wakeup: Wakeup) -> None:
        """Do nothing: there is no stored wake-up to end."""

    async def later(self, wakeup: Wakeup, at_us: int) -> None:
        """Do nothing: the action stays due for other workers, and this worker skips the action itself."""

    async def beat(self) -> list[str]:
        return [owner for owner in self._store.owners() if self._runtime.is_owner_dead(owner)]

    async def next_us(self, tenants: Sequence[str]) -> int | None:
        found = [self._store.next_due_us(tenant) for tenant in tenants or ("",)]
        return min((at_us for at_us in found if at_us is not None), default=None)

    async def pause(self, seconds: float) -> None:
        await self._runtime.sleep_async(seconds)

    async def close(self) -> None:
        """Do nothing: a lease owner releases its leases through the store."""
