"""What the kit adds to a verified call: `python -m bench.kit_overhead`.

Each round runs one call by `Readback.run` and one by `Tool.run`, in turn, on one ledger in memory. The difference of
the medians is the kit's cost. The clock is the processor's, so other work on the machine counts for nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Final

from readback import AsyncReadback, Readback, arg, verified
from readback.kit import Kit

ROUNDS: Final = 400
WARM: Final = 50
LIMIT_MS: Final = 0.5
state = {"n": 0}


def count(n: int) -> None:
    state["n"] = n


counted = verified(count, read=lambda n: state, strong=True, expect={"n": arg("n")})


def sync_added() -> tuple[float, float]:
    """Return the medians, in milliseconds, of a bare run and of a run through the kit."""
    bare, through = list[float](), list[float]()
    with Readback.open("memory:") as rb, Kit.over(rb, actions=[counted]) as kit:
        tool = kit.tool("count")
        for n in range(ROUNDS):
            began = time.process_time_ns()
            rb.run(counted(n=2 * n), operation=f"bare {n}")
            middle = time.process_time_ns()
            tool.run({"n": 2 * n + 1}, operation=f"kit {n}")
            ended = time.process_time_ns()
            if n >= WARM:
                bare.append((middle - began) / 1e6)
                through.append((ended - middle) / 1e6)
    return statistics.median(bare), statistics.median(through)


async def async_added() -> tuple[float, float]:
    """Return the same medians on an event loop."""
    bare, through = list[float](), list[float]()
    async with AsyncReadback.open("memory:") as rb, Kit.open("memory:", actions=[counted]) as kit:
        tool = kit.tool("count")
        for n in range(ROUNDS):
            began = time.process_time_ns()
            await rb.run(counted(n=2 * n), operation=f"bare {n}")
            middle = time.process_time_ns()
            await tool.arun({"n": 2 * n + 1}, operation=f"kit {n}")
            if n >= WARM:
                bare.append((middle - began) / 1e6)
                through.append((time.process_time_ns() - middle) / 1e6)
    return statistics.median(bare), statistics.median(through)


def main() -> int:
    """Print the medians, and return 1 where the kit costs more than its limit."""
    found = {"sync": sync_added(), "async": asyncio.run(async_added())}
    for way, (bare, through) in found.items():
        print(f"{way:5}  run {bare:.3f} ms  kit {through:.3f} ms  added {through - bare:.3f} ms (limit {LIMIT_MS} ms)")
    return int(any(through - bare > LIMIT_MS for bare, through in found.values()))


if __name__ == "__main__":
    raise SystemExit(main())
