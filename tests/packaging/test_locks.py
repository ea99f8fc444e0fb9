"""A lock says all that is installed: nothing is resolved where it is, and nothing is missing afterwards."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENTS_OF_MODELS = "agentdojo"
"""Installed without what it talks to models by."""


@pytest.mark.parametrize("file", ["Makefile", "bench/side_by_side/environments.py"])
def test_nothing_is_resolved_where_a_lock_is_installed(file: str) -> None:
    """Else a release of today is taken for an extra that somebody asks for, and refused since no lock has its hash."""
    lines = [line for line in (ROOT / file).read_text(encoding="utf-8").splitlines() if "--require-hashes" in line]
    assert lines
    assert [line for line in lines if "--no-deps" not in line] == []


def test_what_is_installed_lacks_nothing() -> None:
    told = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    lines = [line for line in told.stdout.splitlines() if not line.startswith(f"{CLIENTS_OF_MODELS} ")]
    assert [line for line in lines if not re.fullmatch(r"No broken requirements found\.", line)] == []
