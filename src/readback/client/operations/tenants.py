"""Whose actions a worker goes on with: one tenant's, several tenants', or everybody's, each in its turn.

Used by the worker, in Python and behind the command line. The store lets nobody wait behind another's backlog where all
tenants are asked for at once; here the same holds for those that are named.
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
"""Of several tenants none takes more than all but a quarter of what a worker does at once."""


@dataclass(frozen=True, slots=True)
class Served:
    """The tenants that are served; none named stands for all of them."""

    tenants: tuple[str, ...]

    @classmethod
    def of(cls, named: Iterable[str], default: str, *, everybody: bool) -> Served:
        """As a caller says it. Raises UsageError, and UnknownTenantError for what is none: an empty one means all."""
        if isinstance(named, str) or not isinstance(named, Iterable):
            raise UsageError("tenants is a list of tenants.", remedy="Pass tenants=['...'].")
        if everybody and named:
            raise UsageError("Both some tenants and all of them are named.", remedy="Leave one of the two away.")
        if everybody:
            return cls(())
        found = (*named,) or (default,)
        for each in found:
            check_id("tenant", each, UnknownTenantError)
        found = tuple(dict.fromkeys(found))
        if len(found) > TENANTS_MAX:
            raise UsageError(f"{len(found)} tenants are named.", remedy=f"Name up to {TENANTS_MAX}, or all of them.")
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
        """Ids that are due (of what is known): every tenant's first, then every tenant's second."""
        return due_in_turn(store, self.tenants, now_us, limit, known)

    def share(self, concurrency: int) -> int:
        """How many actions of one tenant may be in hand at once, so that there is room for another's."""
        if self.one or concurrency == 1:
            return concurrency
        return concurrency - max(1, concurrency // ROOM_FOR_OTHERS)
