"""The chapter of the trips: five steps with a pivot, on real providers, spoiled at each step in turn.

Started by `main` between the desk's morning and the reckoning. Every trip is booked twice, under the same faults: once
by Readback as a saga, and once, under another name, by the naive agent, who believes replies. Both are then held
against the providers' own books, by `trip_tally`.
"""

from __future__ import annotations

import asyncio

from readback import AsyncReadback, SagaOutcome
from readback.canon.frozen import dataclass
from readback.demo.naive.naive import Told
from readback.demo.progress import Progress
from readback.demo.systems.launch import Systems
from readback.demo.trip.naive import NaiveAgent, naive_client
from readback.demo.trip.plan import SAGA, operation, steps
from readback.demo.trip_cases import CASES, Case

NAIVE = "naive-"
"""Before the name of a trip that the naive agent books."""


@dataclass(frozen=True, slots=True)
class Booked:
    """What came of a trip, and what the naive agent told of its own."""

    case: Case
    outcome: SagaOutcome
    naive: Told


async def book_trips(rb: AsyncReadback, systems: Systems, progress: Progress) -> list[Booked]:
    """All trips, and the same ones as the naive agent books them.

    The first trip is spoiled nowhere, and the others wait for it: each search has found what one booking made by then,
    so that an empty answer means that nothing was made. The others are booked side by side.
    """
    progress.chapter("Ten trips of five steps, spoiled at each step in turn")
    for case in CASES:
        _spoil(systems, case)
    async with asyncio.TaskGroup() as together:
        naive = together.create_task(asyncio.to_thread(_naively, systems.trip_url))
        outcomes = [await _book(rb, CASES[0], progress)]
        begun = [together.create_task(_book(rb, case, progress)) for case in CASES[1:]]
    outcomes += [task.result() for task in begun]
    told = naive.result()
    return [Booked(case, outcome, told[case.trip]) for case, outcome in zip(CASES, outcomes, strict=True)]


def _spoil(systems: Systems, case: Case) -> None:
    for trip in (case.trip, NAIVE + case.trip):
        for each in case.spoiled:
            systems.fault(each.fault, system="trip", match=each.match(trip), times=each.times, **each.params)


async def _book(rb: AsyncReadback, case: Case, progress: Progress) -> SagaOutcome:
    with progress.doing(case.trip):
        outcome = await rb.saga(steps(case.trip), name=SAGA, operation=operation(case.trip))
    progress.trip(case, outcome)
    return outcome


def _naively(providers_url: str) -> dict[str, Told]:
    with naive_client(providers_url) as client:
        agent = NaiveAgent(client)
        return {case.trip: agent.book(NAIVE + case.trip) for case in CASES}
