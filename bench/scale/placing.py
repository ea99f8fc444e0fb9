"""Simulated: tenants of unlike size on shards, of which each holds so much. A tenant is in one log, and is not divided.

Placed by its name's hash, which needs no memory, or each new one where there is most room, which needs a table.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

TENANTS: Final = 10_000
SKEWS: Final = (0.0, 0.5, 0.8)
SHARDS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Placed:
    """`skew`: the n-th tenant has 1/n**skew of the first one's load."""

    skew: float
    largest: float
    """Actions a second of the largest tenant."""
    by_hash: int
    """Shards; 0 where the largest tenant fits on none."""
    by_room: int


def loads(rate: float, tenants: int, skew: float) -> list[float]:
    """What each tenant asks for, the largest first."""
    weights = [1 / n**skew for n in range(1, tenants + 1)]
    whole = sum(weights)
    return [rate * weight / whole for weight in weights]


def placed(rate: float, holds: float, skew: float, tenants: int = TENANTS) -> Placed:
    """How many shards are needed, so that none of them has more than it holds."""
    each = loads(rate, tenants, skew)
    if each[0] > holds:
        return Placed(skew, each[0], 0, 0)
    return Placed(skew, each[0], _by_hash(each, holds), _by_room(each, holds))


def _by_hash(each: list[float], holds: float) -> int:
    hashes = [int.from_bytes(sha256(b"tenant %d" % n).digest()[:8], "big") for n in range(len(each))]
    shards = max(1, round(sum(each) / holds))
    while shards < SHARDS_MAX:
        full = [0.0] * shards
        for place, load in zip(hashes, each, strict=True):
            full[place % shards] += load
        if max(full) <= holds:
            return shards
        shards += max(1, shards // 50)
    return 0


def _by_room(each: list[float], holds: float) -> int:
    """The largest first, each on the emptiest shard."""
    shards = max(1, round(sum(each) / holds))
    while True:
        full = [0.0] * shards
        for load in each:
            heapq.heapreplace(full, full[0] + load)
        if max(full) <= holds:
            return shards
        shards += 1
