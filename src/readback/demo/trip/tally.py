"""The reckoning of the trips: what either agent told its user, against what stands in the providers' books.

Called by `main` once all providers have come to rest. Counted from the books and from what was told; nothing here
knows how a trip was meant to end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from readback import SagaOutcome, State
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.demo.naive.naive import Claim, Told
from readback.demo.naive.overheard import Heard
from readback.demo.systems.trip_truth import TripBooks
from readback.demo.tally import said
from readback.demo.trip.chapter import NAIVE, Booked
from readback.demo.trip.plan import operation
from readback.demo.trip_cases import WANTED

NAIVE_WRONG_MIN = 6
"""With fewer the trips were not spoiled as the cases want it, and the comparison would show nothing."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What one agent told its user of a trip, and what stands in the books of it."""

    told: Told
    books: TripBooks

    @property
    def false(self) -> bool:
        """It told what is not so: booked, and it is not whole; or not booked, and something stands."""
        match self.told.claim:
            case Claim.DONE:
                return not self.books.complete(WANTED)
            case Claim.FAILED | Claim.REVERSED:
                return not self.books.clear
            case Claim.OPEN:
                return False

    @property
    def missed(self) -> bool:
        """It is booked, and was not told."""
        return self.books.complete(WANTED) and self.told.claim is not Claim.DONE

    @property
    def doubled(self) -> int:
        """Effects more than one of one step, standing or not, and things that were taken back twice."""
        made = sum(max(0, self.books.made(book) - 1) for book in {each.book for each in self.books.entries})
        return made + sum(max(0, len(each.undone_stamps) - 1) for each in self.books.entries)

    @property
    def stands(self) -> str:
        """What stands in the books, in a few words: another thing than was wanted by its own name."""
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
    """One trip, as both agents booked it."""

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
    """The counts that the chapter ends with. All of them but the first two are Readback's, and have to be 0."""

    trips: int
    naive_wrong: int
    readback_false: int
    doubled_effects: int
    left_standing: int
    missed: int
    unsettled: int

    @property
    def good(self) -> bool:
        """Whether the trips ended as Readback promises, and were spoiled enough to show it."""
        ours = (self.readback_false, self.doubled_effects, self.left_standing, self.missed, self.unsettled)
        return not any(ours) and self.naive_wrong >= NAIVE_WRONG_MIN


def reckon_trips(booked: Sequence[Booked], truth: Callable[[str], TripBooks], heard: Sequence[Heard]) -> list[TripRow]:
    """One row for each trip, in their order."""
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
    """What `readback demo --json` answers of the trips."""
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
    """What the words of a saga's outcome amount to."""
    match outcome.state:
        case State.RECONCILED_SUCCESS:
            return Claim.DONE
        case State.COMPENSATED:
            return Claim.REVERSED
        case State.FAILED:
            return Claim.FAILED
        case _:
            return Claim.OPEN
