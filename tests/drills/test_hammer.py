"""Several real processes hammer one operation against a real service that charges for every call it gets."""

from __future__ import annotations

import json
import os
import select
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tree import ROOT
from tests.drills.service import Service, serving
from tests.workers import forks

PROCESSES = 5
ROUNDS = 6
ANSWER_SECONDS_MAX = 60


class Hammer:
    """One process; what it says is waited for, and never for long."""

    def __init__(self, folder: Path, url: str) -> None:
        self.process = forks.start(
            [sys.executable, "-m", "tests.drills.hammer", str(folder), url],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._heard = b""

    def tell(self, operation: str, cents: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{operation} {cents}\n".encode())
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        while b"\n" not in self._heard:
            assert select.select([self.process.stdout], [], [], ANSWER_SECONDS_MAX)[0], "it says nothing"
            piece = os.read(self.process.stdout.fileno(), 65536)
            assert piece, "it has ended"
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path / "books.db", "ignores") as one:
        yield one


@pytest.fixture
def hammers(tmp_path: Path, service: Service) -> Iterator[list[Hammer]]:
    started = [Hammer(tmp_path, service.url) for _ in range(PROCESSES)]
    try:
        assert [each.hear() for each in started] == ["ready"] * PROCESSES
        yield started
    finally:
        for each in started:
            each.close()


def charges(service: Service) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(service.books)) as db:
        return list(db.execute("select cents, stamp from charges order by id"))


@pytest.mark.requirement("TRUTH-keys-processes", "TRUTH-keys-second-run", "PRINCIPLE-idempotency")
def test_however_many_processes_run_one_operation_it_has_one_effect_and_one_outcome(
    service: Service, hammers: list[Hammer]
) -> None:
    for number in range(ROUNDS):
        for each in hammers:
            each.tell(f"invoice-{number}", 100 + number)
        told = [each.hear() for each in hammers]
        assert [one["state"] for one in told] == ["reconciled_success"] * PROCESSES
        assert len({(one["id"], one["stamp"], one["target"]) for one in told}) == 1, "all get the same outcome"
        assert sorted(one["replayed"] for one in told) == [False] + [True] * (PROCESSES - 1)
        assert [cents for cents, _ in charges(service)] == [100 + each for each in range(number + 1)]
        assert charges(service)[-1][1] == told[0]["stamp"]


@pytest.mark.requirement("TRUTH-keys-processes", "TRUTH-keys-request-hash")
def test_of_processes_that_run_one_operation_with_different_payloads_one_executes_and_the_others_are_refused(
    service: Service, hammers: list[Hammer]
) -> None:
    for number in range(2):
        for place, each in enumerate(hammers):
            each.tell(f"invoice-{number}", 100 + place)
        told = [each.hear() for each in hammers]
        done = [one for one in told if "state" in one]
        assert [(one["state"], one["replayed"]) for one in done] == [("reconciled_success", False)]
        assert [one["code"] for one in told if "state" not in one] == ["input.payload-conflict"] * (PROCESSES - 1)
        assert len(charges(service)) == number + 1
