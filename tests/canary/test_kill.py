"""A worker killed at any durable step of the canary loses no verdict, and writes none twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from readback import Readback
from readback.assurance.canary.control import start_canary
from readback.assurance.canary.follower import CanaryFollower
from readback.assurance.canary.records import VERDICT, CanaryRecords
from readback.ports.storage.store import ActionFilter
from tests.canary.depot import Depot, plans

ROOT = Path(__file__).resolve().parents[2]
STEPS_MAX = 40
SECONDS_MAX = 60
ORDERS = ("o-1", "bare-2")


def killed(ledger: Path, step: int, when: str) -> bool:
    """Run the victim. Return whether the process died at the step."""
    command = [sys.executable, "-m", "tests.canary.victim", str(ledger), str(step), when]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode != 0


@pytest.mark.slow
@pytest.mark.requirement("CANARY-killed")
@pytest.mark.parametrize("when", ["before", "after"])
def test_no_verdict_is_lost_or_doubled_by_a_kill_at_any_durable_step(tmp_path: Path, when: str) -> None:
    for step in range(1, STEPS_MAX):
        ledger, depot = tmp_path / f"{when}-{step}.db", Depot()
        with Readback.open(
            f"sqlite:///{ledger}", tenant="acme", principal="agent:ops", actions=[depot.incumbent]
        ) as rb:
            state = start_canary(rb._session, plans(depot.candidate), plans(depot.incumbent), mismatches_max=9)
            made = depot.incumbent
            told = [rb.run(made(order), operation=order) for order in ORDERS]
        died = killed(ledger, step, when)
        with Readback.open(f"sqlite:///{ledger}", tenant="acme", principal="agent:ops") as rb:
            follower = CanaryFollower(rb._session, plans(depot.candidate), plans(depot.incumbent))
            while follower.round():
                pass
            found = Counter(each.action_id for each in CanaryRecords(rb._session).verdicts(state.id))
            records = rb._session.store.page(ActionFilter(contract=VERDICT, limit=50))
        assert found == Counter(each.id for each in told), f"killed {when} step {step}"
        assert len(records) == len(told), f"killed {when} step {step}"
        if not died:
            assert step > len(ORDERS) * 2, "the follower writes more often than that"
            return
    raise AssertionError("The victim never ended by itself.")
