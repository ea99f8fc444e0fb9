"""Clock, sleep and identity: everything an action needs that a caller's simulation may want to own.

Called by the drivers. The engine itself never asks: times reach it with what happened.

A virtual clock has to own all of this, and nothing else: `now_us`, both sleeps with `poke`, `new_id` and `jitter`
(what is drawn from them decides polls and their order), and `owner` with `is_gone` (whose lease may be taken over).
Beside them stand only the limits of the calls themselves: a reader or tool that hangs is given up by the driver after
its `timeout`, measured on the machine's own clock, and an adapter's sockets have timeouts of their own.

Threads. `now_us`, `new_id`, `jitter`, `owner` and `is_gone` are called from any thread, several at a time, and must
not block: the sync client's callers, its workers and couriers, and the event loop of the async client. `sleep` is
called from threads of the sync client, its workers among them, and blocks its caller alone. `sleep_async` is called on
an event loop, by several tasks at a time. `poke` is called from any thread and from the event loop, also while others
sleep in either way, and wakes them all.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class Runtime(Protocol):
    """Given to `Readback.open(runtime=...)`; the default is the system's.

    Times are integer microseconds since the epoch and never step back within one process.
    """

    def now_us(self) -> int:
        """The time now."""
        ...

    def new_id(self) -> str:
        """A fresh id of 26 lower-case ASCII letters and digits, in the order of creation."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1), to spread polls."""
        ...

    def owner(self) -> str:
        """Who we are to other processes: the owner of leases taken here."""
        ...

    def is_gone(self, owner: str) -> bool:
        """True only where that owner provably runs no more (same machine, process ended)."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block this thread; may return early when `poke` is called."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Suspend this task; may return early when `poke` is called."""
        ...

    def poke(self) -> None:
        """Wake every sleeper: something happened that it may want to look at."""
        ...


@runtime_checkable
class WallClock(Protocol):
    """A runtime whose time is its machine's, which may be wrong; what is virtual has no such mark."""

    wall_clock: bool
