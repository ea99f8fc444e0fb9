"""The machine that the figures are of: what bears on them, and nothing that names it."""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Final

import apsw

SYNCS: Final = 200
BLOCK: Final = b"x" * 512
QUIET: Final = 0.75
"""More processes for each core that want to run, over the last minute, and the figures are not to be believed. One
benchmark behind another leaves a half.
"""


def described(folder: Path) -> dict[str, str]:
    """By name, in the order of the page. `folder`: where the stores lie."""
    fsync_us = fsync_times_us(folder)
    return {
        "cores": f"{os.cpu_count()} ({_processor()})",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}, {platform.machine()}",
        "file system": _file_system(folder),
        "append of 512 bytes with fsync": f"p50 {fsync_us[0]:,} µs, p99 {fsync_us[1]:,} µs, before the run",
        "Python": platform.python_version(),
        "SQLite": f"{apsw.sqlite_lib_version()} in Readback, that of each Python in the others",
        "load before the run": f"{os.getloadavg()[0]:.1f} processes over the last minute",
    }


def warning(load: float | None = None) -> str:
    """What must stand above figures of a machine that does something else; empty on a quiet one."""
    cores, busy = os.cpu_count() or 1, os.getloadavg()[0] if load is None else load
    if busy <= cores * QUIET:
        return ""
    return (
        f"**The machine was busy with something else: {busy:.1f} processes wanted its {cores} cores before the run. "
        "Whoever hands work from thread to thread, or waits for the disk, then mostly waits for its turn: compare CPU, "
        "not rates.**"
    )


def fsync_times_us(folder: Path) -> tuple[int, int]:
    """The median and the 99th of a hundred of what one durable append costs here, rounded up (in memory: under one)."""
    path, took = folder / "fsync", []
    with path.open("ab", buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter_ns()
            file.write(BLOCK)
            os.fsync(file.fileno())
            took.append(math.ceil((time.perf_counter_ns() - began) / 1000))
    path.unlink()
    return math.ceil(statistics.median(took)), sorted(took)[SYNCS * 99 // 100]


def flushes(folder: Path) -> int | None:
    """How often this folder's disk was told to empty its cache, since it started; None where it does not count."""
    device = os.stat(folder).st_dev
    stat = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    fields = stat.read_text().split() if stat.exists() else []
    return int(fields[15]) if len(fields) > 16 else None


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _file_system(folder: Path) -> str:
    """The type of the longest mount point above the folder."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(point, kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(above, key=lambda each: len(each[0]))[1] if above else "unknown"
