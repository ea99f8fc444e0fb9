"""One program that forks victims serves a whole module; its rounds and its seed come from the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.crash.nursery import Nursery


@pytest.fixture(scope="session")
def rounds() -> int:
    """How often each kill is made: once, or READBACK_CRASH_ROUNDS times."""
    return max(1, int(os.environ.get("READBACK_CRASH_ROUNDS", "1")))


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()
