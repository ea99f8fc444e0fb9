"""The final reckoning: the truth of each step, attempt and trip, compared with the reports of both agents.

Runs after all systems are idle. All counts come from truth and reports; the code does not know an intended end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from readback import Outcome, SagaOutcome, State
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.demo import naive
from readback.demo.agent import NOT_ON_RECORD, Done
from readback.demo.contracts_trip import WANTED, operation
from readback.demo.delegated import OPERATION, Sent
from readback.demo.facts import Fact
from readback.demo.naive import Claim, Heard, Told
from readback.demo.systems.launch import Systems
from readback.demo.systems.truth import TripBooks, Truth
from readback.demo.trips import NAIVE, Booked

SAID_MAX = 160
NO_ANSWER: Final = ("", Fact(False, "it gave no answer"))

Counted = tuple[tuple[str, str, str], ...]
"""What is counted of a chapter: the name in JSON, the field of Totals, and the words of the report."""
STEP_COUNTS: Final[Counted] = (
    ("actions", "number", "steps"),
    ("naive_false_successes", "naive_false", "false successes told by the naive agent"),
    ("readback_false_successes", "readback_false", "false successes told by Readback"),
    ("duplicated_effects", "doubled", "effects duplicated by our own doing"),
    ("missed_successes", "missed", "true outcomes that Readback did not tell"),
    ("ledger_ok", "sound", "all entries of the ledger are sound"),
)
ATTEMPT_COUNTS: Final[Counted] = (
    ("attempts", "number", "attempts of the delegate"),
    ("naive_false_successes", "naive_false", "false successes told by who believes it"),
    ("readback_false_successes", "readback_false", "false successes told by Readback"),
    ("missed_successes", "missed", "done, and not told by Readback"),
    ("done", "sound", "the task in the end: done, and read back"),
)
TRIP_COUNTS: Final[Counted] = (
    ("trips", "number", "trips"),
    ("naive_wrong", "naive_false", "told by the naive agent, and not so"),
    ("readback_false", "readback_false", "told by Readback, and not so"),
    ("doubled_effects", "doubled", "effects doubled under Readback"),
    ("left_standing", "left_standing", "half trips left standing by Readback"),
    ("missed", "missed", "booked, and not told by Readback"),
    ("unsettled", "unsettled", "without an end under Readback"),
)


@dataclass(frozen=True, slots=True)
class Totals:
    """The final counts of a chapter. All counts but the first two are Readback's, and must be 0.

    `doubled`: extra effects of repeated calls by Readback; effects doubled by a tool or a provider do not count.
    `sound`: the ledger is sound, or the delegate's task is done. `naive_min`: with fewer false reports of the naive
    agent the faults did not work as scripted, and the comparison would show nothing.
    """

    number: int
    naive_false: int
    readback_false: int
    missed: int
    doubled: int = 0
    left_standing: int = 0
    unsettled: int = 0
    sound: bool = True
    naive_min: int = 0

    @property
    def good(self) -> bool:
        """Whether Readback held its promises, and the faults were numerous enough to show it."""
        ours = (self.readback_false, self.missed, self.doubled, self.left_standing, self.unsettled)
        return self.sound and not any(ours) and self.naive_false >= self.naive_min

    def as_json(self, counted: Counted) -> dict[str, Json]:
        return {name: getattr(self, field) for name, field, _ in counted}


# --- steps of the morning, and attempts of the delegate ---


@dataclass(frozen=True, slots=True)
class Row:
    """One step or attempt: the tool's answer, the truth, and both agents' reports. `spoiled`: fault, or prompt."""

    name: str
    tool_said: str
    fact: Fact
    naive: Told
    readback: Told
    outcome: Outcome | None = None
    pattern: str = ""
    spoiled: str = ""
    first_said: str = ""

    @property
    def id(self) -> str:
        return self.outcome.id if self.outcome is not None else ""

    @property
    def state(self) -> str:
        return self.outcome.state.value if self.outcome is not None else ""

    @property
    def discrepancy(self) -> str:
        return self.outcome.discrepancy.value if self.outcome is not None and self.outcome.discrepancy else ""

    @property
    def review(self) -> str:
        return self.outcome.review if self.outcome is not None else ""

    @property
    def naive_false(self) -> bool:
        """The naive agent reported a false success."""
        return self.naive.claim is Claim.DONE and not self.fact.done

    @property
    def readback_false(self) -> bool:
        """Readback reported a false success or a false reversal."""
        said = self.readback.claim
        return (said is Claim.DONE and not self.fact.done) or (said is Claim.REVERSED and not self.fact.undone)

    @property
    def naive_wrong(self) -> bool:
        """The naive agent reported a false success, or a failure of a true success."""
        return self.naive_false or (self.naive.claim is Claim.FAILED and self.fact.done)

    @property
    def missed(self) -> bool:
        """The effect is true, the system is readable again, and Readback did not report success."""
        return self.fact.done and self.readback.claim is not Claim.DONE

    def as_attempt(self) -> dict[str, Json]:
        """An attempt in JSON. The prompt is `told`."""
        return {
            "id": self.id or None,
            "told": self.spoiled,
            "delegate_said": self.tool_said,
            "truth": self.fact.text,
            "truly_done": self.fact.done,
            "naive_said": self.naive.words,
            "readback_said": self.readback.words,
            "state": self.state or None,
            "discrepancy": self.discrepancy or None,
        }

    def as_json(self) -> dict[str, Json]:
        """A step in JSON."""
        long = len(self.tool_said) > SAID_MAX
        shared = {name: each for name, each in self.as_attempt().items() if name not in ("told", "delegate_said")}
        return {
            **shared,
            "name": self.name,
            "pattern": self.pattern or None,
            "spoiled": self.spoiled or None,
            "tool_said": f"{self.tool_said[: SAID_MAX - 1]}…" if long else self.tool_said,
            "naive_claim": self.naive.claim.value,
            "readback_said_at_first": self.first_said or None,
            "readback_claim": self.readback.claim.value,
        }


def reckon(done: Sequence[Done], truth: Truth, heard: Sequence[Heard]) -> list[Row]:
    """One row for each step, in the order of the morning."""
    rows = []
    for each in done:
        step, answers = each.step, _heard_of(each.outcome, heard)
        naively = naive.tell(step.name, answers) if step.propose else naive.repeat(step.name)
        row = _row(step.name, each.outcome, answers, step.truth(truth), naively)
        rows.append(replace(row, pattern=step.pattern, spoiled=step.spoiled, first_said=each.first))
    return rows


def reckon_attempts(sent: Sent, heard: Sequence[Heard]) -> list[Row]:
    """One row for each attempt of the delegate, in order, with the truth at the time of the answer."""
    rows = []
    for number, outcome in enumerate(sent.delegated.outcomes):
        answers = _heard_of(outcome, heard)
        prompt, fact = sent.answered.get(number, NO_ANSWER)
        row = _row(str(number + 1), outcome, answers, fact, naive.tell(OPERATION, answers))
        rows.append(replace(row, spoiled=prompt))
    return rows


def _heard_of(outcome: Outcome | None, heard: Sequence[Heard]) -> list[Heard]:
    return [each for each in heard if outcome is not None and each.stamp == outcome.stamp]


def _row(name: str, outcome: Outcome | None, answers: Sequence[Heard], fact: Fact, naively: Told) -> Row:
    called = outcome is not None and outcome.attempts > 0
    ours = Told(claim_of(outcome), NOT_ON_RECORD if outcome is None else outcome.message)
    return Row(name, said(answers, called=called), fact, naively, ours, outcome)


def count(rows: Sequence[Row], truth: Truth, heard: Sequence[Heard], *, ledger_ok: bool) -> Totals:
    """The totals of the morning."""
    calls = [each.stamp for each in heard]
    again = {stamp for stamp in calls if calls.count(stamp) > 1}
    return _totals(rows, 8, doubled=sum(truth.repeated(stamp) for stamp in again), sound=ledger_ok)


def count_attempts(rows: Sequence[Row]) -> Totals:
    """The totals of the delegation."""
    done = bool(rows) and rows[-1].fact.done and rows[-1].readback.claim is Claim.DONE
    return _totals(rows, 2, doubled=0, sound=done)


def _totals(rows: Sequence[Row], naive_min: int, *, doubled: int, sound: bool) -> Totals:
    return Totals(
        number=len(rows),
        naive_false=sum(row.naive_false for row in rows),
        readback_false=sum(row.readback_false for row in rows),
        missed=sum(row.missed for row in rows),
        doubled=doubled,
        sound=sound,
        naive_min=naive_min,
    )


def claim_of(outcome: Outcome | SagaOutcome | None) -> Claim:
    """The claim in the words of an outcome."""
    if outcome is None:
        return Claim.FAILED
    match outcome.state:
        case State.RECONCILED_SUCCESS if isinstance(outcome, SagaOutcome) or outcome.standing:
            return Claim.DONE
        case State.COMPENSATED | State.ROLLED_BACK:
            return Claim.REVERSED
        case State.FAILED:
            return Claim.FAILED
        case _:
            return Claim.OPEN


def said(heard: Sequence[Heard], *, called: bool) -> str:
    """The first answer, as received by both agents."""
    if not heard:
        return "nothing: its process was killed" if called else "nothing: it was not called"
    answer = heard[0]
    if "Timeout" in answer.raised:
        return "timed out"
    if answer.raised:
        return "no answer" if "connection" in answer.text else f"raised {answer.raised.split()[0]}"
    return answer.text if answer.status is None else f"{answer.status} {answer.text}"


# --- trips ---


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

    booked: Booked
    tool_said: str
    naive: Ending
    readback: Ending

    def as_json(self) -> dict[str, Json]:
        case, outcome = self.booked.case, self.booked.outcome
        return {
            "id": outcome.id,
            "trip": case.trip,
            "where": case.where,
            "step": case.at,
            "spoiled": case.words,
            "tool_said": self.tool_said,
            "state": outcome.state.value,
            "naive": self.naive.as_json(),
            "readback": self.readback.as_json(),
        }


def reckon_trips(booked: Sequence[Booked], truth: Callable[[str], TripBooks], heard: Sequence[Heard]) -> list[TripRow]:
    """One row for each trip, in order."""
    rows = []
    for each in booked:
        trip, outcome = each.case.trip, each.outcome
        answers = [answer for answer in heard if answer.operation == f"{operation(trip)}/{each.case.at}"]
        ours = Ending(Told(claim_of(outcome), outcome.message), truth(trip))
        rows.append(TripRow(each, said(answers, called=False), Ending(each.naive, truth(NAIVE + trip)), ours))
    return rows


def count_trips(naively: Sequence[Ending], ours: Sequence[Ending]) -> Totals:
    """The totals of the trips, as ended by the naive agent and by Readback."""
    return Totals(
        number=len(ours),
        naive_false=sum(each.false or each.missed for each in naively),
        readback_false=sum(each.false for each in ours),
        missed=sum(each.missed for each in ours),
        doubled=sum(each.doubled for each in ours),
        left_standing=sum(not each.books.clear and not each.books.complete(WANTED) for each in ours),
        unsettled=sum(each.told.claim is Claim.OPEN for each in ours),
        naive_min=6,
    )


# --- all chapters ---


@dataclass(frozen=True, slots=True)
class Reckoning:
    """The rows and counts of all chapters."""

    rows: Sequence[Row]
    attempts: Sequence[Row]
    trips: Sequence[TripRow]
    morning: Totals
    delegation: Totals
    travel: Totals

    @property
    def good(self) -> bool:
        return self.morning.good and self.delegation.good and self.travel.good

    def as_json(self) -> dict[str, Json]:
        return {
            "actions": [row.as_json() for row in self.rows],
            "totals": self.morning.as_json(STEP_COUNTS),
            "trips": [row.as_json() for row in self.trips],
            "trip_totals": self.travel.as_json(TRIP_COUNTS),
            "attempts": [row.as_attempt() for row in self.attempts],
            "attempt_totals": self.delegation.as_json(ATTEMPT_COUNTS),
        }


def reckon_all(
    done: Sequence[Done], sent: Sent, booked: Sequence[Booked], systems: Systems, *, ledger_ok: bool
) -> Reckoning:
    """Compare all reports with the truth."""
    heard = naive.all_heard(Path(systems.addresses["overheard"]))
    rows, attempts = reckon(done, systems.truth, heard), reckon_attempts(sent, heard)
    trips = reckon_trips(booked, systems.trip_truth, heard)
    return Reckoning(
        rows,
        attempts,
        trips,
        count(rows, systems.truth, heard, ledger_ok=ledger_ok),
        count_attempts(attempts),
        count_trips([row.naive for row in trips], [row.readback for row in trips]),
    )
