"""What a ledger store far away offers beside its port: many looks, or many leases, in one journey.

Asked by the async driver and the worker, where a store keeps it; a store beside its callers has no need to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from readback.canon.frozen import dataclass
from readback.ports.storage.store import Evidence, Opened, StoredEvent, StoredProjection


@dataclass(frozen=True, slots=True)
class LeaseWanted:
    """One of many leases that are asked for together; see `LedgerStore.lease`."""

    action_id: str
    until_us: int
    dead: str = ""


@runtime_checkable
class LooksTogether(Protocol):
    """What a store offers beside `LedgerStore` where a look is a journey over a network: many of them in one.

    Each method answers, and raises, as the one of the port that its docstring names.
    """

    def openings(self, asked: Sequence[tuple[str, str, Sequence[str]]]) -> list[Opened]:
        """What `opening` answers to each (tenant, key hash, subjects)."""
        ...

    def projections_of(self, action_ids: Sequence[str]) -> dict[str, StoredProjection]:
        """What `projection` answers, of those that there are."""
        ...

    def actions_of(self, action_ids: Sequence[str]) -> dict[str, tuple[StoredProjection, list[StoredEvent]]]:
        """What `projection` and `events` answer, of those that there are. The events may be younger."""
        ...

    def evidence_of(self, asked: Sequence[tuple[str, str, str]]) -> list[Evidence | None]:
        """What `evidence` answers to each (tenant, action id, digest)."""
        ...

    def counts_of(self, tenants: Sequence[str]) -> dict[str, list[tuple[str, str, int]]]:
        """What `counts` answers, for each of these tenants."""
        ...

    def leases(self, wanted: Sequence[LeaseWanted], owner: str, now_us: int) -> list[int | None]:
        """What `lease` answers to each, in one transaction. Each action is named once."""
        ...
