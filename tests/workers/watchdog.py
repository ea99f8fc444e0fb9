"""Every run of the tests ends in bounded time, and says which test hung.

One limit, `faulthandler_timeout` of the settings, bounds a test, its fixtures and their end, each by itself:

- at six tenths of it the test is failed where it stands, with the stacks of all threads and tasks and the processes
  that it started; each tenth later once more, where that does not end it;
- at eight tenths its process is ended with all that it started;
- at the whole of it, for all three together, pytest's own watchdog ends the process without asking the interpreter;
- a run over several processes is ended at nine limits, whatever it does then.

Zero switches all of it off. SIGALRM is left alone: the synchronous client uses it where nobody else does.
"""

from __future__ import annotations

import asyncio
import faulthandler
import io
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType

import pytest

INTERRUPT, AGAIN, END, RUN = 0.6, 0.1, 0.8, 9.0
"""When a test is interrupted, how long after that again, when its process and when a whole run ends; in limits."""
TICKS = 100
"""How often the clock is looked at in one limit."""
EXIT = 70
SIGNAL = signal.SIGUSR2
NAME = "tests-watchdog"


def watch(config: pytest.Config) -> None:
    """Watches the tests of this process, or the run that it deals out."""
    limit_s = float(config.getini("faulthandler_timeout") or 0)
    if limit_s > 0:
        config.pluginmanager.register(RunLimit(limit_s) if deals(config) else Watchdog(limit_s))


def deals(config: pytest.Config) -> bool:
    """Whether this process hands the tests to others, and runs none."""
    return config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")


class Hung(BaseException):
    """A test did not end. No `except Exception` of the code under test keeps it."""


class Clock:
    """Looks at the time beside what is watched: interrupts it by a signal, and ends the process where that fails."""

    def __init__(self, interrupt_s: float, again_s: float, end_s: float) -> None:
        self.interrupt_s, self.again_s, self.end_s = interrupt_s, again_s, end_s
        self.interrupted: Callable[[str], None] = lambda watched: None
        """Raises, in the main thread."""
        self._watched: tuple[str, float] | None = None
        self._over = threading.Event()
        self._stderr = os.dup(stderr_of_the_process())

    def start(self, tick_s: float) -> None:
        signal.signal(SIGNAL, self._signalled)
        threading.Thread(target=self._run, args=(tick_s,), name=NAME, daemon=True).start()

    def watch(self, what: str) -> None:
        self._watched = what, time.monotonic()

    def done(self) -> None:
        self._watched = None

    def _run(self, tick_s: float) -> None:
        seen, due = None, 0.0
        while not self._over.wait(tick_s):
            watched = self._watched
            if watched is None:
                continue
            if watched is not seen:
                seen, due = watched, self.interrupt_s
            spent = time.monotonic() - watched[1]
            if spent > self.end_s:
                self._end(watched[0])
            elif spent > due:
                due = spent + self.again_s
                signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        watched = self._watched
        if watched is not None:
            self.interrupted(watched[0])

    def _end(self, what: str) -> None:
        os.write(self._stderr, f"\nHANGS, cannot be interrupted, its process ends: {what}\n".encode())
        faulthandler.dump_traceback(file=self._stderr)
        os.write(self._stderr, f"{told(descendants(os.getpid()))}\nHANGS, its process ended: {what}\n".encode())
        for pid in descendants(os.getpid()):
            kill(pid)
        os._exit(EXIT)


class Watchdog:
    """Watches each test of this process."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._clock = Clock(INTERRUPT * limit_s, AGAIN * limit_s, END * limit_s)
        self._clock.interrupted = self._fail
        self._hung = False

    def pytest_sessionstart(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._clock.start(self._limit_s / TICKS)

    def pytest_sessionfinish(self) -> None:
        """What a test that hung has left would hold the pipes of this run open."""
        for pid in descendants(os.getpid()) if self._hung else ():
            kill(pid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._watch(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._watch(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._watch(item))

    def _watch(self, item: pytest.Item) -> Generator[None, object, object]:
        """Only the test's own code: an error raised while pytest reports another would end the run."""
        self._clock.watch(item.nodeid)
        try:
            return (yield)
        finally:
            self._clock.done()

    def _fail(self, test: str) -> None:
        self._hung = True
        raise Hung(
            f"it did not end within {self._clock.interrupt_s:g} s\n{stacks()}{told(descendants(os.getpid()))}\n{test}"
        )


class RunLimit:
    """Watches a whole run, from the process that deals the tests out."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._clock = Clock(RUN * limit_s, limit_s, (RUN + 0.5) * limit_s)
        self._clock.interrupted = self._exit
        self._running: set[str] = set()

    def pytest_sessionstart(self) -> None:
        self._clock.start(self._limit_s / TICKS)
        self._clock.watch("the whole run")

    def pytest_sessionfinish(self) -> None:
        self._clock.done()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running.add(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.discard(nodeid)

    def _exit(self, run: str) -> None:
        self._clock.done()
        for pid in descendants(os.getpid()):
            kill(pid)
        pytest.exit(f"{run} did not end within {RUN * self._limit_s:g} s; last seen in: {sorted(self._running)}", EXIT)


def stderr_of_the_process() -> int:
    """Where words reach somebody: not what pytest, or a worker's channel, has put in its place."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, ValueError, OSError):
        return 2


def stacks() -> str:
    """What each other thread does, and each task of the loop that runs here; this thread's stack is the error's own."""
    kept = io.StringIO()
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if thread.ident in frames and thread.name != NAME and thread is not threading.current_thread():
            kept.write(f"Thread {thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident]))}")
    loop = asyncio._get_running_loop()
    for task in asyncio.all_tasks(loop) if loop is not None else ():
        task.print_stack(file=kept)
    return kept.getvalue() or "No other thread runs.\n"


def descendants(pid: int) -> list[int]:
    """The processes that it started, and those that they did; none where the system has no /proc."""
    children: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(each.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended meanwhile
        children.setdefault(parent, []).append(int(each.parent.name))
    found, waiting = [], [pid]
    while waiting:
        found += (young := children.get(waiting.pop(), []))
        waiting += young
    return found


def told(pids: list[int]) -> str:
    """Which programs these are, a line each."""
    lines = ["Processes that it had started:" if pids else "No process that it had started is left."]
    for pid in pids:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        lines.append(f"  {pid} {words[:300]}")
    return "\n".join(lines)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
