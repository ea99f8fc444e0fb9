"""Batch operations of a remote ledger store: many reads, or many leases, in one round trip.

Used by the async driver and the worker, if the store offers them. A local store has no need to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from readback.canon.frozen import dataclass
from readback.ports.storage.store import Evidence, Opened, StoredEvent, StoredProjection


@dataclass(frozen=True, slots=True)
class LeaseWanted:
    """One of many leases requested together; see `LedgerStore.lease`."""

    action_id: str
    until_us: int
    dead: str = ""


@runtime_checkable
class LooksTogether(Protocol):
    """An addition to `LedgerStore` for stores behind a network: many reads in one round trip.

    Each method returns, and raises, as the port's method named in its docstring.
    """

    def openings(self, asked: Sequence[tuple[str, str, Sequence[str]]]) -> list[Opened]:
        """The results of `opening` for each (tenant, key hash, subjects)."""
        ...

    def projections_of(self, action_ids: Sequence[str]) -> dict[str, StoredProjection]:
        """The results of `projection`, for existing actions."""
        ...

    def actions_of(self, action_ids: Sequence[str]) -> dict[str, tuple[StoredProjection, list[StoredEvent]]]:
        """The results of `projection` and `events`, for existing actions. The events may be newer."""
        ...

    def evidence_of(self, asked: Sequence[tuple[str, str, str]]) -> list[Evidence | None]:
        """The results of `evidence` for each (tenant, action id, digest)."""
        ...

    def counts_of(self, tenants: Sequence[str]) -> dict[str, list[tuple[str, str, int]]]:
        """The results of `counts`, for each of these tenants."""
        ...

    def leases(self, wanted: Sequence[LeaseWanted], owner: str, now_us: int) -> list[int | None]:
        """The results of `lease` for each, in one transaction. Each action is named once."""
        ...
