"""Ledgers of a test are closed with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.telemetry import history


@pytest.fixture(autouse=True)
def closed_ledgers() -> Iterator[None]:
    """Close what the test opened; a ledger of a module's fixture is closed by that fixture."""
    before = len(history.OPENED)
    yield
    for store in history.OPENED[before:]:
        store.close()
    del history.OPENED[before:]
