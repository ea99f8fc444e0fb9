"""Three drivers, one engine: whoever drives an action, the same is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from readback.client.async_client import AsyncReadback
from readback.client.client import Readback
from readback.client.proposal import Proposal
from readback.domain.outcome.outcome import Outcome
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from readback.testing.world import World
from readback.testing.world_answers import Answer
from readback.testing.world_effects import Operation, prepare
from readback.testing.world_views import View
from tests.lifecycle.sightings import prove
from tests.truth.cells import GROUPS, cells
from tests.truth.stage import (
    ARGUMENTS,
    INITIAL,
    ITEM,
    ON,
    PRINCIPAL,
    TENANT,
    WANTED,
    WRONG,
    Cell,
    Place,
    Scene,
    definition,
    play,
)

STRIDE = 59
BY_EXCEPTION_ONLY = (Answer.TIMEOUT, Answer.CANCELLED, Answer.CRASHED)
"""What only the virtual driver knows how to do without waiting for it."""


def _cells(number: int) -> list[Cell]:
    found = list(cells(number))[number::STRIDE]
    return [c for c in found if c.answer not in BY_EXCEPTION_ONLY and View.HANGING not in c.path.views]


@contextmanager
def _scene(cell: Cell) -> Iterator[tuple[Proposal, dict[str, Any]]]:
    runtime = VirtualRuntime(cell.seed)
    world = World(runtime.now_us)
    marks = Operation(cell.kind, Place(TENANT, ITEM), WANTED[cell.kind], "", "", PRINCIPAL, (), WRONG[cell.kind])
    prepare(world, cell.landing, marks, INITIAL[cell.kind])
    runtime.advance(60)
    ON.append(Scene(cell, world, runtime))
    given = {"tenant": TENANT, "principal": PRINCIPAL, "break_glass": "a drill"}
    try:
        made, store = definition(cell.shape), MemoryStore()
        if cell.offers.find and cell.offers.proven:
            prove(store, TENANT, made.plan)
        yield made(**ARGUMENTS), {**given, "store": store, "runtime": runtime}
    finally:
        ON.pop()


def _sync(cell: Cell) -> Outcome:
    with _scene(cell) as (proposal, given), Readback.open("memory:", **given) as rb:
        return rb.run(proposal, operation="ship it")


def _async(cell: Cell) -> Outcome:
    async def run() -> Outcome:
        with _scene(cell) as (proposal, given):
            async with AsyncReadback.open("memory:", **given) as rb:
                return await rb.run(proposal, operation="ship it")

    return asyncio.run(run())


@pytest.mark.requirement("TRUTH-time-runtime", "L31")
@pytest.mark.parametrize("number", range(len(GROUPS)), ids=lambda n: str(GROUPS[n]))
def test_the_same_is_told_whichever_driver_drives(number: int) -> None:
    for cell in _cells(number):
        expected = play(cell).outcome
        assert _sync(cell) == expected, f"sync: {cell}"
        assert _async(cell) == expected, f"async: {cell}"
