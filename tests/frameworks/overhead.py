"""What an adapter adds to `rb.run` for a verified call: `python -m tests.frameworks.overhead langchain`.

Both are called in turn in one run, and each call's CPU time is taken. The difference of the medians is what the adapter
and the kit add. The framework's own loop is left out: it would be there without Readback too.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from readback import AsyncReadback, Outcome, Readback, action
from readback.kit import Kit
from tests.frameworks.run import driver_of

ROUNDS = 300
WARM_UP = 30

_rows: dict[int, int] = {}


@action("row/{number}", ensure="authoritative.number == requested.number", within="1s")
def touch(number: int) -> dict[str, int]:
    """Touch a row."""
    _rows[number] = number
    return {"number": number}


@touch.read(strong=True)
def row(number: int) -> dict[str, int] | None:
    return {"number": number} if number in _rows else None


async def measured(framework: str, folder: Path) -> dict[str, float]:
    driver = driver_of(framework)(
        Kit.open(f"sqlite:///{folder / 'kit.db'}", tenant="t", principal="p", actions=[touch])
    )
    through = driver.seam()
    times: dict[str, list[int]] = {"rb.run": [], "adapter": []}
    store = f"sqlite:///{folder / 'plain.db'}"
    async with AsyncExitStack() as stack:
        if driver.blocking:
            rb = stack.enter_context(Readback.open(store, tenant="t", principal="p", run="r"))
        else:
            rb = await stack.enter_async_context(AsyncReadback.open(store, tenant="t", principal="p", run="r"))
        for number in range(ROUNDS + WARM_UP):
            started = time.process_time_ns()
            running = rb.run(touch(number), operation=f"touch {number}")
            outcome = running if isinstance(running, Outcome) else await running
            between = time.process_time_ns()
            await through(ROUNDS * 2 + number)
            ended = time.process_time_ns()
            assert outcome.verified
            times["rb.run"].append(between - started)
            times["adapter"].append(ended - between)
    await driver.kit.aclose()
    plain, adapted = (statistics.median(each[WARM_UP:]) / 1_000 for each in times.values())
    return {"rb_run_us": round(plain, 1), "adapter_us": round(adapted, 1), "adds_us": round(adapted - plain, 1)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="readback-bed-") as folder:
        print(json.dumps(asyncio.run(measured(sys.argv[1], Path(folder)))))
