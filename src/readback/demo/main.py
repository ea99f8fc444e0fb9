"""`readback demo`: an agent's work on real local systems that fail and lie.

Starts the systems, runs the agent's morning, the delegation and the trips, reads the truth from the systems, and
compares the reports with the truth. Exit code 0 means: Readback reported no false success, missed no true outcome,
doubled no effect, left no trip half booked, and the delegate's task is done.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from readback import AsyncReadback, bootstrap
from readback.audit.checks.ledger import AuditReport, Fault, audit
from readback.cli.terminal import print_json
from readback.demo.agent import Agent, Done
from readback.demo.contracts_trip import BY_STEP
from readback.demo.delegated import delegate
from readback.demo.desk import AGENT, TENANT, desk
from readback.demo.progress import Progress
from readback.demo.report import show_all, show_brief
from readback.demo.systems.launch import Systems
from readback.demo.tally import reckon_all
from readback.demo.trips import Booked, book_trips
from readback.demo.worker import ACTIONS

FOLDER = "readback-demo"
LEDGER = "ledger.db"
BESIDE = ("-wal", "-shm", ".operator.jsonl")
"""Suffixes of files beside a ledger: while open, and for incidents without a subscriber."""
BUDGET = {"refund_cents": 5_000}


def run_demo(as_json: bool = False, folder: Path | None = None, verbose: bool = False) -> int:
    """Run the whole demo and return the exit code. The ledger is kept in `folder` (default: ./readback-demo).

    Args:
        as_json: Print one JSON object instead of text.
        folder: Folder of the ledger.
        verbose: Print every step, trip and attempt, and all tables.
    """
    ledger = fresh_ledger(folder or Path(FOLDER))
    progress = Progress(verbose)
    progress.chapter("Starting an order service, a mail server, five travel providers and a work folder")
    try:
        with terminated_as_interrupted(), Systems() as systems:
            with _connected(systems):
                done = asyncio.run(_morning(systems, ledger, progress))
                sent = asyncio.run(delegate(ledger, systems, progress))
                booked = asyncio.run(_trips(systems, ledger, progress))
            report = check(ledger)
            found = reckon_all(done, sent, booked, systems, ledger_ok=report.ok)
    finally:
        progress.close()
    if as_json:
        print_json(found.as_json())
    else:
        (show_all if verbose else show_brief)(found, ledger, report.events)
    return 0 if found.good else 1


@contextmanager
def _connected(systems: Systems) -> Iterator[None]:
    """Open the desk for the block."""
    try:
        desk.open(**systems.addresses)
        desk.open_trip(systems.trip_url, systems.trip_records_url, systems.trip_db)
        desk.prepare()
        yield
    finally:
        desk.close()


async def _morning(systems: Systems, ledger: str, progress: Progress) -> list[Done]:
    runtime = bootstrap.runtime()
    async with AsyncReadback.open(
        ledger, tenant=TENANT, principal=AGENT, run="morning", budget=BUDGET, actions=ACTIONS, runtime=runtime
    ) as rb:
        agent = Agent(rb, systems, ledger, runtime, progress, [])
        return await agent.work()


async def _trips(systems: Systems, ledger: str, progress: Progress) -> list[Booked]:
    actions = BY_STEP.values()
    async with AsyncReadback.open(ledger, tenant=TENANT, principal=AGENT, run="trips", actions=actions) as rb:
        return await book_trips(rb, systems, progress)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C inside the block, so that started systems are stopped and removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def fresh_ledger(folder: Path) -> str:
    """The URL of a new ledger. The last demo's ledger is deleted. Without write access a temporary folder is used."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        folder = Path(tempfile.mkdtemp(prefix="readback-demo-ledger-"))
    for name in (LEDGER, *(f"{LEDGER}{suffix}" for suffix in BESIDE)):
        (folder / name).unlink(missing_ok=True)
    return f"sqlite:///{quote(str((folder / LEDGER).absolute()))}"


def check(ledger: str) -> AuditReport:
    """Recompute the ledger from the first entry on, like `readback ledger verify`."""
    store = bootstrap.store(ledger)  # not read-only, so that closing it folds the write-ahead log into the file
    try:
        report = audit(store)
        report.add(Fault("store.damage", line) for line in bootstrap.store_damage(store))
        return report
    finally:
        store.close()
