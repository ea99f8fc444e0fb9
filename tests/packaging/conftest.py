"""Builds the wheel once, and installs it once, in an environment that has nothing of this checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# As it was before any test touched it: pip finds its settings where this machine keeps them.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "READBACK_"))}


@dataclass(frozen=True, slots=True)
class Installed:
    """A clean environment with the wheel in it, and an empty working folder."""

    bin: Path
    folder: Path

    def run(self, *command: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program of that environment; the caller judges the exit code."""
        program, *rest = command
        return subprocess.run(
            [self.bin / program, *rest],
            cwd=self.folder,
            env=_ENVIRONMENT,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )


def _must(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, env=_ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the locked build backend of the running environment."""
    folder = tmp_path_factory.mktemp("wheel")
    _must(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (built,) = folder.glob("readback-*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel with its own core dependencies, at the versions of the lock file; no extra, no test tool."""
    folder = tmp_path_factory.mktemp("clean")
    constraints = folder / "constraints.txt"
    # A constraint may not carry hashes unless every requirement does, and a wheel from here has none.
    pins = re.findall(r"^([\w.-]+==[^\s;]+)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(pins) > 20
    constraints.write_text("\n".join(pins), encoding="utf-8")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    bin_ = folder / "venv" / "bin"
    # By the pip of here: to make one there, and to compile what is never imported, would take as long as all the rest.
    pip = (sys.executable, "-m", "pip", "--python", bin_ / "python", "install", "--quiet", "--no-input", "--no-compile")
    _must(*pip, "--constraint", constraints, wheel)
    working = folder / "working"
    working.mkdir()
    return Installed(bin_, working)
