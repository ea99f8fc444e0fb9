"""Clock, sleep and identity: the parts of the environment replaced by a simulation.

Called by the drivers. The engine itself never asks: times arrive with the answers.

A virtual clock must own all of this, and nothing else: `now_us`, both sleeps with `notify`, `new_id` and `jitter` (they
decide polls and their order), and `owner` with `is_owner_dead` (they decide takeovers of leases). Call limits stay
on the machine's own clock: the driver abandons a hanging reader or tool after its `timeout`, and an adapter's sockets
have their own timeouts.

Threads:

- `now_us`, `new_id`, `jitter`, `owner` and `is_owner_dead` are called from any thread, several at a time, and must not
  block. Callers are the sync client, workers and background threads, and the async client's event loop.
- `sleep` is called from threads of the sync client, including its workers, and blocks its caller alone.
- `sleep_async` is called on an event loop, by several tasks at a time.
- `notify` is called from any thread and from the event loop, also during sleeps, and wakes all sleepers.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class Runtime(Protocol):
    """Passed to `Readback.open(runtime=...)`; the default is the system's.

    Times are integer microseconds since the epoch and never step back within one process.
    """

    def now_us(self) -> int:
        """The current time."""
        ...

    def new_id(self) -> str:
        """A fresh id of 26 lower-case ASCII letters and digits, in the order of creation."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1), to spread polls."""
        ...

    def owner(self) -> str:
        """This process's name for others: the owner of leases taken here."""
        ...

    def is_owner_dead(self, owner: str) -> bool:
        """True only if the owner provably has ended (same machine, process ended)."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block this thread; may return early after a `notify`."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Suspend this task; may return early after a `notify`."""
        ...

    def notify(self) -> None:
        """Wake every sleeper: an event of possible interest happened."""
        ...


@runtime_checkable
class WallClock(Protocol):
    """A runtime with the machine's time, possibly wrong. A virtual runtime lacks this mark."""

    wall_clock: bool
