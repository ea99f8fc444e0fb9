"""The chapter of the trips: five steps with a pivot, on real providers, with faults at each step in turn.

Every trip is booked twice, under the same faults: by Readback as a saga, and under another name by the naive agent, a
believer of replies. `trip.tally` compares both with the providers' own books.
"""

from __future__ import annotations

import asyncio

from readback import AsyncReadback, SagaOutcome
from readback.canon.frozen import dataclass
from readback.demo.naive import Told
from readback.demo.progress import Progress
from readback.demo.systems.launch import Systems
from readback.demo.trip.naive import NaiveAgent, naive_client
from readback.demo.trip.plan import SAGA, operation, steps
from readback.demo.trip_cases import CASES, Case

NAIVE = "naive-"
"""Prefix of the naive agent's trip names."""


@dataclass(frozen=True, slots=True)
class Booked:
    """The outcome of a trip, and the naive agent's report of its own trip."""

    case: Case
    outcome: SagaOutcome
    naive: Told


async def book_trips(rb: AsyncReadback, systems: Systems, progress: Progress) -> list[Booked]:
    """Book all trips, and the same trips by the naive agent.

    The first trip has no fault, and the others wait for it. By then each search has found one booking, so an empty
    answer proves absence. The others are booked side by side.
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
