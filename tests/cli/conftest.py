"""A folder with a shop and a ledger, and the command line in it: in process under virtual time, or as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from readback import bootstrap
from readback.cli.cli import main
from readback.testing.runtime_virtual import VirtualRuntime
from tests.architecture.tree import ROOT
from tests.workers import forks

PATIENCE_SECONDS = 120
CONTRACTS = "tests.cli.shop"


@dataclass(frozen=True, slots=True)
class Answer:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Desk:
    """The working folder of one test."""

    folder: Path
    runtime: VirtualRuntime
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    forked: bool = True
    """Whether its processes are forked from a Python that has everything loaded."""

    def __call__(self, *args: str, code: int | None = None) -> Answer:
        """One command in this process, with virtual time. `code`: what it has to end with."""
        result = CliRunner().invoke(main, list(args))
        answer = Answer(result.exit_code, result.stdout, result.stderr)
        assert code is None or answer.code == code, answer
        return answer

    def run(self, tool: str = "ship", *more: str, code: int | None = None, **arguments: str) -> Answer:
        """`readback run --json` with these text arguments."""
        given = [part for name, value in arguments.items() for part in ("--arg", f"{name}={value}")]
        return self("run", tool, "--contracts", CONTRACTS, "--json", *given, *more, code=code)

    def ship(self, operation: str, *more: str, code: int | None = None, **arguments: str) -> Any:
        """One shipping; the outcome."""
        given = {"order_id": "o-17", "carrier": "dhl", **arguments}
        return self.run("ship", "--operation", operation, *more, code=code, **given).json

    def process(self, *args: str) -> subprocess.Popen[str]:
        """A command as a real process, in this folder and with real time."""
        process = forks.start(
            [forks.READBACK, *args],
            forked=self.forked,
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """No process outlives its test, whatever became of that."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def spawn(self, *args: str, code: int | None = None) -> Answer:
        """The same, to its end."""
        started = self.process(*args)
        out, err = started.communicate(timeout=PATIENCE_SECONDS)
        answer = Answer(started.returncode, out, err)
        assert code is None or answer.code == code, answer
        return answer

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("READBACK_", "COLUMNS"))}
        return {**kept, "PYTHONPATH": str(ROOT), "SHOP_FILE": str(self.folder / "shop.json")}

    @property
    def ledger(self) -> Path:
        return self.folder / "readback.db"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SHOP_FILE", str(folder / "shop.json"))
    monkeypatch.delenv("COLUMNS", raising=False)  # whoever runs the tests may have a narrow terminal
    monkeypatch.setattr(sys, "path", [*sys.path])
    runtime = VirtualRuntime()
    monkeypatch.setattr(bootstrap, "runtime", lambda: runtime)
    one = Desk(folder, runtime)
    yield one
    one.end()
