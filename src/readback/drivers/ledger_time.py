"""One time for all who work on a ledger: that of its database, where it has one, whatever their machines take it to be.

Called by the session as it opens. An attempt's window is written down by who made it and judged by who goes on with it:
were these two clocks apart, one could believe that nothing lands any more before it is so.
"""

from __future__ import annotations

from typing import Final

from readback.ports.runtime import Runtime, WallClock
from readback.ports.storage.store import LedgerStore, OwnClock

ASKED_MAX: Final = 5
NEAR_US: Final = 2_000
"""An answer that came within this is near enough: it is asked no more."""


class LedgerRuntime:
    """A runtime whose clock is ahead by always the same; everything else is the runtime's own."""

    def __init__(self, runtime: Runtime, ahead_us: int) -> None:
        self._runtime, self._ahead_us = runtime, ahead_us
        self.new_id, self.jitter, self.poke = runtime.new_id, runtime.jitter, runtime.poke
        self.owner, self.is_gone = runtime.owner, runtime.is_gone
        self.sleep, self.sleep_async = runtime.sleep, runtime.sleep_async

    def now_us(self) -> int:
        """The time now, as the ledger's database has it."""
        return self._runtime.now_us() + self._ahead_us


def in_ledger_time(store: LedgerStore, runtime: Runtime) -> Runtime:
    """The runtime, set by the store's clock where that has one and the two are provably apart. Raises StoreError.

    What is virtual stays as it is. How far they are apart is known within half the time that asking takes, and measured
    once: a clock that is set while the session is open is not noticed.
    """
    if not isinstance(runtime, WallClock) or not isinstance(store, OwnClock):
        return runtime
    best: tuple[int, int] | None = None
    for _ in range(ASKED_MAX):
        asked_us = runtime.now_us()
        said_us = store.clock_us()
        if said_us is None:
            return runtime
        took_us = runtime.now_us() - asked_us
        found = (took_us, said_us - asked_us - took_us // 2)
        best = found if best is None else min(best, found)
        if took_us <= NEAR_US:
            break
    took_us, ahead_us = best or (0, 0)
    return LedgerRuntime(runtime, ahead_us) if abs(ahead_us) > took_us else runtime
