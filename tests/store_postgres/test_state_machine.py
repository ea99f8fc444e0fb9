"""The store in memory and the one on PostgreSQL get the same calls and give the same answers, from two handles."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from readback.stores.postgres import PostgresStore, open_postgres_store
from readback.testing.store_memory import MemoryStore
from tests.store.test_state_machine import InStep

pytestmark = pytest.mark.slow
EXAMPLES, STEPS = 5, 12
"""Bounded, since each step compares everything over a socket."""


def test_it_stays_in_step_with_the_store_in_memory(ledger_url: str) -> None:
    numbers = itertools.count()

    class OnPostgres(InStep):
        """Each run has a schema of its own; a crash is a session that ends."""

        @initialize()
        def open(self) -> None:
            self.url = f"{ledger_url}_{next(numbers)}"
            self.memory = MemoryStore(sequences_asynchronously=True)
            self.handles = cast("Any", [self._opened(), self._opened()])

        def _opened(self) -> PostgresStore:
            return open_postgres_store(self.url, clock="callers")

        @rule(which=st.booleans())
        def reopen(self, which: bool) -> None:
            self.handles[which].close()
            self.handles[which] = cast("Any", self._opened())

        @rule()
        def crash(self) -> None:
            for handle in cast("list[Any]", self.handles):
                handle._writer._connection.close()

        @rule(which=st.booleans())
        def place(self, which: bool) -> None:
            while self.memory.unsequenced(1):
                self.memory.assign_sequence_numbers(100)
            while self.handles[which].unsequenced(1):
                self.handles[which].assign_sequence_numbers(100)

        def teardown(self) -> None:
            for handle in getattr(self, "handles", []):
                handle.close()

    run_state_machine_as_test(
        OnPostgres, settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None)
    )
