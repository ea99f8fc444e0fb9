"""A client of the official TypeScript SDK is told the same with the gateway between and without it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.gateway.processes import END_S, EVERYTHING, gateway, listening
from tests.packs.desk import installed

pytestmark = pytest.mark.slow

SDK = ("npm", "node_modules", "@modelcontextprotocol", "sdk")
CLIENT = Path(__file__).parent / "client.mjs"


def told(*how: str) -> dict[str, str]:
    """What the client says, by what it did."""
    command = ["node", str(CLIENT), installed(*SDK), *how]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=END_S, check=True, cwd=ROOT, env=env)
    return dict(line.split(" ", 1) for line in ended.stdout.splitlines())


@pytest.mark.requirement("WIRE-unchanged")
def test_a_typescript_client_is_told_the_same_over_pipes() -> None:
    plain = told("stdio", *EVERYTHING)
    assert told("stdio", *gateway([{"command": EVERYTHING}])) == plain
    assert "no more waiting" in plain["wait"]
    assert "said" in plain["sample"]


@pytest.mark.requirement("WIRE-http")
def test_a_typescript_client_is_told_the_same_over_http() -> None:
    with listening([*EVERYTHING, "--http"]) as server, listening(gateway([{"url": server}], serve="http")) as url:
        plain = told("http", server)
        assert told("http", url) == plain
    assert "no more waiting" in plain["wait"]
