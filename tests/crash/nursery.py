"""The tests' side: one program that forks the victims, and the folder in which each story takes place.

The victims are forked from a program that has everything loaded, so that a process costs milliseconds; they are real
processes all the same, with pids of their own, and they are killed by the kernel.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from readback.stores.sqlite import open_sqlite_store
from tests.architecture.tree import ROOT
from tests.crash.points import Memory
from tests.crash.world import World
from tests.workers.limit import killed_after

SEED = 20260101
"""Of every second kill and every random moment; a failure names it with its round."""


@dataclass(frozen=True, slots=True)
class End:
    """How a victim ended, and after how many points."""

    killed: bool
    code: int
    points: int
    point: str


class Nursery:
    """Sends orders to the program that forks victims."""

    def __init__(self, program: str = "tests.crash.victim") -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", program, "--serve"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def order(
        self, folder: Path, phase: str, scenario: str = "", kill_at: int = 0, kill_after_ms: float | None = None
    ) -> End:
        """One process from its start to its end, in that folder."""
        stdin, stdout = self._server.stdin, self._server.stdout
        assert stdin is not None
        assert stdout is not None
        order = {"folder": str(folder), "phase": phase, "scenario": scenario, "kill_at": kill_at}
        stdin.write(json.dumps({**order, "kill_after_ms": kill_after_ms}) + "\n")
        stdin.flush()
        with killed_after(self._server):
            line = stdout.readline()
        assert line, "the program that forks victims has ended itself"
        return end_of(folder, json.loads(line)["code"])

    def close(self) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait(timeout=30)


def end_of(folder: Path, code: int) -> End:
    """What the memory of the last victim in this folder says."""
    memory = Memory(folder / "memory")
    errors = folder / "errors.txt"
    assert not errors.exists(), f"{folder.name}: {errors.read_text(encoding='utf-8')}"
    return End(code == -9, code, memory.count, memory.point)


def stage(folder: Path, ledger: Path | None = None) -> Path:
    """A fresh folder with a fresh world, and an empty ledger that was made before, where one is given."""
    folder.mkdir(parents=True)
    World.create(folder / "world.db")
    if ledger is not None:
        shutil.copy(ledger, folder / "ledger.db")
    return folder


def empty_ledger(path: Path) -> Path:
    """Made once and copied for each story: what a release writes into a file that it creates is always the same."""
    open_sqlite_store(path).close()
    return path
