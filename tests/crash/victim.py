"""The child program: runs one verified action, or goes on with what another process left, and dies where it is told to.

    python -m tests.crash.victim FOLDER PHASE SCENARIO KILL_AT     one process
    python -m tests.crash.victim --serve                           orders on stdin, one forked child for each

Phases: `run` proposes the action and waits for its outcome (a second time: joins, takes over or replays it); `resume`
goes on with whatever is due until nothing is; `run+resume` does both. What is told is written down as it is told.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from readback import Outcome, Readback
from readback.stores.sqlite import open_sqlite_store
from tests.crash.contracts import SCENARIOS, here, proposal_of
from tests.crash.points import WAITS_MAX, CrashRuntime, KillingStore, Memory, Points, Stuck
from tests.crash.world import World

OPERATION = "the one that must not be done twice"
TENANT, PRINCIPAL = "acme", "agent:victim"


class Victim:
    """One process at work in one folder."""

    def __init__(self, folder: Path, kill_at: int) -> None:
        self.folder = folder
        self.memory = Memory(folder / "memory")
        self.points = Points(self.memory, kill_at)
        self.runtime = CrashRuntime(self.memory, self.points)
        here.world = World(folder / "world.db", self.points.tick)
        here.now_us = lambda: self.memory.now_us
        self.store = open_sqlite_store(folder / "ledger.db")

    def open(self) -> Readback:
        return Readback.open(
            tenant=TENANT,
            principal=PRINCIPAL,
            actions=SCENARIOS.values(),
            runtime=self.runtime,
            store=KillingStore(self.store, self.points),  # type: ignore[arg-type]
        )

    def run(self, rb: Readback, scenario: str) -> None:
        self.tell("run", rb.run(proposal_of(scenario), operation=OPERATION))

    def resume(self, rb: Readback) -> None:
        """As a worker does: what is due now, then what becomes due, until nothing is left that will."""
        for round_ in range(WAITS_MAX):
            for outcome in rb.resume():
                self.tell("resume" if round_ else "resume at once", outcome)
            due_us = self.store.next_due_us(TENANT)
            if due_us is None:
                return
            self.memory.now_us = max(self.memory.now_us, due_us)
        raise Stuck

    def tell(self, how: str, outcome: Outcome) -> None:
        """An agent, or a person, hears this: from here on it must be true."""
        line = json.dumps({"how": how, **outcome.as_json()})
        with (self.folder / "told.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self.points.tick("after the telling")


def perform(order: dict[str, object]) -> int:
    """What a child does with an order; its exit status."""
    folder = Path(str(order["folder"]))
    try:
        victim = Victim(folder, int(str(order.get("kill_at", 0))))
        with victim.open() as rb:
            if "run" in str(order["phase"]):
                victim.run(rb, str(order["scenario"]))
            if "resume" in str(order["phase"]):
                victim.resume(rb)
    except BaseException:
        (folder / "errors.txt").open("a", encoding="utf-8").write(traceback.format_exc())
        return 70
    return 0


def _rehearse() -> None:
    """Each scenario once in this process: what Python works out when it runs something first, no child has to."""
    with tempfile.TemporaryDirectory() as folder:
        for scenario in SCENARIOS:
            place = Path(folder) / scenario
            place.mkdir()
            World.create(place / "world.db")
            code = perform({"folder": str(place), "phase": "run+resume", "scenario": scenario})
            assert code == 0, (place / "errors.txt").read_text(encoding="utf-8")


def serve() -> None:
    """Forks a child for each order, kills it in time if asked to, and says how it ended."""
    _rehearse()
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            os._exit(perform(order))
        if order.get("kill_after_ms") is not None:
            _kill_after(child, float(order["kill_after_ms"]))
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        sys.stdout.write(json.dumps({"killed": code == -signal.SIGKILL, "code": code}) + "\n")
        sys.stdout.flush()


def _kill_after(child: int, milliseconds: float) -> None:
    descriptor = os.pidfd_open(child)
    try:
        if not select.select([descriptor], [], [], milliseconds / 1000)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(descriptor)


def main(arguments: list[str]) -> int:
    if arguments == ["--serve"]:
        serve()
        return 0
    folder, phase, scenario, kill_at = arguments
    return perform({"folder": folder, "phase": phase, "scenario": scenario, "kill_at": int(kill_at)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
