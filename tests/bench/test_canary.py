"""The bench of the canary, in small: it asks for real, and measures both ledgers."""

from __future__ import annotations

import pytest

from bench.canary import measured


@pytest.mark.requirement("CANARY-measured")
def test_the_bench_runs_actions_with_and_without_a_canary() -> None:
    found = measured(rounds=12, warm=2, percent=100)
    assert found["asked"] == 12, "a worker in a process of its own asked about each action"
    assert found["plain"] > 0 < found["canary"]
    clocks = {f"{name}{clock}" for name in ("plain", "again", "canary") for clock in ("", "_cpu")}
    assert set(found) == clocks | {"cost_percent", "cost_cpu_percent", "noise_percent", "asked"}
