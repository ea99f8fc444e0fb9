"""The changes that a caller can ask for, each as a value that waits its turn in the group's queue.

Made by the store, carried out by the group's leader inside its transaction.
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
    """A batch of appends. Not frozen, as values usually are here: that would triple the cost of making it."""

    batch: Sequence[Append]

    def check(self) -> None:
        for item in self.batch:
            refuse_malformed(item)

    def apply(self, transaction: Transaction) -> list[AppendResult]:
        return [transaction.append(item) for item in self.batch]


@dataclass(frozen=True, slots=True)
class LeaseWork:
    """Taking a lease; the answer is the new fence, or None."""

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
    """Bringing a due time forward; the answer is whether there was one."""

    action_id: str
    at_us: int

    def apply(self, transaction: Transaction) -> bool:
        transaction.flush()
        return transaction.one(rows.WAKE, {"id": self.action_id, "at": self.at_us}) is not None


@dataclass(frozen=True, slots=True)
class ReleaseWork:
    """Ending the leases of an owner that is gone."""

    owner: str

    def apply(self, transaction: Transaction) -> None:
        transaction.release(self.owner)


@dataclass(frozen=True, slots=True)
class PaceWork:
    """Reserving a look; the answer is its moment."""

    tenant: str
    now_us: int
    wanted_us: int
    per_minute: int

    def apply(self, transaction: Transaction) -> int:
        return transaction.pace(self.tenant, self.now_us, self.wanted_us, self.per_minute)


Work: TypeAlias = (
    AppendWork | CosignWork | LeaseWork | MarkWork | OutgoingWork | PaceWork | ReleaseWork | SealWork | WakeWork
)
