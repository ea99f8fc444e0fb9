"""Which readers are asked on the event loop itself: those whose looks took but a moment lately.

Asked by the async driver. A thread for each look costs more than most looks do; one that holds up the loop costs
everybody. So each reader has to have been quick in a thread first, and is asked there again after it was not.
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
"""What a look may take to be asked for on the loop the next time."""
TRIES_MAX: Final = 64
"""Quick looks in threads that are asked for at most, before one is tried on the loop again."""


@dataclass(slots=True)
class _LatencyHistory:
    """How quick one reader was. `wanted`: so many quick looks come before one on the loop; each that was none there
    doubles it, and a long run of quick ones there makes it one again.
    """

    quick: int = 0
    wanted: int = 1


class InlineReadPolicy:
    """One event loop's."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lately: WeakKeyDictionary[Glance, _LatencyHistory] = WeakKeyDictionary()

    def of(self, hand: Handler, context: Context, arguments: Mapping[str, object]) -> Reading | None:
        """What the hand sees at a glance; None where a thread has to look. Raises what the hand raises."""
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
        """A look in a thread took so long."""
        if hand.glance is not None:
            lately = self._lately.setdefault(hand.glance, _LatencyHistory())
            lately.quick = lately.quick + 1 if us <= MOMENT_US else 0
