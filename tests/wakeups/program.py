"""One worker of a fleet, as a process of its own: `python -m tests.wakeups.program URL FOLDER NAME VERSION TIMEOUT_MS`.

Its tool writes down each call, and ends when the folder says so. `NAME` "": a process of this machine, whose end can be
proved; else one of another machine, which is heard of by its heartbeats alone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from readback import Context, Reading, action, bootstrap
from readback.adapters.runtime_system import SystemRuntime
from readback.client.authoring.action import ActionDefinition
from readback.client.operations.tenants import Served
from readback.client.operations.worker import Worker
from readback.client.session import Session
from readback.stores.postgres.store import PostgresStore
from readback.stores.wakeups.procrastinate_queue import ProcrastinateWakeups

TENANT = "acme"
CONCURRENCY = 1_024
LOOK_S = 0.02


class Named(SystemRuntime):
    """A process of another machine, as far as anybody here can tell."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def owner(self) -> str:
        return self._name or super().owner()


class Book:
    """What the file holds, read on from where it was left."""

    def __init__(self, folder: Path) -> None:
        self._path, self._place = folder / "calls", 0
        self._stamps: dict[str, str] = {}

    def stamp(self, op: str) -> str:
        """The stamp of the last call for this operation; "" for none."""
        if self._path.exists():
            with self._path.open() as file:
                file.seek(self._place)
                for line in file:
                    self._stamps[line.split()[0]] = line.split()[1]
                    self._place += len(line)
        return self._stamps.get(op, "")


def calls(folder: Path) -> list[list[str]]:
    """Every call of the tool: operation, stamp, process, and the version of its contract."""
    path = folder / "calls"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


class Gate:
    """Opens when the folder says so; one looks for all that wait."""

    def __init__(self, folder: Path) -> None:
        self._path, self._looking = folder / "go", asyncio.Lock()

    async def passed(self) -> None:
        async with self._looking:
            while not self._path.exists():  # noqa: ASYNC110 -- another process says so
                await asyncio.sleep(LOOK_S)


def note_of(folder: Path, version: str) -> ActionDefinition[Any]:
    """An append to a file, that is read back from it."""
    gate, book = Gate(folder), Book(folder)

    @action(
        name="note", version=version, kind="append", side_effect="low_risk_internal", target="note/{requested.op}",
        identity={"target": "authoritative.target", "tenant": "authoritative.tenant"},
        ensure={"there": "authoritative.op == requested.op"}, execute={"timeout": "60s"}, within="5s", polls=["0s"],
    )  # fmt: skip
    async def note(ctx: Context, op: str) -> object:
        line = f"{op} {ctx.stamp} {os.getpid()} {version}\n"
        with (folder / "calls").open("a") as file:
            file.write(line)
        await gate.passed()
        return {"status": "ok"}

    @note.read(source="file", consistency="strong", independence="other_client", attributes=True)
    async def noted(ctx: Context, op: str) -> Reading:
        stamp = book.stamp(op)
        if not stamp:
            return Reading.absent()
        return Reading.of({"op": op, "target": f"note/{op}", "tenant": TENANT}, stamp=stamp)

    return note


async def work(url: str, folder: Path, name: str, version: str, timeout_us: int) -> None:
    """Until a signal."""
    store, runtime = bootstrap.store(url), Named(name)
    assert isinstance(store, PostgresStore)
    session = Session.open(
        url, tenant=TENANT, principal="agent:worker", run="", plan="", task_state="", boundary="", trace="",
        budget=None, break_glass="", actions=[note_of(folder, version)], runtime=runtime, store=store,
    )  # fmt: skip
    wakeups = ProcrastinateWakeups(store, runtime, store.address.url, store.address.schema, timeout_us)
    worker = Worker(session, served=Served((TENANT,)), concurrency=CONCURRENCY, wakeups=wakeups)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    sys.stdout.write("working\n")
    sys.stdout.flush()
    await worker.stay()
    session.close()


if __name__ == "__main__":
    where, place, called, version_, timeout_ms = sys.argv[1:]
    asyncio.run(work(where, Path(place), called, version_, int(timeout_ms) * 1000))
