"""Imports point down only, and the contracts that say so do bite."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, SOURCE, modules

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

# One offence for each contract: the file it is put into, and the line that breaks the rule.
OFFENCES = {
    "layers": ("canon/offence.py", "import readback.ports"),
    "no-cycles": ("ports/offence.py", "from readback.ports import offence2"),
    "composition-root": ("client/offence.py", "import readback.adapters"),
    "halves-apart": ("systems/offence/source.py", "import readback.systems.offence.executor"),
    "stores-apart": ("stores/sqlite/offence.py", "import readback.stores.postgres"),
    "adapters-apart": ("adapters/sinks/offence.py", "import readback.adapters.log.anchor_git"),
    "surfaces-apart": ("hooks/offence.py", "import readback.gateway"),
    "testing-apart": ("testing/offence.py", "import readback.bootstrap"),
    "pure-rooms": ("domain/offence.py", "import time"),
}
ACCOMPLICES = {
    "ports/offence2.py": "from readback.ports import offence",
    "systems/offence/__init__.py": "",
    "systems/offence/executor.py": "",
}


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "", "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def _contracts() -> list[dict[str, object]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(settings["tool"]["importlinter"]["contracts"])


@pytest.mark.slow
def test_imports_point_down_only() -> None:
    answer = _lint(SOURCE.parent)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.slow
def test_every_contract_bites(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "readback", ignore=shutil.ignore_patterns("__pycache__"))
    for name, line in [*OFFENCES.values(), *ACCOMPLICES.items()]:
        place = tmp_path / "readback" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(line + "\n", encoding="utf-8")
    answer = _lint(tmp_path)
    verdicts = answer.stdout.replace("\n", " ")
    kept = [contract["id"] for contract in _contracts() if f"{contract['name']} BROKEN" not in verdicts]
    assert kept == [], answer.stdout + answer.stderr
    assert set(OFFENCES) == {contract["id"] for contract in _contracts()}


@pytest.mark.slow
def test_nothing_inside_imports_the_roof() -> None:
    """`readback/__init__` is for users; a room that imports it would pull the whole house in."""
    guilty = []
    for module in modules():
        room = module.name.split(".")[1:2]
        if room in ([], ["cli"], ["demo"], ["bench"], ["__main__"]):
            continue
        guilty += [
            f"{module.path}:{number}"
            for number, line in enumerate(module.text.splitlines(), 1)
            if line.strip() == "import readback" or line.strip().startswith("from readback import ")
        ]
    assert guilty == []


@pytest.mark.parametrize("room", sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()))
def test_each_room_says_what_it_is(room: str) -> None:
    first = (SOURCE / room / "__init__.py").read_text(encoding="utf-8")
    assert first.startswith('"""'), f"{room}/__init__.py opens with the rule of its room"
