"""Where a victim can die: every durable step, every step in the world, every wait; counted, and killed at one of them.

Wrapped around the store and the runtime from outside; production code knows nothing of it. What has to outlive the
process (the count, the last point's name, the virtual clock) lies in a file that is mapped into memory.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
from collections.abc import Sequence
from pathlib import Path

from readback.adapters.runtime_system import SystemRuntime
from readback.ports.storage.store import Append, AppendResult, LedgerStore

START_US = 1_767_225_600_000_000
SIZE = 256
WAITS_MAX = 400
"""More waits than any of these runs needs: a process that goes on waiting is stuck."""


class Stuck(Exception):
    """The run waits and waits, and nothing comes of it."""


class Memory:
    """The clock, the count of points and the name of the last one; survives its process."""

    def __init__(self, path: Path) -> None:
        fresh = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(descriptor, SIZE)
        self._map = mmap.mmap(descriptor, SIZE)
        os.close(descriptor)
        if fresh:
            self.now_us = START_US

    @property
    def now_us(self) -> int:
        return int(struct.unpack_from("<q", self._map, 0)[0])

    @now_us.setter
    def now_us(self, value: int) -> None:
        struct.pack_into("<q", self._map, 0, value)

    @property
    def count(self) -> int:
        return int(struct.unpack_from("<q", self._map, 8)[0])

    @property
    def point(self) -> str:
        return bytes(self._map[16:SIZE]).rstrip(b"\0").decode()

    def note(self, count: int, point: str) -> None:
        struct.pack_into("<q", self._map, 8, count)
        self._map[16:SIZE] = point.encode()[: SIZE - 16].ljust(SIZE - 16, b"\0")


class Points:
    """Counts the points that a process passes, and ends it at the one that was ordered (0: at none)."""

    def __init__(self, memory: Memory, kill_at: int) -> None:
        self._memory = memory
        self._kill_at = kill_at
        self._count = 0
        self._last = ""
        memory.note(0, "")

    def tick(self, name: str) -> None:
        """One point more. A wait that is slept in slices is one point: nothing happens between them."""
        if name == self._last == "in a wait":
            return
        self._last = name
        self._count += 1
        self._memory.note(self._count, name)
        if self._count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class CrashRuntime(SystemRuntime):
    """The real process's identity, and a virtual clock that goes on where the last process left it."""

    def __init__(self, memory: Memory, points: Points) -> None:
        super().__init__()
        self._memory = memory
        self._points = points
        self._waits = 0

    def now_us(self) -> int:
        self._memory.now_us += 10
        return self._memory.now_us

    def sleep(self, seconds: float) -> None:
        self._waits += 1
        if self._waits > WAITS_MAX:
            raise Stuck
        self._points.tick("in a wait")
        self._memory.now_us += int(seconds * 1_000_000)

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


class KillingStore:
    """A store that passes everything on, and may be the end of its process before and after each change."""

    def __init__(self, inner: LedgerStore, points: Points) -> None:
        self._inner = inner
        self._tick = points.tick

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        kinds = ",".join(event.kind for item in batch for event in item.events)
        self._tick(f"before the append of {kinds}")
        results = self._inner.append(batch)
        self._tick(f"after the append of {kinds}")
        return results

    def lease(self, action_id: str, owner: str, now_us: int, until_us: int, dead: str = "") -> int | None:
        self._tick("before a lease")
        fence = self._inner.lease(action_id, owner, now_us, until_us, dead)
        self._tick("after a lease")
        return fence

    def release(self, owner: str) -> None:
        self._tick("before a release")
        self._inner.release(owner)
        self._tick("after a release")
