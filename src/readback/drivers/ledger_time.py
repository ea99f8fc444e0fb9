"""One clock for all workers of a ledger: the clock of the ledger's database, if the database has one.

The session calls this module while opening. One worker writes an attempt's window and another judges it. With two
clocks apart, a worker could believe too early that no late effect can land.
"""

from __future__ import annotations

from typing import Final

from readback.ports.runtime import Runtime, WallClock
from readback.ports.storage.store import LedgerStore, OwnClock

ASKED_MAX: Final = 5
NEAR_US: Final = 2_000
"""A clock reading within this time is precise enough, and ends the measurement."""


class LedgerRuntime:
    """A runtime with a clock shifted by a constant. Everything else is the wrapped runtime's."""

    def __init__(self, runtime: Runtime, ahead_us: int) -> None:
        self._runtime, self._ahead_us = runtime, ahead_us
        self.new_id, self.jitter, self.notify = runtime.new_id, runtime.jitter, runtime.notify
        self.owner, self.is_owner_dead = runtime.owner, runtime.is_owner_dead
        self.sleep, self.sleep_async = runtime.sleep, runtime.sleep_async

    def now_us(self) -> int:
        """The current time by the database's clock."""
        return self._runtime.now_us() + self._ahead_us


def in_ledger_time(store: LedgerStore, runtime: Runtime) -> Runtime:
    """Return the runtime, shifted to the store's clock if the two clocks provably differ. Raises StoreError.

    A virtual runtime is returned unchanged. The difference is known within half a round trip. The session measures it
    once, so a later change of a clock goes unnoticed.
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
