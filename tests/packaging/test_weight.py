"""Nothing heavy is imported until it is used: an agent's start pays for what it does, no more."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import files
from pathlib import Path

import pytest

HEAVY = {
    "pydantic",
    "httpx",
    "rich",
    "cel_expr_python",
    "re2",
    "apsw",
    "sqlite3",
    "http.server",
    "smtplib",
    "imaplib",
}

_LOADED = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
"""


def _loaded(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", f"{_LOADED}\n{code}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_import_readback_is_light() -> None:
    loaded = _loaded("import readback")
    assert "readback" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("command", ["--help", "version"])
def test_asking_for_help_is_light(command: str) -> None:
    loaded = _loaded(f"import sys; sys.argv = ['readback', {command!r}]\nfrom readback.cli.cli import main\nmain()")
    assert "readback.cli.cli" in loaded
    assert loaded & HEAVY == set()


def _installed_bytes(package: str) -> int:
    return sum(Path(str(each.locate())).stat().st_size for each in files(package) or () if each.suffix != ".pyc")


def test_expressions_need_45_megabytes_less_than_with_the_library_that_is_now_their_oracle() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    needed = {each.partition("=")[0].partition(">")[0] for each in project["dependencies"]}
    assert "cel-expr-python" not in needed
    assert "cel-expr-python" not in Path("requirements-demo.lock").read_text()
    assert "google-re2" in needed
    assert _installed_bytes("cel-expr-python") - _installed_bytes("google-re2") > 45_000_000
    assert _installed_bytes("google-re2") < 2_000_000
