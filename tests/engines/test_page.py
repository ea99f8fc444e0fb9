"""The programs of the engines' page, run as the page shows them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import processes
from tests.engines.restate_server import restate_server
from tests.frameworks.page import programs

PROGRAMS = dict(zip(("temporal", "dbos", "restate"), programs("durable_engines"), strict=True))
PROGRAMS["agent-hooks"] = programs("agent_hooks")[0]
PORT = "9080"


@pytest.mark.requirement("ENGINE-page")
@pytest.mark.parametrize("engine", ["temporal", "dbos", "agent-hooks"])
def test_the_program_of_an_engine_prints_what_the_page_shows(engine: str, tmp_path: Path) -> None:
    program, expected = PROGRAMS[engine]
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env={**processes.environment(tmp_path), "PATH": path},
        capture_output=True,
        text=True,
        timeout=processes.LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    # Temporal's development server prints its own banner before the program's line.
    assert done.stdout.splitlines()[-1:] == expected.splitlines()


@pytest.fixture
def shop_url(tmp_path: Path) -> Iterator[str]:
    port = str(processes.free_port())
    program = PROGRAMS["restate"][0]
    assert program.count(PORT) == 1
    (tmp_path / "page.py").write_text(program.replace(PORT, port), encoding="utf-8")
    with (
        processes.process([sys.executable, "page.py"], tmp_path, "page.log"),
        restate_server(tmp_path, f"http://127.0.0.1:{port}") as ingress,
    ):
        yield f"{ingress}/Shop/ship"


@pytest.mark.requirement("ENGINE-page")
def test_the_restate_service_of_the_page_answers_as_the_page_shows(shop_url: str) -> None:
    assert processes.post(shop_url, "o-17") == (200, PROGRAMS["restate"][1].strip())
