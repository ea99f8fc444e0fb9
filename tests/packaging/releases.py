"""Releases of the package, each built as a wheel out of a changed copy of this tree and put into a folder of its own.

A process that has such a folder first on its path runs that release, with the dependencies of the environment that
runs the tests.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.packaging.conftest import ROOT

BUILT_OF = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md")
CLI = "readback.cli.cli"
STEPS = "src/readback/stores/{}/migrations"
PATIENCE_S = 60.0
NONE: Mapping[str, tuple[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Release:
    """Where it is installed, and which version it says it is."""

    version: str
    folder: Path
    beside: Path
    """A folder with the contracts, behind it on the path."""
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def process(self, *words: str) -> subprocess.Popen[str]:
        """A module of that release, with these words. Whatever it writes to PostgreSQL it writes under its name."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("READBACK_")}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", *words],
            cwd=self.beside,
            env={
                **kept,
                "PYTHONPATH": os.pathsep.join(map(str, (self.folder, self.beside))),
                "PGAPPNAME": self.version,
            },
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *words: str) -> tuple[int, str, str]:
        """The same, to its end: exit code, answer, and what was said beside it."""
        process = self.process(CLI, *words)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    def end(self) -> None:
        """No process of it outlives the test."""
        for process in self.started:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        self.started.clear()


def made(version: str, inside: Path, beside: Path, migrations: Mapping[str, tuple[str, str]] = NONE) -> Release:
    """A release of that version. `migrations`: one more step of these stores' schemas, its file's name and text."""
    tree = inside / f"tree-{version}"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILT_OF:
        shutil.copy(ROOT / name, tree / name)
    _put(tree / "pyproject.toml", r'(?m)^version = "[^"]+"$', f'version = "{version}"')
    _put(tree / "src/readback/__init__.py", r'(?m)^__version__ = "[^"]+"$', f'__version__ = "{version}"')
    for store, (name, text) in migrations.items():
        (tree / STEPS.format(store) / name).write_text(text, encoding="utf-8")
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(inside / f"wheel-{version}")]
    done = subprocess.run(built, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = (inside / f"wheel-{version}").glob("readback*.whl")
    folder = inside / f"installed-{version}"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    _compiled(folder)
    return Release(version, folder, beside)


def _compiled(folder: Path) -> None:
    """What it has in common with this tree is compiled already: that is taken over, and goes by the files' times."""
    for file in folder.rglob("*.py"):
        same = ROOT / "src" / file.relative_to(folder)
        kept = Path(importlib.util.cache_from_source(str(same)))
        if kept.exists() and same.read_bytes() == file.read_bytes():
            shutil.copystat(same, file)
            target = Path(importlib.util.cache_from_source(str(file)))
            target.parent.mkdir(exist_ok=True)
            shutil.copy(kept, target)


def _put(path: Path, pattern: str, text: str) -> None:
    before = path.read_text(encoding="utf-8")
    after, number = re.subn(pattern, text, before)
    assert number == 1, f"{path} has {number} places for {text}"
    path.write_text(after, encoding="utf-8")
