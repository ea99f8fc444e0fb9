"""The real servers, started once; and what every recipe is run in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from readback import Readback
from readback.testing.postgres_server import PostgresPair
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.s3_server import S3Server
from readback.testing.store_memory import MemoryStore

SEEDS = itertools.count(1)
"""Each desk draws stamps of its own: the servers are shared."""


class Desk:
    """A ledger under virtual time: an hour passes in no time, the servers answer in their own."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.runtime = VirtualRuntime(seed=next(SEEDS))

    def open(self, principal: str = "agent:desk", **given: Any) -> Readback:
        return Readback.open(
            store=self.store.reopened(), runtime=self.runtime, tenant="acme", principal=principal, **given
        )

    def later(self, seconds: float, *actions: Any) -> None:
        """Nobody looks for that long; then somebody goes on with all that is due."""
        self.runtime.advance(seconds)
        with self.open(actions=actions) as rb:
            for _ in range(4):
                rb.resume()


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture(scope="session")
def postgres_pair() -> Iterator[PostgresPair]:
    with PostgresPair() as pair:
        yield pair


@pytest.fixture
def postgres(postgres_pair: PostgresPair) -> Iterator[PostgresPair]:
    yield postgres_pair
    postgres_pair.catch_up()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server("shelf", "plain") as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server) -> Iterator[S3Server]:
    yield s3_server
    s3_server.honest()


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Names that nobody used before."""
    numbers = itertools.count(next(SEEDS) * 1_000)
    return lambda word: f"{word}-{next(numbers)}"
