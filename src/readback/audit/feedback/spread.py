"""How long things take, in bounded memory: a histogram whose buckets grow with the value.

Used by feedback. A percentile is the upper edge of its bucket, so it is never too small, and at most an eighth too
large. Pure arithmetic.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from readback.canon.frozen import dataclass

FINE_BITS: Final = 3
"""Each power of two has eight buckets."""


@dataclass(slots=True)
class Spread:
    """Durations in microseconds."""

    count: int = 0
    longest_us: int = 0
    _buckets: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, duration_us: int) -> None:
        """Takes one more; a clock that stepped back counts as no time."""
        value = max(duration_us, 0)
        shift = max(value.bit_length() - FINE_BITS - 1, 0)
        at = (shift, value >> shift)
        self._buckets[at] = self._buckets.get(at, 0) + 1
        self.count += 1
        self.longest_us = max(self.longest_us, value)

    def percentile_us(self, percent: int) -> int:
        """So many percent took no longer than this; 0 where nothing was counted."""
        wanted = -(-self.count * percent // 100)
        seen = 0
        for shift, top in sorted(self._buckets):
            seen += self._buckets[shift, top]
            if seen >= wanted:
                return min(((top + 1) << shift) - 1, self.longest_us)
        return self.longest_us
