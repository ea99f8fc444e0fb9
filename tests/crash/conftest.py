"""One program that forks victims serves a whole module; its rounds and its seed come from the environment."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.nursery import SEED, Nursery, empty_ledger

MEMORY = Path("/dev/shm")
"""A killed process leaves there what it would leave on a disk, and syncing costs nothing."""


def pytest_report_header() -> str:
    return f"crash: {os.environ.get('READBACK_CRASH_ROUNDS', '1')} round(s) of kill -9, seed {SEED}"


@pytest.fixture(scope="session")
def rounds() -> int:
    """How often each kill is made: once, or READBACK_CRASH_ROUNDS times."""
    return max(1, int(os.environ.get("READBACK_CRASH_ROUNDS", "1")))


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="module")
def stories() -> Iterator[Path]:
    """A folder for the stories of a module, with an empty ledger for all of them."""
    folder = Path(tempfile.mkdtemp(prefix="readback-crash-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    empty_ledger(folder / "ledger.db")
    yield folder
    shutil.rmtree(folder)
