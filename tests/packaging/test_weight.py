"""Nothing heavy is imported until it is used: an agent's start pays for what it does, no more."""

from __future__ import annotations

import json
import subprocess
import sys

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
    loaded = _loaded(
        f"import sys; sys.argv = ['readback', {command!r}]\nfrom readback.commands.cli import main\nmain()"
    )
    assert "readback.commands.cli" in loaded
    assert loaded & HEAVY == set()
