"""A test that hangs fails by its name, and whatever hangs, the run goes on and ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120

pytestmark = pytest.mark.slow

CONFTEST = """
import pytest
from tests.workers.order import scheduler
from tests.workers.watchdog import watch

def pytest_configure(config):
    watch(config)

@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return scheduler(config, log)
"""
HANGING = """
import asyncio, pathlib, subprocess, sys, threading
import pytest

def test_before():
    pass

def test_waits():
    threading.Event().wait()

def test_waits_in_a_task():
    async def never():
        await asyncio.Event().wait()
    asyncio.run(never())

def test_waits_for_a_process():
    subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE).wait()

def test_waits_in_a_thread():
    thread = threading.Thread(target=threading.Event().wait, name="the-stuck-one", daemon=True)
    thread.start()
    thread.join()

def test_is_deaf():
    with pathlib.Path("deaf").open("a") as file:
        print("ran", file=file)
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass

@pytest.fixture
def endless():
    yield
    threading.Event().wait()

def test_hangs_in_its_end(endless):
    assert not "this fails too"

def test_after():
    pass
"""
SLOW = """
import threading
import pytest

@pytest.mark.parametrize("number", range(1000))
def test_goes_on(number):
    threading.Event().wait(0.1)
"""


def _run(folder: Path, tests: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_toy.py").write_text(tests)
    (folder / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT}\naddopts = --import-mode=importlib -ra\n"
        f"faulthandler_timeout = {limit_s}\nfaulthandler_exit_on_timeout = true\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n1",
        "--dist=loadfile",
        "--max-worker-restart=3",
        "-p",
        "no:anyio",
        ".",
    ]
    return subprocess.run(
        command,
        cwd=folder,
        env=kept,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("hanging")
    return folder, _run(folder, HANGING, 3.0)


@pytest.mark.parametrize(
    "name", ["waits", "waits_in_a_task", "waits_for_a_process", "waits_in_a_thread", "is_deaf", "hangs_in_its_end"]
)
def test_what_hangs_is_named_at_the_end(hanging: tuple[Path, subprocess.CompletedProcess[str]], name: str) -> None:
    _, run = hanging
    _, found, summary = run.stdout.partition("short test summary info")
    assert found, run.stdout + run.stderr
    assert run.returncode == 1
    assert f"test_toy.py::test_{name} - " in summary


def test_the_others_run_and_what_ended_its_process_is_not_run_again(
    hanging: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, run = hanging
    assert (folder / "deaf").read_text() == "ran\n"
    assert "6 failed, 2 passed, 1 error" in run.stdout


def test_stacks_of_threads_and_tasks_and_the_processes_are_told(
    hanging: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    _, run = hanging
    assert "Thread the-stuck-one:" in run.stdout
    assert "await asyncio.Event().wait()" in run.stdout
    assert "-c input()" in run.stdout
    assert "HANGS, its process ended: test_toy.py::test_is_deaf" in run.stderr


def test_a_run_that_goes_on_and_on_is_ended(tmp_path: Path) -> None:
    run = _run(tmp_path, SLOW, 0.5)
    assert run.returncode == 70
    assert "the whole run did not end within 4.5 s" in run.stdout + run.stderr
