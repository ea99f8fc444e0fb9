"""The changes requested by callers, each a value in the queue of the group commit.

Created by the store, executed by the group's leader inside its transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Protocol

from readback.canon.frozen import dataclass
from readback.ports.storage.batch_reads import LeaseWanted
from readback.ports.storage.store import Append, AppendResult
from readback.ports.storage.store_rules import refuse_malformed
from readback.stores.postgres.blob_store import Kept, Name
from readback.stores.postgres.connection import row_encoding, rows
from readback.stores.postgres.connection.schema import LEASE_MAX_US
from readback.stores.postgres.writing.transaction import Transaction


def _nothing(kept: Kept) -> None:
    """Do nothing: no evidence is in object storage."""


class Work(Protocol):
    """A change to apply within a shared transaction. The change may be applied again if nothing was stored."""

    def apply(self, transaction: Transaction) -> object: ...


@dataclass(slots=True)
class AppendWork:
    """A batch of appends. `outside`: large evidence in object storage."""

    batch: Sequence[Append]
    outside: dict[Name, Kept] = field(default_factory=dict)
    ensure: Callable[[Kept], None] = _nothing

    def check(self) -> None:
        for item in self.batch:
            refuse_malformed(item)

    def apply(self, transaction: Transaction) -> list[AppendResult]:
        if self.outside:
            if transaction.anything_erased():  # and its objects may have been removed before the locks were acquired
                for kept in self.outside.values():
                    self.ensure(kept)
            transaction.outside |= self.outside
        return [transaction.append(item) for item in self.batch]


@dataclass(frozen=True, slots=True)
class LeaseWork:
    """Acquire a lease. Result: the new fence, or None. `own_clock`: the database's clock decides on live leases."""

    action_id: str
    owner: str
    now_us: int
    until_us: int
    dead: str
    own_clock: bool

    def apply(self, transaction: Transaction) -> int | None:
        lasts_us = min(max(self.until_us - self.now_us, 0), LEASE_MAX_US)
        return transaction.take_lease(
            self.action_id,
            {
                "id": self.action_id,
                "owner": self.owner,
                "now": self.now_us,
                "until": self.until_us,
                "ends": lasts_us if self.own_clock else self.until_us,
                "own": self.own_clock,
                "dead": self.dead,
            },
        )


@dataclass(frozen=True, slots=True)
class LeasesWork:
    """Acquire many leases. Result: a fence, or None, for each."""

    wanted: Sequence[LeaseWanted]
    owner: str
    now_us: int
    own_clock: bool

    def apply(self, transaction: Transaction) -> list[int | None]:
        ids = [each.action_id for each in self.wanted]
        untils = [each.until_us for each in self.wanted]
        ends = [min(max(at_us - self.now_us, 0), LEASE_MAX_US) for at_us in untils] if self.own_clock else untils
        found = transaction.take_leases(
            ids,
            {
                "ids": row_encoding.texts(ids),
                "owner": self.owner,
                "now": self.now_us,
                "untils": row_encoding.numbers(untils),
                "ends": row_encoding.numbers(ends),
                "own": self.own_clock,
                "dead": row_encoding.texts([each.dead for each in self.wanted]),
            },
        )
        return [found.get(action_id) for action_id in ids]


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
        transaction.flush()
        transaction.all(rows.RELEASE, (self.owner,))


@dataclass(frozen=True, slots=True)
class PaceWork:
    """Reserve a read slot. Result: the time of the slot."""

    tenant: str
    now_us: int
    wanted_us: int
    per_minute: int

    def apply(self, transaction: Transaction) -> int:
        return transaction.pace(self.tenant, self.now_us, self.wanted_us, self.per_minute)
