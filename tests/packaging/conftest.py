"""Builds the wheel once, and installs it once, in an environment that has nothing of this checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
    (built,) = folder.glob("readback*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel with its own core dependencies, at the versions of the lock file; no extra, no test tool.

    They are those of the running environment, which `make setup` has from the index: to have pip look through the pages
    of all their versions again takes eight seconds. That they are enough and fit, pip says.
    """
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    bin_ = folder / "venv" / "bin"
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    locked = {canonicalize_name(name): version for name, version in pins}
    assert len(locked) > 20
    for each in needed(wheel):
        assert locked[canonicalize_name(each.name)] == each.version, "run `make setup`"
        _copy(each, site)
    # By the pip of here: to make one there, and to compile what is never imported, would take as long as all the rest.
    pip = (sys.executable, "-m", "pip", "--python", bin_ / "python")
    _must(*pip, "install", "--quiet", "--no-input", "--no-compile", "--no-index", "--no-deps", wheel)
    _must(*pip, "check")
    working = folder / "working"
    working.mkdir()
    return Installed(bin_, working)


def needed(wheel: Path) -> list[Distribution]:
    """What the wheel says that it needs where no extra is asked for, and what that needs, as it is installed here."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        said = HeaderParser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", [])
    found: dict[tuple[str, str], Distribution] = {}
    waiting = [(each, "") for each in said]
    while waiting:
        text, of = waiting.pop()
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": of}):
            continue
        for extra in ("", *wanted.extras):
            key = canonicalize_name(wanted.name), extra
            if key not in found:
                found[key] = distribution(wanted.name)
                waiting += [(each, extra) for each in found[key].requires or []]
    return [each for (_, extra), each in found.items() if not extra]


def _copy(what: Distribution, site: Path) -> None:
    """Its files beside each other, as pip puts them; not its commands, which name the Python of here."""
    for file in what.files or []:
        if ".." not in file.parts and file.suffix != ".pyc":
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(str(file.locate()), target)
