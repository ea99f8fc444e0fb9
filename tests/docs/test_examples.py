"""Each example runs and prints what its head says."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, text_of
from tests.docs.running import TIMEOUT_SECONDS, environment
from tests.workers import forks

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


STARTED = ("first_action", "01-http", "05-async-many")
"""Those that are started, as a reader starts them; the others are forked from a Python that has everything loaded."""


def _promised(path: Path) -> str:
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    _, found, lines = said.partition("Prints:\n")
    assert found, f"{path.name} does not say what it prints"
    return textwrap.dedent(lines).strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(path: Path, tmp_path: Path) -> None:
    done = forks.run(
        [sys.executable, str(path)],
        forked=path.stem not in STARTED,
        cwd=tmp_path,
        env=environment(tmp_path, forked=path.stem not in STARTED),
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == _promised(path), done.stderr


def test_an_example_that_starts_the_command_finds_it_beside_its_python_where_it_is_not_on_the_path(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "25-coding-agent.py"],
        cwd=tmp_path,
        env={**environment(tmp_path, forked=False), "PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_there_are_examples_and_each_is_named_in_the_documents() -> None:
    assert len(EXAMPLES) >= 7
    pages = "".join(text_of(page) for page in PAGES if page.startswith(("README.md", "docs/")))
    assert [path.name for path in EXAMPLES if path.name not in pages] == []


@pytest.mark.requirement("L06", "L07", "L08")
def test_l07_what_a_retry_and_a_bare_saga_do_stands_in_the_documents_as_the_example_prints_it() -> None:
    told = _promised(ROOT / "examples" / "13-three-ways.py")
    assert told in text_of("docs/three-ways.md")
    lines = told.splitlines()
    assert not [line for line in lines if line.lstrip().startswith("Readback") and "NOT SO" in line]
    assert sum("NOT SO" in line for line in lines) >= 8
