"""The tenants of a worker: one, several, or all, each in turn.

Used by the worker, in Python and behind the command line. For all tenants together, the store lets no tenant wait
behind another's backlog; this module does the same for named tenants.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from readback.canon.frozen import dataclass
from readback.client.session import check_id
from readback.errors import UnknownTenantError, UsageError
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import LedgerStore
from readback.ports.storage.wakeups import due_in_turn

TENANTS_MAX: Final = 256
ROOM_FOR_OTHERS: Final = 4
"""Among several tenants, each leaves at least a quarter of a worker's capacity to the others."""


@dataclass(frozen=True, slots=True)
class Served:
    """The tenants served by a worker; an empty set stands for all tenants."""

    tenants: tuple[str, ...]

    @classmethod
    def of(cls, named: Iterable[str], default: str, *, everybody: bool) -> Served:
        """Return the caller's choice. Raises UsageError, and UnknownTenantError for an empty name, which would mean
        all.
        """
        if isinstance(named, str) or not isinstance(named, Iterable):
            raise UsageError("tenants must be a list of tenants.", remedy="Pass tenants=['...'].")
        if everybody and named:
            raise UsageError("Both named tenants and all tenants are requested.", remedy="Pass one of the two.")
        if everybody:
            return cls(())
        found = (*named,) or (default,)
        for each in found:
            check_id("tenant", each, UnknownTenantError)
        found = tuple(dict.fromkeys(found))
        if len(found) > TENANTS_MAX:
            raise UsageError(
                f"{len(found)} tenants are named, over the limit.", remedy=f"Name up to {TENANTS_MAX}, or all of them."
            )
        return cls(found)

    @property
    def one(self) -> str:
        """The only tenant; "" where there are several."""
        return self.tenants[0] if len(self.tenants) == 1 else ""

    @property
    def said(self) -> str:
        if not self.tenants:
            return "every tenant"
        word = "tenant" if self.one else "tenants"
        return f"{word} {', '.join(self.tenants)}"

    def due(self, store: LedgerStore, now_us: int, limit: int, known: ContractFilter | None = None) -> list[str]:
        """Return due ids with known contracts: every tenant's first, then every tenant's second."""
        return due_in_turn(store, self.tenants, now_us, limit, known)

    def share(self, concurrency: int) -> int:
        """Return the maximum number of one tenant's actions in progress, so that other tenants have room."""
        if self.one or concurrency == 1:
            return concurrency
        return concurrency - max(1, concurrency // ROOM_FOR_OTHERS)
