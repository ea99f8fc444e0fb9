"""The runtime port of a real machine: clock, sleep, ids, and the processes on the machine.

`bootstrap` uses this runtime by default. Domain and engine never read a clock: times arrive with events.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readback.canon.frozen import dataclass

if TYPE_CHECKING:
    import asyncio

ID_RANDOM_BITS: Final = 80
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: sorts like numbers, and no letter reads like a digit."""
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_US_PER_MS: Final = 1000
SLEEP_SECONDS_MAX: Final = 86_400.0
"""Longer sleeps wake early, as the port allows: some platforms' locks accept no larger number."""
_OWNER_PARTS: Final = 5
_STAT_STATE: Final = 0
_STAT_START_TIME: Final = 19
"""Positions in /proc/PID/stat, counted from the command's closing bracket; see proc(5)."""


class SystemRuntime:
    """A `Runtime`. One per process is enough, for all threads and event loops."""

    wall_clock = True

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._last = (0, 0)
        """The last returned time in microseconds, and the monotonic clock at that time in nanoseconds."""
        self._last_id = 0
        self._pokes = 0
        # An RLock: a signal handler may call `notify` while a sleeper holds the lock.
        self._poked = threading.Condition(threading.RLock())
        self._sleepers: set[asyncio.Future[None]] = set()
        self._owner = (0, "")

    def now_us(self) -> int:
        """Return the wall clock. After a set-back, time runs at half speed until the clock has caught up."""
        wall_us = time.time_ns() // 1000
        if wall_us >= self._last[0]:
            # No lock: with two threads at once, the earlier time may be stored, off by their distance.
            self._last = (wall_us, time.monotonic_ns())
            return wall_us
        with self._lock:
            last_us, last_ns = self._last
            monotonic_ns = time.monotonic_ns()
            wall_us = max(time.time_ns() // 1000, last_us + (monotonic_ns - last_ns) // 2000)
            self._last = (wall_us, monotonic_ns)
            return wall_us

    def new_id(self) -> str:
        """Return 48 bits of milliseconds and 80 random bits. Within one millisecond, a random step up.

        A random step, unlike a step of 1, keeps a forked child from drawing its parent's ids.
        """
        now_ms = self.now_us() // _US_PER_MS
        chance = int.from_bytes(os.urandom(ID_RANDOM_BITS // 8))
        with self._lock:
            number = now_ms << ID_RANDOM_BITS | chance
            if number >> ID_RANDOM_BITS <= self._last_id >> ID_RANDOM_BITS:
                number = self._last_id + 1 + (chance >> (ID_RANDOM_BITS // 2))
            self._last_id = number
        return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])

    def jitter(self) -> float:
        return random.random()

    def owner(self) -> str:
        pid, name = self._owner
        if pid != os.getpid():
            pid = os.getpid()
            name = _owner_name(pid)
            self._owner = (pid, name)
        return name

    def is_owner_dead(self, owner: str) -> bool:
        """Known only for processes of this boot and of this process namespace."""
        parts = owner.split("/")
        ours = self.owner().split("/")
        if len(parts) != _OWNER_PARTS or parts[:3] != ours[:3] or not parts[1]:
            return False
        if not (parts[3].isascii() and parts[3].isdigit()):
            return False
        return _process_is_gone(int(parts[3]), started=parts[4])

    def sleep(self, seconds: float) -> None:
        with self._poked:
            seen = self._pokes
            self._poked.wait_for(lambda: self._pokes != seen, timeout=min(max(seconds, 0.0), SLEEP_SECONDS_MAX))

    async def sleep_async(self, seconds: float) -> None:
        import asyncio  # only programs with an event loop pay for the import

        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        timer = loop.call_later(max(seconds, 0.0), _finish, woken)
        with self._poked:
            self._sleepers.add(woken)
        try:
            await woken
        finally:
            timer.cancel()
            with self._poked:
                self._sleepers.discard(woken)

    def notify(self) -> None:
        """Wake sleepers. Safe from any thread and from a signal handler.

        A later sleeper misses an earlier call. Long sleepers look again in between.
        """
        with self._poked:
            self._pokes += 1
            self._poked.notify_all()
            sleepers = list(self._sleepers)
        for woken in sleepers:
            try:
                woken.get_loop().call_soon_threadsafe(_finish, woken)
            except RuntimeError:
                # The loop closed between the two lines; no task sleeps there.
                continue


def _finish(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


@dataclass(frozen=True, slots=True)
class _Stat:
    """The content of /proc/PID/stat."""

    state: str
    started: str


def _owner_name(pid: int) -> str:
    """Return host/boot/namespace/pid/start. A pid alone is reused, and means nothing in another container."""
    host = socket.gethostname().replace("/", "_")
    boot = _text_of(Path("/proc/sys/kernel/random/boot_id"))
    try:
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        namespace = ""
    stat = _stat_of(pid)
    if stat is None or not boot or not namespace:
        # Without proof of identity, the name is only unique; `is_owner_dead` never answers yes.
        return f"{host}///{pid}/{os.urandom(8).hex()}"
    return f"{host}/{boot}/{namespace}/{pid}/{stat.started}"


def _process_is_gone(pid: int, started: str) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # The process exists under another user; its start time may be readable.
    except OverflowError:
        return False
    stat = _stat_of(pid)
    if stat is None:
        return False
    if stat.started != started:
        return True  # The pid belongs to a later process.
    return stat.state in "ZX" and not _has_other_threads(pid)


def _stat_of(pid: int) -> _Stat | None:
    text = _text_of(Path(f"/proc/{pid}/stat"))
    # The command is in brackets and may contain blanks and brackets: count from the last bracket.
    fields = text.rpartition(")")[2].split()
    if len(fields) <= _STAT_START_TIME:
        return None
    return _Stat(state=fields[_STAT_STATE], started=fields[_STAT_START_TIME])


def _has_other_threads(pid: int) -> bool:
    """A process shows as a zombie after the end of the first thread, while other threads still run."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
