"""A log of its own for each test."""

from __future__ import annotations

import pytest

from tests.sealing.given import Log


@pytest.fixture
def log() -> Log:
    return Log()
