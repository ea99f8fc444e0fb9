"""Machines whose clocks are apart agree on the time of a ledger that they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from readback import Readback
from readback.drivers.ledger_time import in_ledger_time
from readback.testing.runtime_virtual import VirtualRuntime
from tests.fleet.program import SkewedRuntime

MINUTE_US = 60_000_000
AGREED_US = 500_000


@pytest.mark.slow
@pytest.mark.requirement("DRILL-one-time")
def test_machines_whose_clocks_are_minutes_apart_have_one_time_on_postgresql(ledger_url: str) -> None:
    told = []
    for skew_us in (-10 * MINUTE_US, 0, 10 * MINUTE_US):
        with Readback.open(ledger_url, tenant="acme", principal="agent:a", runtime=SkewedRuntime(skew_us)) as rb:
            told.append(rb._session.runtime.now_us() - SkewedRuntime(0).now_us())
    assert max(told) - min(told) < AGREED_US, told


def test_on_a_file_the_machines_own_clock_counts(tmp_path: Path) -> None:
    runtime = SkewedRuntime(MINUTE_US)
    with Readback.open(f"sqlite:///{tmp_path}/a.db", tenant="acme", principal="agent:a", runtime=runtime) as rb:
        assert rb._session.runtime is runtime


class Clock:
    """A store's clock that takes its time to answer; whoever asks may see so much of his own pass."""

    def __init__(self, runtime: SkewedRuntime, said_us: int | None) -> None:
        self.runtime, self.said_us = runtime, said_us

    def clock_us(self) -> int | None:
        return self.said_us


def test_what_is_virtual_and_what_says_no_time_is_left_alone() -> None:
    virtual, wall = VirtualRuntime(seed=1), SkewedRuntime(0)
    assert in_ledger_time(Clock(wall, 1), virtual) is virtual  # type: ignore[arg-type]
    assert in_ledger_time(Clock(wall, None), wall) is wall  # type: ignore[arg-type]
    set_right = in_ledger_time(Clock(wall, wall.now_us() + MINUTE_US), wall)  # type: ignore[arg-type]
    assert abs(set_right.now_us() - wall.now_us() - MINUTE_US) < AGREED_US
    assert set_right.owner() == wall.owner()
