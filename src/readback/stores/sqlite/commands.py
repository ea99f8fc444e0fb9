"""The changes requested by callers, each a value in the queue of the group commit.

Created by the store, executed by the group's leader inside its transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from readback.canon.frozen import dataclass
from readback.ports.storage.store import Append, AppendResult
from readback.ports.storage.store_rules import refuse_malformed
from readback.stores.sqlite import rows
from readback.stores.sqlite.outbox import OutgoingWork
from readback.stores.sqlite.sealing import CosignWork, MarkWork, SealWork
from readback.stores.sqlite.transaction import Transaction


@dataclass(slots=True)
class AppendWork:
    """A batch of appends. Not frozen, unlike other values: freezing would triple the cost of creation."""

    batch: Sequence[Append]

    def check(self) -> None:
        for item in self.batch:
            refuse_malformed(item)

    def apply(self, transaction: Transaction) -> list[AppendResult]:
        return [transaction.append(item) for item in self.batch]


@dataclass(frozen=True, slots=True)
class LeaseWork:
    """Acquire a lease. Result: the new fence, or None."""

    action_id: str
    owner: str
    now_us: int
    until_us: int
    dead: str

    def apply(self, transaction: Transaction) -> int | None:
        return transaction.take_lease(
            {
                "id": self.action_id,
                "owner": self.owner,
                "now": self.now_us,
                "until": self.until_us,
                "dead": self.dead,
            }
        )


@dataclass(frozen=True, slots=True)
class WakeWork:
    """Bring a due time forward. Result: whether there was a due time."""

    action_id: str
    at_us: int

    def apply(self, transaction: Transaction) -> bool:
        transaction.flush()
        return transaction.one(rows.WAKE, {"id": self.action_id, "at": self.at_us}) is not None


@dataclass(frozen=True, slots=True)
class ReleaseWork:
    """Release the leases of a dead owner."""

    owner: str

    def apply(self, transaction: Transaction) -> None:
        transaction.release(self.owner)


@dataclass(frozen=True, slots=True)
class PaceWork:
    """Reserve a read slot. Result: the time of the slot."""

    tenant: str
    now_us: int
    wanted_us: int
    per_minute: int

    def apply(self, transaction: Transaction) -> int:
        return transaction.pace(self.tenant, self.now_us, self.wanted_us, self.per_minute)


Work: TypeAlias = (
    AppendWork | CosignWork | LeaseWork | MarkWork | OutgoingWork | PaceWork | ReleaseWork | SealWork | WakeWork
)
