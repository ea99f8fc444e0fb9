"""The demo's systems, started once a file; faults are taken back after each test."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from readback.demo.systems.launch import Systems


@pytest.fixture(scope="module")
def running() -> Iterator[Systems]:
    with Systems() as systems:
        yield systems


@pytest.fixture
def systems(running: Systems) -> Iterator[Systems]:
    yield running
    running.clear_faults()


@pytest.fixture
def shop(systems: Systems) -> Iterator[httpx.Client]:
    headers = {"X-Tenant": "acme"}
    with httpx.Client(base_url=systems.orders_url, headers=headers, timeout=5, trust_env=False) as client:
        yield client
