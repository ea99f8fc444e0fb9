"""The measurements: alternating slices of engine and floor on the same machine."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from readback.bench import workload
from readback.bench.evidence import evidence, sealing
from readback.bench.floor import Floor
from readback.bootstrap import store as open_store
from readback.canon import Json
from readback.cli.gc_tuning import SERVING, undisturbed
from readback.client.async_client import AsyncReadback
from readback.client.client import Readback
from readback.ports.storage.store import Append, AppendResult, LedgerStore

SLICES: Final = 5
SEQUENTIAL_ACTIONS: Final = 300
FLIGHT_ACTIONS: Final = 1536
WAITING_ACTIONS: Final = 100_000
CLONES_A_COMMIT: Final = 5_000
US: Final = 1_000_000
Progress = Callable[[str], None]


def capture(folder: Path, name: str) -> list[Append]:
    """The engine's two appends for an action, without the contract's text. The text is stored with the first action
    alone, and the floor writes the rows of every action.
    """
    store = _Recording(open_store(f"sqlite:///{folder / f'capture-{name}.db'}"))
    with Readback.open(tenant=workload.TENANT, principal=workload.PRINCIPAL, store=store.as_store()) as rb:
        rb.run(workload.ship_sync(order_id=f"o-{name}", carrier="dhl"), operation="capture").raise_unless_verified()
    return [
        replace(a, evidence=tuple(e for e in a.evidence if e.digest != a.projection.contract_hash))
        for a in store.appends
    ]


class _Recording:
    """A store that copies everything written."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self.appends: list[Append] = []

    def as_store(self) -> LedgerStore:
        return self  # type: ignore[return-value]  # everything else is handed on

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        self.appends.extend(batch)
        return self._store.append(batch)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def sequential(folder: Path) -> dict[str, Json]:
    """One action after another through the sync client, compared with the floor's two commits for each action."""
    appends = capture(folder, "1")
    floor = Floor(_schema(folder, "floor-1.db"), appends)
    ours, bare = [], []
    with _client(folder, "ours-1.db") as rb:
        for part in range(SLICES + 1):
            ours.append(_timed(lambda p=part: _run_each(rb, p)))  # type: ignore[misc]
            bare.append(_timed(lambda p=part: _floor_each(floor, p)))  # type: ignore[misc]
    floor.close()
    mine, least = _each(ours, SEQUENTIAL_ACTIONS), _each(bare, SEQUENTIAL_ACTIONS)
    ratios = [a / b for a, b in zip(ours[1:], bare[1:], strict=True)]
    return {"ours_us": mine, "floor_us": least, "over_floor": round(statistics.median(ratios), 3)}


def _client(folder: Path, name: str) -> Readback:
    return Readback.open(f"sqlite:///{folder / name}", tenant=workload.TENANT, principal=workload.PRINCIPAL)


def _run_each(rb: Readback, part: int) -> None:
    for i in range(SEQUENTIAL_ACTIONS):
        name = f"1-{part}-{i}"
        outcome = rb.run(workload.ship_sync(order_id=name, carrier="dhl"), operation=name)
        if not outcome.verified:
            outcome.raise_unless_verified()


def _floor_each(floor: Floor, part: int) -> None:
    for i in range(SEQUENTIAL_ACTIONS):
        floor.write([_name(part, i)])


def _name(part: int, i: int) -> str:
    return f"01a{part:06d}{i:017d}"


def in_flight(folder: Path, width: int) -> dict[str, Json]:
    """Many actions at once through the async client, compared with the floor's rows in commits of the same size."""
    return asyncio.run(_in_flight(folder, width))


async def _in_flight(folder: Path, width: int) -> dict[str, Json]:
    appends = capture(folder, str(width))
    floor = Floor(_schema(folder, f"floor-{width}.db"), appends)
    ours, bare = [], []
    url = f"sqlite:///{folder / f'ours-{width}.db'}"
    async with AsyncReadback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL) as rb:
        for part in range(SLICES + 1):
            began = time.perf_counter()
            await _run_wide(rb, part, width)
            ours.append(time.perf_counter() - began)
            bare.append(_timed(lambda p=part: _floor_wide(floor, p, width)))  # type: ignore[misc]
    floor.close()
    ratios = [b / a for a, b in zip(ours[1:], bare[1:], strict=True)]
    return {
        "ours_per_s": round(FLIGHT_ACTIONS / statistics.median(ours[1:])),
        "floor_per_s": round(FLIGHT_ACTIONS / statistics.median(bare[1:])),
        "of_floor": round(statistics.median(ratios), 3),
    }


async def _run_wide(rb: AsyncReadback, part: int, width: int) -> None:
    names = (f"{width}-{part}-{i}" for i in range(FLIGHT_ACTIONS))
    await workload.in_flight(width, names, lambda name: workload.ship(rb, name))


def _floor_wide(floor: Floor, part: int, width: int) -> None:
    for start in range(0, FLIGHT_ACTIONS, width):
        floor.write([_name(part, i) for i in range(start, min(start + width, FLIGHT_ACTIONS))])


def waiting(folder: Path, progress: Progress) -> dict[str, Json]:
    """A worker's memory, and the time to the first due action, with many waiting actions in the ledger."""
    path = folder / "waiting.db"
    url = f"sqlite:///{path}"
    with Readback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL) as rb:
        pending = rb.run(workload.ship_waiting(order_id="due", carrier="dhl"), operation="due", wait=0)
        appends = _appends_of(folder)
        progress(f"filling a ledger with {WAITING_ACTIONS:,} waiting actions")
    _fill(path, appends)
    with Readback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL) as rb:
        rb.signal(pending.id)
    command = [sys.executable, "-P", "-m", "readback.bench.waiting", url, pending.id]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, Json] = json.loads(done.stdout)
    return {**found, "waiting": WAITING_ACTIONS, "ledger_mb": round(path.stat().st_size / 1e6)}


def _appends_of(folder: Path) -> list[Append]:
    store = _Recording(open_store(f"sqlite:///{folder / 'capture-waiting.db'}"))
    with Readback.open(tenant=workload.TENANT, principal=workload.PRINCIPAL, store=store.as_store()) as rb:
        rb.run(workload.ship_waiting(order_id="later", carrier="dhl"), operation="later", wait=0)
    return store.appends


def _fill(path: Path, appends: list[Append]) -> None:
    """Write copies of a waiting action, due in a day."""
    later = appends[0].projection.updated_us + 86_400 * US
    appends = [
        replace(a, projection=replace(a.projection, due_us=later, lease_owner="", lease_until_us=later))
        for a in appends
    ]
    floor = Floor(path, appends)
    floor.continue_after()
    for start in range(0, WAITING_ACTIONS, CLONES_A_COMMIT):
        floor.write([_name(9, i) for i in range(start, start + CLONES_A_COMMIT)])
    floor.close()


def _schema(folder: Path, name: str) -> Path:
    """An empty ledger with the tables and indexes of a real ledger."""
    open_store(f"sqlite:///{folder / name}").close()
    return folder / name


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _each(seconds: list[float], actions: int) -> int:
    return round(statistics.median(seconds[1:]) / actions * US)


def start_up() -> dict[str, Json]:
    """Import and help time in milliseconds: the best of several new processes."""
    bare = _process_ms(["-c", "pass"])
    return {
        "python_ms": bare,
        "import_ms": _process_ms(["-c", "import readback"]),
        "help_ms": _process_ms(["-P", "-m", "readback.cli.cli", "--help"]),
    }


def _process_ms(arguments: list[str]) -> int:
    def once() -> None:
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)

    return round(min(_timed(once) for _ in range(5)) * 1000)


def everything(progress: Progress) -> dict[str, Json]:
    """All figures of `readback bench --json`. Floor and engine share one process, as in a worker."""
    with undisturbed(SERVING), workload.room() as folder:
        progress("one after another")
        one = sequential(folder)
        progress("16 in flight")
        few = in_flight(folder, 16)
        progress("256 in flight")
        many = in_flight(folder, 256)
        wait = waiting(folder, progress)
        proofs = evidence(folder, progress)
        progress("sealing")
        cost = sealing(folder)
        progress("start-up")
        return {
            "sequential_over_floor": one["over_floor"],
            "inflight_16_of_floor": few["of_floor"],
            "inflight_256_of_floor": many["of_floor"],
            "waiting_100k_rss_mb": wait["rss_mb"],
            "resume_first_due_s": wait["first_due_s"],
            "proof_of_a_million_ms": proofs["proof_ms"],
            "proof_of_a_million_bytes": proofs["proof_bytes"],
            "verify_per_s": proofs["verify_per_s"],
            "sealing_cost": cost["cost"],
            "raw": {
                "sequential": one,
                "inflight_16": few,
                "inflight_256": many,
                "waiting": wait,
                "evidence": proofs,
                "sealing": cost,
                "start_up": start_up(),
            },
        }
