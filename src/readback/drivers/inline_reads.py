"""Decide when a reader may run on the event loop: after its recent reads were quick.

Used by the async driver. A thread costs more than most reads do. A slow read on the loop delays every action. So each
reader must first be quick in a thread, and returns to threads after a slow read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from readback.canon.frozen import dataclass
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.ports.handlers import Glance, Handler
from readback.ports.runtime import Runtime

MOMENT_US: Final = 2_000
"""Longest duration of a quick read."""
TRIES_MAX: Final = 64
"""Most quick reads in threads required before the next read on the loop."""


@dataclass(slots=True)
class _LatencyHistory:
    """How quick a reader was. `wanted`: quick reads required before a read on the loop. Each slow read on the loop
    doubles
    `wanted`; a long run of quick reads on the loop resets `wanted` to 1.
    """

    quick: int = 0
    wanted: int = 1


class InlineReadPolicy:
    """The latency histories of one event loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lately: WeakKeyDictionary[Glance, _LatencyHistory] = WeakKeyDictionary()

    def of(self, hand: Handler, context: Context, arguments: Mapping[str, object]) -> Reading | None:
        """Return the handler's inline reading, or None if a thread must read. Raises the handler's errors."""
        lately = None if hand.glance is None else self._lately.get(hand.glance)
        if hand.glance is None or lately is None or lately.quick < lately.wanted:
            return None
        found, began_us = None, self._runtime.now_us()
        try:
            found = hand.glance(context, arguments)
        finally:
            took_us = self._runtime.now_us() - began_us
            if found is None or took_us > MOMENT_US:
                lately.quick, lately.wanted = 0, min(lately.wanted * 2, TRIES_MAX)
            else:
                lately.quick += 1
                if lately.quick >= lately.wanted + TRIES_MAX:
                    lately.wanted = 1
        return found

    def took(self, hand: Handler, us: int) -> None:
        """Record the duration of a read in a thread."""
        if hand.glance is not None:
            lately = self._lately.setdefault(hand.glance, _LatencyHistory())
            lately.quick = lately.quick + 1 if us <= MOMENT_US else 0
