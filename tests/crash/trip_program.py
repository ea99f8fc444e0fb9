"""The child program of the trip's crash tests: books one trip on real providers, and dies where it is told to.

Started by the tests; each line on stdin is an order, for which one child is forked. Contracts and plan are those of the
demo's chapter. Phases: `run` books the trip (a second time: joins, takes over or replays it); `resume` goes on with
whatever is due until nothing is; `run+resume` does both. The points at which a child can die are the durable steps of
its ledger, and before and after each request to the providers. Its clock is virtual, so that no window is waited for;
the providers are real, and live in real time.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path

from readback import Readback, SagaOutcome, State
from readback.demo.contracts_trip import BY_STEP, SAGA, operation, steps
from readback.demo.desk import desk
from readback.stores.sqlite import open_sqlite_store
from tests.crash.points import WAITS_MAX, CrashRuntime, KillingStore, Memory, Points, Stuck

TENANT, PRINCIPAL = "acme", "agent:desk"


class Ticking:
    """A hand or an eye that its process may not survive: it may die before and after each use."""

    def __init__(self, inner: object, name: str, points: Points) -> None:
        self._inner, self._name, self._tick = inner, name, points.tick

    def __getattr__(self, name: str) -> object:
        method = getattr(self._inner, name)

        def used(*args: object, **kwargs: object) -> object:
            self._tick(f"before {self._name}.{name}")
            answer = method(*args, **kwargs)
            self._tick(f"after {self._name}.{name}")
            return answer

        return used


class Traveller:
    """One process at work on one trip, in one folder."""

    def __init__(self, folder: Path, trip: str, doors: dict[str, str], kill_at: int) -> None:
        self.folder, self.trip = folder, trip
        self.memory = Memory(folder / "memory")
        self.points = Points(self.memory, kill_at)
        self.runtime = CrashRuntime(self.memory, self.points)
        desk.open_trip(doors["act"], doors["look"], Path(doors["books"]), timeout_s=30.0)
        desk.providers = Ticking(desk.providers, "providers", self.points)  # type: ignore[assignment]
        desk.trip_records = Ticking(desk.trip_records, "records", self.points)  # type: ignore[assignment]
        self.store = open_sqlite_store(folder / "ledger.db")

    def open(self) -> Readback:
        return Readback.open(
            tenant=TENANT,
            principal=PRINCIPAL,
            actions=BY_STEP.values(),
            runtime=self.runtime,
            store=KillingStore(self.store, self.points),  # type: ignore[arg-type]
        )

    def run(self, rb: Readback) -> None:
        self.tell(rb.saga(steps(self.trip), name=SAGA, operation=operation(self.trip)))

    def resume(self, rb: Readback) -> None:
        """As a worker does: what is due now, then what becomes due, until nothing is left that will."""
        for _ in range(WAITS_MAX):
            for outcome in rb.resume():
                if isinstance(outcome, SagaOutcome):
                    self.tell(outcome)
                    if outcome.state is State.REVIEW_REQUIRED:
                        return  # it looks again for as long as a person takes
            due_us = self.store.next_due_us(TENANT)
            if due_us is None:
                return
            self.memory.now_us = max(self.memory.now_us, due_us)
        raise Stuck

    def tell(self, outcome: SagaOutcome) -> None:
        """A person hears this: from here on it must be true."""
        line = json.dumps({"state": outcome.state.value, "said": outcome.message})
        with (self.folder / "told.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self.points.tick("after the telling")


def perform(order: dict[str, object]) -> int:
    """What a child does with an order; its exit status."""
    folder = Path(str(order["folder"]))
    doors = {str(name): str(where) for name, where in dict(order["doors"]).items()}  # type: ignore[call-overload]
    try:
        traveller = Traveller(folder, str(order["trip"]), doors, int(str(order.get("kill_at", 0))))
        with traveller.open() as rb:
            if "run" in str(order["phase"]):
                traveller.run(rb)
            if "resume" in str(order["phase"]):
                traveller.resume(rb)
    except BaseException:
        (folder / "errors.txt").open("a", encoding="utf-8").write(traceback.format_exc())
        return 70
    return 0


def serve() -> None:
    """Forks a child for each order, kills it in time if asked to, and says how it ended."""
    for definition in BY_STEP.values():
        definition.load()
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


if __name__ == "__main__":
    serve()
