"""Measure the cost of sealing on the hot path: the same actions with and without, slice by slice, in one run."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from typing import Final, NamedTuple

from readback import bootstrap
from readback.bench import workload
from readback.canon import Json
from readback.client.async_client import AsyncReadback
from readback.domain.records.seal_schedule import ENTRIES_DEFAULT

SLICES: Final = 9
ACTIONS: Final = 1_024
WIDTH: Final = 256


def sealing(folder: Path) -> dict[str, Json]:
    """The share of throughput at 256 actions in flight lost to sealing at the default schedule.

    Measured in CPU time of all threads, since the CPU is the bound and other processes may use the machine. Wall time
    is printed, too.
    """
    return asyncio.run(_sealing(folder))


async def _sealing(folder: Path) -> dict[str, Json]:
    key = folder / "sealing.key"
    bootstrap.create_log_key(key, "bench.example/sealing")
    seal = {"key_file": str(key), "entries": ENTRIES_DEFAULT, "seconds": 3_600}
    bare, sealed = [], []
    async with _client(folder, "bare", False) as off, _client(folder, "sealed", seal) as on:
        for part in range(SLICES + 1):
            bare.append(await _slice(off, f"bare-{part}"))
            sealed.append(await _slice(on, f"sealed-{part}"))
    lost = [1 - without.busy / with_it.busy for without, with_it in zip(bare[1:], sealed[1:], strict=True)]
    late = [1 - without.wall / with_it.wall for without, with_it in zip(bare[1:], sealed[1:], strict=True)]
    store = bootstrap.store(f"sqlite:///{folder / 'sealed.db'}", read_only=True)
    try:
        heads = sum(1 for _ in store.checkpoints())
    finally:
        store.close()
    return {
        "cost": round(max(0.0, statistics.median(lost)), 3),
        "cost_by_wall_time": round(statistics.median(late), 3),
        "bare_per_s": round(ACTIONS / statistics.median(each.wall for each in bare[1:])),
        "sealed_per_s": round(ACTIONS / statistics.median(each.wall for each in sealed[1:])),
        "checkpoints": heads,
    }


def _client(folder: Path, name: str, seal: bool | dict[str, object]) -> AsyncReadback:
    url = f"sqlite:///{folder / f'{name}.db'}"
    return AsyncReadback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL, seal=seal)


class _Took(NamedTuple):
    wall: float
    busy: float


async def _slice(rb: AsyncReadback, part: str) -> _Took:
    """`part`: a set of orders for this slice alone, since a shipped order would change the judgement."""
    names = iter(range(ACTIONS))

    async def one_after_another() -> None:
        for n in names:
            name = f"{part}-{n}"
            outcome = await rb.run(workload.ship_async(order_id=name, carrier="dhl"), operation=name)
            outcome.raise_unless_verified()

    began, busy = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one_after_another() for _ in range(WIDTH)))
    return _Took(time.perf_counter() - began, time.process_time() - busy)
