"""Two real processes on one ledger: one of them executes, and whoever joins goes on when that one is killed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tree import ROOT
from tests.crash.checker import check, facts
from tests.crash.nursery import Nursery, end_of, stage
from tests.workers import forks

ANSWER_SECONDS_MAX = 20
"""Far below the lease (over half a minute), which nobody may wait for."""
RACES = 15


class Racer:
    """One process; what it says is waited for, and never for long."""

    def __init__(self, folder: Path) -> None:
        self.process = forks.start(
            [sys.executable, "-m", "tests.crash.racer", str(folder)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._heard = b""

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        while b"\n" not in self._heard:
            ready = select.select([self.process.stdout], [], [], ANSWER_SECONDS_MAX)[0]
            assert ready, "no answer: it waits for somebody who is dead"
            piece = os.read(self.process.stdout.fileno(), 65536)
            assert piece, "it has ended"
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def outcome(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.hear())
        return told

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return stage(tmp_path / "story")


@pytest.fixture
def racers(folder: Path) -> Iterator[tuple[Racer, Racer]]:
    both = Racer(folder), Racer(folder)
    assert [each.hear() for each in both] == ["ready", "ready"]
    yield both
    for each in both:
        each.close()


def test_of_two_processes_that_run_the_same_operation_one_executes_and_both_are_told(
    folder: Path, racers: tuple[Racer, Racer]
) -> None:
    for number in range(RACES):
        for each in racers:
            each.tell(f"op-{number}")
        told = [each.outcome() for each in racers]
        assert [one["state"] for one in told] == ["reconciled_success"] * 2
        assert told[0]["id"] == told[1]["id"]
        assert sorted(one["replayed"] for one in told) == [False, True]
    found = facts(folder)
    assert len(found.calls) == len(found.effects) == len(found.actions) == RACES


@pytest.mark.requirement("L07", "TRUTH-keys-recovered")
def test_l07_whoever_joined_goes_on_when_the_runner_is_killed_with_its_reply_on_the_way(
    folder: Path, racers: tuple[Racer, Racer]
) -> None:
    """The effect has landed and its reply is lost with the process: it is found by its stamp, and not made again."""
    runner, joiner = racers
    runner.tell("hold the-op")
    assert runner.hear() == "calling"
    joiner.tell("the-op")
    runner.kill()
    told = joiner.outcome()
    assert (told["state"], told["attribution"], told["replayed"]) == ("reconciled_success", "ours", True)
    assert told["observation"] is None or told["observation"]["status"] == "none"
    found = facts(folder)
    assert [len(found.calls), len(found.effects), len(found.actions)] == [1, 1, 1]
    assert found.actions[0].attempts == 1


def test_a_program_of_its_own_dies_and_another_goes_on(nursery: Nursery, tmp_path: Path) -> None:
    """Not forked from anything: started, killed in the middle, and started again."""
    folder = stage(tmp_path / "story")
    for phase, kill_at in (("run", 8), ("run+resume", 0)):
        ended = subprocess.run(
            [sys.executable, "-m", "tests.crash.victim", str(folder), phase, "create", str(kill_at)],
            cwd=ROOT, check=False, timeout=60,
        )  # fmt: skip
        assert end_of(folder, ended.returncode).killed is bool(kill_at)
    found = facts(folder)
    check(found, settled=True)
    assert len(found.effects) == 1
    assert found.told[-1]["verified"]
