"""Kill a worker between attempt and readback, and let another worker resume.

The kill is a real SIGKILL of a real process at the worst moment: the card is charged, and no answer has arrived. The
second worker knows only the ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from readback.demo.desk import Addresses
from readback.ports.runtime import Runtime

SOURCE = str(Path(__file__).resolve().parents[2])
GIVE_UP_S = 20.0
LOOK_EVERY_S = 0.02


class WorkerError(RuntimeError):
    """A worker ended in an unexpected way."""


async def start(ledger: str, addresses: Addresses, **order: object) -> asyncio.subprocess.Process:
    """Start a worker on this ledger: with `charge` and `operation` for one action, otherwise to process due actions."""
    paths = [SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])]
    told = json.dumps({"ledger": ledger, "addresses": addresses.as_text(), **order})
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "readback.demo.worker",
        told,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


async def kill_when(worker: asyncio.subprocess.Process, landed: Callable[[], bool], runtime: Runtime) -> None:
    """Wait for the effect, and kill the worker behind it."""
    give_up_us = runtime.now_us() + int(GIVE_UP_S * 1_000_000)
    try:
        while not landed():
            if worker.returncode is not None or runtime.now_us() > give_up_us:
                raise WorkerError(f"The worker ended with {worker.returncode} before its effect had landed.")
            await runtime.sleep_async(LOOK_EVERY_S)
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
    finally:
        await stop(worker)


async def finish(worker: asyncio.subprocess.Process) -> None:
    """Wait until a worker ends. Raises WorkerError after a failure."""
    try:
        async with asyncio.timeout(GIVE_UP_S):
            _, said = await worker.communicate()
    finally:
        await stop(worker)
    if worker.returncode != 0:
        raise WorkerError(f"The second worker failed: {said.decode(errors='replace')[-2_000:]}")


async def stop(worker: asyncio.subprocess.Process) -> None:
    """End the process in every case."""
    if worker.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()
