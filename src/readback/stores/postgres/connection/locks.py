"""Which locks a group of changes takes, and how long its leases last.

Called by the store before each transaction. Whoever appends holds its tenants' locks together with others; whoever
freezes, erases, or counts what is in flight holds them alone: so what was looked at stays true until the commit. The
schema's lock is held by all who change anything, together, and alone by who brings it up. All of a transaction's locks
are taken at once, in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from readback.canon.frozen import dataclass
from readback.ports.storage.store import Append, Projection

BUCKETS: Final = 256
"""Tenants share locks, so that a group of any number of tenants needs few."""
SCHEMA: Final = -1
"""The bucket of no tenant: the schema's."""
LEASE_MAX_US: Final = 366 * 86_400_000_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """The locks of one transaction: to be held with others, and alone."""

    shared: list[int]
    exclusive: list[int]


@dataclass(frozen=True, slots=True)
class Locks:
    """`lock_class`: of this ledger. `own_clock`: leases are judged by the database's clock, not by the callers'."""

    lock_class: int
    own_clock: bool

    def wanted(self, items: Sequence[Append], pacing: Sequence[str]) -> Wanted:
        """Of these appends, and of tenants that reserve looks."""
        shared = {SCHEMA}
        exclusive = {BUCKETS + bucket_of(tenant) for tenant in pacing}
        for item in items:
            alone = item.freezes or item.lifts or item.erases is not None or item.in_flight_max
            (exclusive if alone else shared).add(bucket_of(item.tenant))
        return Wanted(sorted(shared - exclusive), sorted(exclusive))

    def lease_us(self, projection: Projection) -> int:
        """How long the lease of a projection lasts by the database's clock, or until when it lasts by the caller's."""
        if not projection.lease_owner:
            return 0
        if not self.own_clock:
            return projection.lease_until_us
        return min(max(projection.lease_until_us - projection.updated_us, 0), LEASE_MAX_US)


def bucket_of(tenant: str) -> int:
    return crc32(tenant.encode("utf-8", "surrogatepass")) % BUCKETS
