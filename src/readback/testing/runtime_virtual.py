"""The runtime port under virtual time: hours pass in milliseconds, and one seed gives one history.

Pass the runtime to `Readback.open(runtime=...)` in tests and simulations. A sync sleep advances the clock at once. An
async sleep waits for its turn: the clock jumps to the earliest sleeper if the event loop is otherwise idle. Real work
outside the loop's view (a thread of your own) belongs inside `holding()`, where time stands still. Never use this
runtime with real systems and their own time.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from weakref import WeakKeyDictionary

from readback.canon.frozen import dataclass

START_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z, so printed times look real."""
US_PER_SECOND = 1_000_000
REAL_PAUSE_SECONDS = 0.001
"""The loop's real wait for a thread before the next check for idleness, in seconds."""
STALE_SLEEPERS_MAX = 64
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


@dataclass(order=True, slots=True)
class _Sleeper:
    due_us: int
    order: int
    woken: asyncio.Future[None] = field(compare=False)


@dataclass(slots=True)
class _Clock:
    """The time shared by several runtimes, with the sleepers."""

    now_us: int
    lock: threading.RLock = field(default_factory=threading.RLock)
    sleepers: list[_Sleeper] = field(default_factory=list)
    order: int = 0
    holds: int = 0
    last_id: int = 0
    asleep: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = field(default_factory=WeakKeyDictionary)
    """The number of sleeping tasks of each loop. A loop in here is watched for idleness."""
    gone: set[str] = field(default_factory=set)


class VirtualRuntime:
    """A `Runtime` with time, ids and jitter from `seed` alone."""

    def __init__(self, seed: int = 0, start_us: int = START_US, owner: str = "virtual/1") -> None:
        self._clock = _Clock(start_us)
        self._ids = random.Random(f"ids {seed}")
        self._chances = random.Random(f"jitter {seed}")
        self._owner = owner

    def sibling(self, owner: str) -> VirtualRuntime:
        """Return another process on the same machine: same time and ids, another owner."""
        twin = VirtualRuntime(owner=owner)
        twin._clock, twin._ids, twin._chances = self._clock, self._ids, self._chances
        return twin

    # --- the port ------------------------------------------------------------------------------------

    def now_us(self) -> int:
        return self._clock.now_us

    def new_id(self) -> str:
        with self._clock.lock:
            drawn = (self._clock.now_us // 1000) << 80 | self._ids.getrandbits(64)
            self._clock.last_id = number = max(drawn, self._clock.last_id + 1)
        return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))

    def jitter(self) -> float:
        with self._clock.lock:
            return self._chances.random()

    def owner(self) -> str:
        return self._owner

    def is_owner_dead(self, owner: str) -> bool:
        return owner in self._clock.gone

    def sleep(self, seconds: float) -> None:
        """Advance the clock. Sleepers wake in order of time."""
        self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        self._enter(seconds, woken)
        try:
            await woken
        finally:
            with self._clock.lock:
                self._clock.asleep[loop] -= 1

    def notify(self) -> None:
        with self._clock.lock:
            sleepers = list(self._clock.sleepers)
        for sleeper in sleepers:
            _wake(sleeper)

    # --- for tests -----------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake every due async sleeper."""
        if seconds < 0:
            raise ValueError("Time does not step back.")
        with self._clock.lock:
            self._jump(self._clock.now_us + round(seconds * US_PER_SECOND))

    def declare_gone(self, owner: str) -> None:
        """Declare the owner's process provably ended."""
        self._clock.gone.add(owner)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Stop the jumps of time during real work outside the event loop's view."""
        with self._clock.lock:
            self._clock.holds += 1
        try:
            yield
        finally:
            with self._clock.lock:
                self._clock.holds -= 1

    # --- how time jumps ------------------------------------------------------------------------------

    def _enter(self, seconds: float, woken: asyncio.Future[None]) -> None:
        clock, loop = self._clock, woken.get_loop()
        with clock.lock:
            clock.order += 1
            due_us = clock.now_us + round(max(seconds, 0.0) * US_PER_SECOND)
            heapq.heappush(clock.sleepers, _Sleeper(due_us, clock.order, woken))
            if loop not in clock.asleep:
                clock.asleep[loop] = 0
                loop.call_soon(self._look, loop)
            clock.asleep[loop] += 1
            if len(clock.sleepers) > 2 * sum(clock.asleep.values()) + STALE_SLEEPERS_MAX:
                clock.sleepers = [sleeper for sleeper in clock.sleepers if not _is_stale(sleeper)]
                heapq.heapify(clock.sleepers)

    def _first(self) -> _Sleeper | None:
        """Return the earliest sleeper. Woken and cancelled sleepers stay in the heap until their turn."""
        sleepers = self._clock.sleepers
        while sleepers and _is_stale(sleepers[0]):
            heapq.heappop(sleepers)
        return sleepers[0] if sleepers else None

    def _jump(self, to_us: int) -> None:
        clock = self._clock
        while (sleeper := self._first()) is not None and sleeper.due_us <= to_us:
            heapq.heappop(clock.sleepers)
            clock.now_us = max(clock.now_us, sleeper.due_us)
            _wake(sleeper)
        clock.now_us = max(clock.now_us, to_us)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Jump if the loop has nothing else to run. Check again while any task sleeps.

        CPython's loop takes callbacks off `_ready` singly, so an empty queue inside a callback means an otherwise idle
        loop. No public interface answers this question.
        """
        clock = self._clock
        with clock.lock:
            if not clock.asleep.get(loop):
                clock.asleep.pop(loop, None)
                return
            if getattr(loop, "_ready", None):
                loop.call_soon(self._look, loop)
            elif clock.holds or _threads_at_work(loop):
                loop.call_later(REAL_PAUSE_SECONDS, self._look, loop)
            else:
                first = self._first()
                if first is not None:
                    self._jump(first.due_us)
                loop.call_soon(self._look, loop)


def _is_stale(sleeper: _Sleeper) -> bool:
    return sleeper.woken.done() or sleeper.woken.get_loop().is_closed()


def _wake(sleeper: _Sleeper) -> None:
    """Set the future from any thread. A closed loop has no task to wake."""
    loop = sleeper.woken.get_loop()
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        _finish(sleeper.woken)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(_finish, sleeper.woken)


def _finish(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def _threads_at_work(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop's own thread pool (`asyncio.to_thread`) is at work.

    Threads beside the pool are invisible here: `holding()` is for such threads.
    """
    pool = getattr(loop, "_default_executor", None)
    if pool is None:
        return False
    idle: int = pool._idle_semaphore._value  # noqa: SLF001 - a test's clock; there is no public way to ask
    return pool._work_queue.qsize() > 0 or idle < len(pool._threads)  # noqa: SLF001
