"""One real PostgreSQL for all tests of a process, started by the first that asks, and an empty schema for each.

What a test leaves in its schema goes with the server: to drop it takes a third of what it takes to make it.

`tests/conftest.py` offers these fixtures to every room.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from readback.testing.postgres_server import PRIMARY, PostgresPair

SETTINGS = """
max_connections = 200
shared_buffers = '64MB'
max_wal_size = '512MB'
"""
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def ledger_server() -> Iterator[PostgresPair]:
    """A primary without a standby; a test that ends or starts it brings its own instead."""
    with PostgresPair(standby=False, settings=SETTINGS) as server:
        yield server


def url_of(server: PostgresPair, schema: str, user: str = "postgres") -> str:
    return f"postgresql://{user}@/postgres?host={server.home}&port={PRIMARY}&schema={schema}"


@pytest.fixture
def ledger_url(ledger_server: PostgresPair) -> str:
    """The address of a ledger that does not exist yet, in a schema of its own."""
    return url_of(ledger_server, f"ledger_{next(_numbers)}")
