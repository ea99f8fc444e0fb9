"""The reckoning of the trips: the reports of both agents, compared with the providers' books.

Runs after all providers are idle. All counts come from books and reports; the code does not know a trip's intended end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from readback import SagaOutcome, State
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.demo.naive import Claim, Told
from readback.demo.overheard import Heard
from readback.demo.systems.trip_truth import TripBooks
from readback.demo.tally import said
from readback.demo.trip.plan import operation
from readback.demo.trip_cases import WANTED
from readback.demo.trips import NAIVE, Booked

NAIVE_WRONG_MIN = 6
"""With fewer, the faults did not work as scripted, and the comparison would show nothing."""


@dataclass(frozen=True, slots=True)
class Ending:
    """One agent's report of a trip, and the standing entries in the books."""

    told: Told
    books: TripBooks

    @property
    def false(self) -> bool:
        """A false report: booked although incomplete, or not booked although something stands."""
        match self.told.claim:
            case Claim.DONE:
                return not self.books.complete(WANTED)
            case Claim.FAILED | Claim.REVERSED:
                return not self.books.clear
            case Claim.OPEN:
                return False

    @property
    def missed(self) -> bool:
        """Booked, but not reported as booked."""
        return self.books.complete(WANTED) and self.told.claim is not Claim.DONE

    @property
    def doubled(self) -> int:
        """Extra effects of one step, standing or not, and repeated reversals."""
        made = sum(max(0, self.books.made(book) - 1) for book in {each.book for each in self.books.entries})
        return made + sum(max(0, len(each.undone_stamps) - 1) for each in self.books.entries)

    @property
    def stands(self) -> str:
        """The standing entries in a few words. A wrong entry appears under its own name."""
        if self.books.complete(WANTED):
            return "all five"
        standing = (entry for entry in self.books.entries if entry.live and entry.book in WANTED)
        wrong = [entry.what for entry in standing if entry.what != WANTED[entry.book]]
        return ", ".join([self.books.as_text(), *(f"but {what}" for what in wrong)])

    def as_json(self) -> dict[str, Json]:
        return {
            "said": self.told.words,
            "claim": self.told.claim.value,
            "stands": self.stands,
            "whole": self.books.complete(WANTED),
            "false": self.false,
            "doubled": self.doubled,
        }


@dataclass(frozen=True, slots=True)
class TripRow:
    """One trip, as booked by both agents."""

    trip: str
    where: str
    at: str
    words: str
    tool_said: str
    naive: Ending
    readback: Ending
    state: str
    id: str


@dataclass(frozen=True, slots=True)
class TripTotals:
    """The final counts of the chapter. All but the first two are Readback's, and must be 0."""

    trips: int
    naive_wrong: int
    readback_false: int
    doubled_effects: int
    left_standing: int
    missed: int
    unsettled: int

    @property
    def good(self) -> bool:
        """Whether the trips ended as Readback promises, with enough faults to show it."""
        ours = (self.readback_false, self.doubled_effects, self.left_standing, self.missed, self.unsettled)
        return not any(ours) and self.naive_wrong >= NAIVE_WRONG_MIN


def reckon_trips(booked: Sequence[Booked], truth: Callable[[str], TripBooks], heard: Sequence[Heard]) -> list[TripRow]:
    """One row for each trip, in order."""
    return [_row(each, truth, heard) for each in booked]


def count_trips(rows: Sequence[TripRow]) -> TripTotals:
    """The totals."""
    return TripTotals(
        trips=len(rows),
        naive_wrong=sum(row.naive.false or row.naive.missed for row in rows),
        readback_false=sum(row.readback.false for row in rows),
        doubled_effects=sum(row.readback.doubled for row in rows),
        left_standing=sum(not row.readback.books.clear and not row.readback.books.complete(WANTED) for row in rows),
        missed=sum(row.readback.missed for row in rows),
        unsettled=sum(row.readback.told.claim is Claim.OPEN for row in rows),
    )


def trips_as_json(rows: Sequence[TripRow], totals: TripTotals) -> dict[str, Json]:
    """The trips' part of `readback demo --json`."""
    return {"trips": [_row_json(row) for row in rows], "trip_totals": asdict(totals)}


def _row_json(row: TripRow) -> dict[str, Json]:
    return {
        "id": row.id,
        "trip": row.trip,
        "where": row.where,
        "step": row.at,
        "spoiled": row.words,
        "tool_said": row.tool_said,
        "state": row.state,
        "naive": row.naive.as_json(),
        "readback": row.readback.as_json(),
    }


def _row(booked: Booked, truth: Callable[[str], TripBooks], heard: Sequence[Heard]) -> TripRow:
    case, outcome = booked.case, booked.outcome
    answers = [each for each in heard if each.operation == f"{operation(case.trip)}/{case.at}"]
    return TripRow(
        trip=case.trip,
        where=case.where,
        at=case.at,
        words=case.words,
        tool_said=said(answers, called=False),
        naive=Ending(booked.naive, truth(NAIVE + case.trip)),
        readback=Ending(Told(claim_of(outcome), outcome.message), truth(case.trip)),
        state=outcome.state.value,
        id=outcome.id,
    )


def claim_of(outcome: SagaOutcome) -> Claim:
    """The claim in the words of a saga's outcome."""
    match outcome.state:
        case State.RECONCILED_SUCCESS:
            return Claim.DONE
        case State.COMPENSATED:
            return Claim.REVERSED
        case State.FAILED:
            return Claim.FAILED
        case _:
            return Claim.OPEN
