"""What a running canary adds to an action: `python -m bench.canary`.

A worker follows the ledger in a process of its own, with its usual pause between looks. Three ledgers take turns: one
with a canary, and two without. Each round runs one action on each ledger, so all see the same machine. The difference
of the medians is the canary's cost on an action's path. The two ledgers without a canary show the noise of the run: a
cost below the noise is not shown. The wall clock includes the waiting for the other process.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from readback import Context, Readback, Reading, action
from readback.assurance.canary.control import start_canary
from readback.assurance.canary.follower import CanaryFollower
from readback.assurance.canary.records import CanaryRecords

LEDGERS: Final = ("plain", "again", "canary")
ROUNDS: Final = 1_500
WARM: Final = 100
PERCENT: Final = 5.0
LIMIT_PERCENT: Final = 2.0
PLACE: Final = "order/{requested.order}"
orders: dict[int, dict[str, Any]] = {}


def contract(ensure: str, version: str) -> Any:
    """One version of the measured contract."""

    @action(
        name="ship",
        version=version,
        kind="set",
        side_effect="low_risk_internal",
        target=PLACE,
        identity={"target": "authoritative.id", "tenant": "not_offered"},
        ensure={"shipped": ensure},
        within="5s",
    )
    def ship(ctx: Context, order: int) -> object:
        orders[order] = {"id": order, "status": "shipped"}
        return {"status": "ok"}

    @ship.read(source="orders", consistency="strong", independence="other_client", attributes=True)
    def read(ctx: Context, order: int) -> Reading:
        return Reading.of(orders.get(order, {"id": order, "status": "open"}))

    return ship


INCUMBENT: Final = contract("authoritative.status == 'shipped'", "1")
CANDIDATE: Final = contract("authoritative.status in ['shipped']", "2")
CANDIDATES: Final = {"ship": CANDIDATE.plan}
INCUMBENTS: Final = {"ship": INCUMBENT.plan}


def follow(path: str) -> None:
    """Follow a ledger until the standard input closes."""
    with Readback.open(f"sqlite:///{path}") as rb, CanaryFollower(rb, CANDIDATES, INCUMBENTS):
        print("following", flush=True)
        sys.stdin.read()


def measured(rounds: int = ROUNDS, warm: int = WARM, percent: float = PERCENT) -> dict[str, float]:
    """Return the medians in milliseconds, the cost in percent, and the number of asked actions."""
    took: dict[str, list[float]] = {f"{name}{clock}": [] for name in LEDGERS for clock in ("", "_cpu")}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.db" for name in LEDGERS}
        with (
            Readback.open(f"sqlite:///{paths['plain']}", actions=[INCUMBENT]) as plain,
            Readback.open(f"sqlite:///{paths['again']}", actions=[INCUMBENT]) as again,
            Readback.open(f"sqlite:///{paths['canary']}", actions=[INCUMBENT]) as watched,
        ):
            state = start_canary(watched, CANDIDATES, INCUMBENTS, percent=percent, mismatches_max=rounds)
            command = [sys.executable, "-m", "bench.canary", "--follow", str(paths["canary"])]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
                assert worker.stdout is not None
                assert worker.stdout.readline().strip() == "following"
                for n in range(rounds):
                    turns = [("plain", plain), ("canary", watched), ("again", again)]
                    for name, rb in turns[n % 3 :] + turns[: n % 3]:
                        began, began_cpu = time.perf_counter_ns(), time.process_time_ns()
                        assert rb.run(INCUMBENT(n), operation=f"ship {n}").verified
                        if n >= warm:
                            took[name].append((time.perf_counter_ns() - began) / 1e6)
                            took[f"{name}_cpu"].append((time.process_time_ns() - began_cpu) / 1e6)
                worker.communicate("")
            asked = sum(1 for _ in CanaryRecords(watched).verdicts(state.id))
    found = {name: statistics.median(values) for name, values in took.items()}
    found["cost_percent"] = 100 * (found["canary"] / found["plain"] - 1)
    found["cost_cpu_percent"] = 100 * (found["canary_cpu"] / found["plain_cpu"] - 1)
    found["noise_percent"] = 100 * (found["again"] / found["plain"] - 1)
    found["asked"] = asked
    return found


def main() -> int:
    """Print the medians, and return 1 where the canary costs more than its limit."""
    if "--follow" in sys.argv:
        follow(sys.argv[-1])
        return 0
    found = measured()
    print(f"without a canary  {found['plain']:.3f} ms  (processor {found['plain_cpu']:.3f} ms)")
    print(f"with a canary     {found['canary']:.3f} ms  (processor {found['canary_cpu']:.3f} ms)")
    print(f"asked             {found['asked']:.0f} of {ROUNDS} actions ({PERCENT:.0f} % of the targets)")
    print(f"added             {found['cost_percent']:+.2f} %  (limit {LIMIT_PERCENT:.0f} %)")
    print(f"noise             {found['noise_percent']:+.2f} %  (two ledgers without a canary)")
    return int(found["cost_percent"] > LIMIT_PERCENT)


if __name__ == "__main__":
    raise SystemExit(main())
