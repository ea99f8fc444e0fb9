"""The event stream with many listeners: how far behind the ledger each one is, and the server's memory.

A server in a process, LISTENERS connections to `/v1/events`, and rounds of actions. Each entry carries the time of
its record, and every listener compares that time with the time of arrival on the same clock. Run it with
`python -m bench.event_stream`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.http_api import MODULE, lines, resident_mb, server, slice_of

LISTENERS = 200
ROUNDS = 12
ACTIONS = 50
"""Actions of one round, eight at once: 300 entries for each listener within a tenth of a second."""
WIDTH = 8
TRIES_MAX = 300
LEVEL_ROUNDS = 6
"""The last rounds, in which memory must be level."""
BEHIND_MAX_S = 1.0
GROWTH_MAX_MB = 4.0
_DATA = b"data: "


class Listener(asyncio.Protocol):
    """One listener: counts the entries, and keeps the longest delay of the round in seconds."""

    def __init__(self, token: str, host: str) -> None:
        self._head = f"GET /v1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        self._rest = b""
        self.opened, self.heard, self.behind_s = False, 0, 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        now_us = time.time_ns() // 1_000
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self.opened = self.opened or line == b": open"
            if line.startswith(_DATA):
                self.heard += 1
                at_us = int(line.partition(b'"at_us":')[2].rstrip(b"}"))
                self.behind_s = max(self.behind_s, (now_us - at_us) / 1e6)


def _is_even(listeners: list[Listener], before: int) -> bool:
    """Whether all listeners have heard the same number of entries, and more than before."""
    return len({each.heard for each in listeners}) == 1 and listeners[0].heard > before


async def _until(is_so: Callable[[], bool]) -> None:
    for _ in range(TRIES_MAX):
        if is_so():
            return
        await asyncio.sleep(0.1)
    raise SystemExit("Some listeners did not open, or have lost an entry.")


async def measure(folder: Path) -> dict[str, float]:
    """All figures. Fails unless every listener hears the same entries."""
    (folder / "bench_lamps.py").write_text(MODULE)
    with server(folder) as (url, token, pid):
        where, loop = urlsplit(url), asyncio.get_running_loop()
        found: list[Listener] = []
        for _ in range(LISTENERS):
            made = await loop.create_connection(
                lambda: Listener(token, where.netloc), where.hostname or "", where.port or 0
            )
            found.append(made[1])
        await _until(lambda: all(each.opened for each in found))
        behind, memory = [], []
        async with lines(url, token, WIDTH) as callers:
            for number in range(ROUNDS):
                before = found[0].heard
                await slice_of([each.run for each in callers], f"round-{number}", ACTIONS)
                await asyncio.sleep(2 * BEHIND_MAX_S)  # an entry that comes later still is behind by its own time
                await _until(partial(_is_even, found, before))
                behind.append(max(each.behind_s for each in found))
                memory.append(resident_mb(pid))
                for each in found:
                    each.behind_s = 0.0
        for each in found:
            each.transport.close()
    return {
        "listeners": LISTENERS,
        "entries_heard_by_each": found[0].heard,
        "longest_delay_s": max(behind),
        "median_of_the_rounds_longest_delays_s": sorted(behind)[len(behind) // 2],
        "memory_after_first_round_mb": memory[0],
        "memory_after_last_round_mb": memory[-1],
        "memory_growth_of_last_rounds_mb": memory[-1] - memory[-1 - LEVEL_ROUNDS],
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder)))
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=1))
    print(f"{LISTENERS} listeners were at most {found['longest_delay_s']:.2f} s behind (bound: {BEHIND_MAX_S} s).")
    growth = found["memory_growth_of_last_rounds_mb"]
    print(f"Memory grew by {growth:.1f} MB in the last {LEVEL_ROUNDS} rounds (bound: {GROWTH_MAX_MB} MB).")
    return 0 if found["longest_delay_s"] <= BEHIND_MAX_S and growth <= GROWTH_MAX_MB else 1


if __name__ == "__main__":
    sys.exit(main())
