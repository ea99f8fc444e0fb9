"""A child process that tries one mutant: what it may use, and when it is ended. Called by `mutants_run.py`.

No bound is a number of seconds on the clock alone, so that a slow or busy machine neither kills nor saves a mutant:

- processor time is bounded by what the same tests took here without a change;
- a child that waits is ended where it and all that it started did nothing for several times as long as the longest of
  its tests takes.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

KILLED, SURVIVED, INVALID, AT_IMPORT, BROKEN, COLD = 1, 2, 3, 4, 5, 6
"""A child's exit status. AT_IMPORT: the package or a test does not even import with the change. INVALID: the edit
left no program. BROKEN: pytest itself fails, which says nothing. COLD: this function cannot be swapped while warm."""
CPU_SECONDS = 3.0
"""Beside three times what the tests take without a change."""
STILL_SECONDS = 4.0
"""Beside three times what the longest test takes on the clock."""
CLOCK_SECONDS, CLOCK_TIMES = 300.0, 30.0
"""The last resort, against what sleeps and wakes for ever: beside so many times the longest test."""
LOOK_SECONDS = 0.25


class Cost(NamedTuple):
    """What tests take without a change: processor seconds of all, and seconds on the clock of the longest."""

    processor: float
    clock: float


class Stillness:
    """Whether a process, with all that it started, has done nothing for so long. Without /proc it never says so."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.pid, self.seconds = pid, seconds
        self._since = time.monotonic()
        self._seen: object = None

    def __call__(self) -> bool:
        now = time.monotonic()
        seen, busy = _work_of(self.pid)
        if busy or seen != self._seen or not seen:
            self._since, self._seen = now, seen
        return now - self._since > self.seconds


def _work_of(pid: int) -> tuple[dict[int, int], bool]:
    """The processor ticks of a process and of all that it started, and whether one of them runs or waits for a disk."""
    ticks, busy = dict[int, int](), False
    for each in tree(pid):
        with contextlib.suppress(OSError, ValueError):
            fields = _stat(each)
            ticks[each] = sum(int(field) for field in fields[11:15])
            busy = busy or fields[0] in "RD"
    return ticks, busy


def _stat(pid: int) -> list[str]:
    """What /proc tells about a process after its name: state, parent, ..."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def tree(pid: int) -> list[int]:
    """A process and what it started, and what that started; nothing where the system has no /proc."""
    children: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            children.setdefault(int(_stat(int(each.name))[1]), []).append(int(each.name))
    found = [pid] if children else []
    for one in found:  # grows meanwhile
        found += children.get(one, [])
    return found


def end(pid: int) -> None:
    """End a process with all that it started."""
    for each in tree(pid) or [pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def in_child(work: Callable[[], int], cost: Cost) -> tuple[int, float]:
    """Run `work` in a forked child; its exit status, KILLED where it used up its allowance, and its processor time."""
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = BROKEN
        try:
            os.close(reader)
            allow(cost.processor)
            status = work()
        finally:
            if status == BROKEN:
                traceback.print_exc()
            os._exit(status)
    os.close(writer)
    try:
        how, used, ended = _wait(pid, reader, cost.clock)
    finally:
        os.close(reader)
    if ended:
        return KILLED, used
    if os.WIFEXITED(how):
        return os.WEXITSTATUS(how), used
    return KILLED if os.WTERMSIG(how) == signal.SIGPROF else BROKEN, used


def _wait(pid: int, reader: int, longest: float) -> tuple[int, float, bool]:
    """Wait for a child, whose end closes the pipe; its status, its processor time, and whether it had to be ended."""
    still, began, ended, pipes = Stillness(pid, STILL_SECONDS + 3 * longest), time.monotonic(), False, [reader]
    while True:
        if select.select(pipes, [], [], LOOK_SECONDS)[0]:
            pipes = []  # it ends now, or has closed what it does not know
            time.sleep(0.002)
        found, how, used = os.wait4(pid, os.WNOHANG)
        if found:
            return how, used.ru_utime + used.ru_stime, ended
        if still() or time.monotonic() - began > CLOCK_SECONDS + CLOCK_TIMES * longest:
            end(pid)
            ended = True


def allow(seconds: float) -> None:
    """Give this child as much processor time as work that takes so long without a change may use."""
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS + 3 * seconds)
