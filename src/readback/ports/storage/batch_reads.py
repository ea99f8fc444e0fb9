"""Batch operations of a remote ledger store: many reads, or many leases, in a single round trip.

The async driver and the worker use batch operations of stores with such methods. A local store has no need of batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from readback.canon.frozen import dataclass
from readback.ports.storage.store import Evidence, Opened, StoredEvent, StoredProjection


@dataclass(frozen=True, slots=True)
class LeaseWanted:
    """A lease in a batch of requests; see `LedgerStore.lease`."""

    action_id: str
    until_us: int
    dead: str = ""


@runtime_checkable
class BatchReads(Protocol):
    """An addition to `LedgerStore` for stores behind a network: many reads in a single round trip.

    The docstring of each method names a method of the port. Results and errors are the same.
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
        """The results of `counts`, for each given tenant."""
        ...

    def leases(self, wanted: Sequence[LeaseWanted], owner: str, now_us: int) -> list[int | None]:
        """The results of `lease` for each, in a single transaction. No action is named twice."""
        ...
