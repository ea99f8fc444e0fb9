"""The chapter of the trips: five steps with a pivot, on real providers, with faults at each step in turn.

Every trip is booked twice, under the same faults: by Readback as a saga, and under another name by the naive agent, a
believer of replies. `tally` compares both with the providers' own books. No case states its own result.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from readback import AsyncReadback, SagaOutcome
from readback.canon.frozen import dataclass
from readback.demo.contracts_trip import SAGA, WANTED, operation, steps
from readback.demo.morning import Fault
from readback.demo.naive import NaiveAgent, Told, naive_client
from readback.demo.progress import Progress
from readback.demo.systems.launch import Systems

NAIVE = "naive-"
"""Prefix of the naive agent's trip names."""


@dataclass(frozen=True, slots=True)
class Case:
    """One trip. `at`: the faulty step, whose answer is shown. `where`: its position relative to the pivot."""

    trip: str
    at: str
    where: str
    words: str
    spoiled: tuple[Fault, ...] = ()


def _at(book: str, fault: str, times: int = 1, **params: Any) -> tuple[Fault, ...]:
    return (Fault(fault, {"book": book, "op": "make"}, "trip", params, times),)


_DECLINED: Final = _at("payments", "refuse", times=-1, code=402)
# fmt: off
CASES: Final = (
    Case("lisbon", "charge", "", "nothing is spoiled"),
    Case("bergen", "flight", "before the pivot", "no seat is left",
         _at("flights", "refuse", code=409)),
    Case("graz", "hotel", "before the pivot", "200, and no booking was made",
         _at("hotel", "silent_noop", answer="honest")),
    Case("porto", "car", "before the pivot", "200, and a lorry is reserved",
         _at("car", "wrong_value", set={"what": "a lorry"})),
    Case("turin", "hotel", "before the pivot", "the room is booked and the reply is lost; then the card is declined",
         _at("hotel", "lost_reply") + _DECLINED),
    Case("malmo", "charge", "at the pivot", "the card is declined", _DECLINED),
    Case("cork", "charge", "at the pivot", "charged, and the reply is lost", _at("payments", "lost_reply")),
    Case("nice", "charge", "at the pivot", "charged, but only in a while", _at("payments", "late")),
    Case("riga", "tickets", "after the pivot", "503 three times, and then issued",
         _at("tickets", "refuse", times=3)),
    Case("split", "tickets", "after the pivot", "issued, and the reply is lost", _at("tickets", "lost_reply")),
)
# fmt: on


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
        for spoiled in case.spoiled:
            spoiled.order(systems, trip=case.trip)
            spoiled.order(systems, trip=NAIVE + case.trip)
    async with asyncio.TaskGroup() as together:
        naive = together.create_task(asyncio.to_thread(_naively, systems.trip_url))
        outcomes = [await _book(rb, CASES[0], progress)]
        begun = [together.create_task(_book(rb, case, progress)) for case in CASES[1:]]
    outcomes += [task.result() for task in begun]
    return [Booked(*each) for each in zip(CASES, outcomes, naive.result(), strict=True)]


async def _book(rb: AsyncReadback, case: Case, progress: Progress) -> SagaOutcome:
    with progress.doing(case.trip):
        outcome = await rb.saga(steps(case.trip), name=SAGA, operation=operation(case.trip))
    progress.ended(f"trip to {case.trip}", outcome, beneath=f"{case.where}: {case.words}" if case.where else "")
    return outcome


def _naively(providers_url: str) -> list[Told]:
    with naive_client(providers_url) as client:
        return [NaiveAgent(client).book(NAIVE + case.trip, WANTED) for case in CASES]
