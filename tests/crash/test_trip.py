"""The demo's trips with `kill -9` of the worker at random points: a hundred runs from one seed in `make crash`.

The providers are the demo's own, in a process of their own, with faults. They outlive every worker, and their books say
afterwards what really happened: no compensation was lost, no effect was doubled, no saga is stuck.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from readback.audit.checks.ledger import audit
from readback.demo.contracts_trip import WANTED
from readback.demo.systems.launch import Systems
from readback.demo.systems.rules import TRADES
from readback.demo.systems.truth import TripBooks
from readback.demo.trips import CASES, Case
from readback.domain.state import TERMINAL, State
from readback.stores.sqlite import open_sqlite_store
from tests.architecture.tree import ROOT
from tests.crash.nursery import SEED, End, end_of
from tests.demo.waiting import eventually
from tests.workers.limit import killed_after

RUNS_MIN = 4
RUNS_A_ROUND = 2
"""`make crash` makes fifty rounds: a hundred runs."""
RUNS_OF_EACH_END = 20
"""From so many runs on, some have to be booked and some taken back."""
KILLED = [case for case in CASES if all(each.name != "late" for each in case.spoiled)]
"""The workers' clock is virtual and the providers' is not, so that nothing may land late by theirs."""
BOOKED, GIVEN_UP = {State.RECONCILED_SUCCESS}, {State.COMPENSATED, State.FAILED}


@dataclass(slots=True)
class Agency:
    """The providers, the program that forks travellers, and the folder of their stories."""

    systems: Systems
    server: subprocess.Popen[str]
    stories: Path

    def go(self, story: Story, phase: str, kill_at: int = 0, kill_after_ms: float | None = None) -> End:
        """One process from its start to its end; what it sent is dealt with before anybody goes on."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        systems = self.systems
        doors = {"act": systems.trip_url, "look": systems.trip_records_url, "books": str(systems.trip_db)}
        order = {"folder": str(story.folder), "phase": phase, "trip": story.trip, "doors": doors, "kill_at": kill_at}
        self.server.stdin.write(json.dumps({**order, "kill_after_ms": kill_after_ms}) + "\n")
        self.server.stdin.flush()
        with killed_after(self.server):
            line = self.server.stdout.readline()
        assert line, "the program that forks travellers has ended itself"
        eventually(lambda: systems.trip_busy() == 0)
        return end_of(story.folder, json.loads(line)["code"])


@dataclass(slots=True)
class Story:
    """One trip, from its first worker to its last."""

    agency: Agency
    trip: str
    case: Case

    def __post_init__(self) -> None:
        self.folder.mkdir()
        shutil.copy(self.agency.stories / "ledger.db", self.folder / "ledger.db")
        for each in self.case.spoiled:
            each.order(self.agency.systems, trip=self.trip)

    @property
    def folder(self) -> Path:
        return self.agency.stories / self.trip

    @property
    def told(self) -> list[State]:
        path = self.folder / "told.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [State(json.loads(line)["state"]) for line in lines]

    @property
    def books(self) -> TripBooks:
        return self.agency.systems.trip_truth(self.trip)

    def check(self) -> None:
        """The books, what was told, and the ledger, held against each other once nobody is at work any more."""
        books, told = self.books, self.told
        assert told, "nobody was told anything"
        _nothing_twice(books)
        # A step whose process died in its attempt, and whose tool honours no key, is a person's in the end.
        assert told[-1] in BOOKED | GIVEN_UP | {State.REVIEW_REQUIRED}, f"stuck in {told[-1]}"
        for state in set(told) & (BOOKED | GIVEN_UP):
            stands = books.complete(WANTED) if state in BOOKED else books.clear
            assert stands, f"told as {state}, and what stands is: {books.as_text()}"
        self._ledger(books)

    def _ledger(self, books: TripBooks) -> None:
        store = open_sqlite_store(self.folder / "ledger.db")
        try:
            assert store.damage() == []
            report = audit(store)
            assert report.ok, report.faults
            rows = [stored.projection for stored in store.projections()]
        finally:
            store.close()
        over = all(State(row.state) in TERMINAL and row.due_us is None for row in rows)
        assert over or self.told[-1] is State.REVIEW_REQUIRED, "something is still going on"
        states = {row.stamp: State(row.state) for row in rows if row.kind != "saga"}
        for entry in books.entries:
            assert entry.made_stamp in states, "an effect that is in no ledger"
            ends = [states.get(stamp) for stamp in entry.undone_stamps]
            assert ends in ([], [State.RECONCILED_SUCCESS]), f"taken back, and told as {ends}"


def _nothing_twice(books: TripBooks) -> None:
    assert books.repeated == 0, f"one stamp, several effects: {books}"
    for book in TRADES:
        assert books.made(book) <= 1, f"an effect was made again: {books}"
    assert all(len(entry.undone_stamps) <= 1 for entry in books.entries), f"taken back twice: {books}"


@pytest.fixture(scope="module")
def agency(stories: Path) -> Iterator[Agency]:
    program = [sys.executable, "-m", "tests.crash.trip_program"]
    with Systems(only=["trip"]) as systems:
        server = subprocess.Popen(program, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with server:
            agency = Agency(systems, server, stories)
            _book_earlier(agency)
            yield agency
            assert server.stdin is not None
            server.stdin.close()


def _book_earlier(agency: Agency) -> None:
    """Every story's ledger knows of one booked trip, by which each search is known to find what there is."""
    story = Story(agency, "earlier", next(case for case in CASES if not case.spoiled))
    assert not agency.go(story, "run+resume").killed
    assert story.told[-1] in BOOKED
    shutil.copy(story.folder / "ledger.db", agency.stories / "ledger.db")


def points_of(agency: Agency, case: Case) -> int:
    """How many points an undisturbed booking has."""
    story = Story(agency, f"undisturbed-{case.trip}", case)
    end = story.agency.go(story, "run+resume")
    assert not end.killed
    story.check()
    return end.points


@pytest.mark.requirement("L07", "L08", "L19")
def test_a_trip_whose_worker_is_killed_at_any_point_is_booked_or_taken_back_and_nothing_is_lost_or_doubled(
    agency: Agency, rounds: int
) -> None:
    totals: dict[str, int] = {}
    runs, killed, ends = max(RUNS_MIN, RUNS_A_ROUND * rounds), 0, set()
    for number in range(runs):
        chance = random.Random(f"{SEED}/trip/{number}")
        case = chance.choice(KILLED)
        if case.trip not in totals:
            totals[case.trip] = points_of(agency, case)
        story = Story(agency, f"run-{number}", case)
        killed += _lives(story, totals[case.trip], chance)
        ends.add(story.told[-1])
    assert killed >= runs // 2, f"{killed} workers were killed in {runs} runs"
    assert runs < RUNS_OF_EACH_END or ends >= {State.RECONCILED_SUCCESS, State.COMPENSATED}


def _lives(story: Story, total: int, chance: random.Random) -> int:
    """One trip, with up to three workers killed and a last one that is not. Returns how many were."""
    agency, case = story.agency, story.case
    killed, history = 0, []
    for worker in range(chance.randint(1, 3)):
        how = "run" if worker == 0 else chance.choice(("resume", "run+resume"))
        moment = chance.uniform(0, 120) if chance.random() < 0.25 else None
        kill_at = 0 if moment is not None else chance.randint(1, total)
        end = agency.go(story, how, kill_at, moment)
        killed += end.killed
        history.append(f"{how} until {end.point} ({kill_at or moment})")
    how = chance.choice(("resume", "run+resume"))
    history.append(how)
    try:
        assert not agency.go(story, how).killed
        _nothing_twice(story.books)
        # Whoever asks for the same trip is told how it ended. Nothing is done twice for that.
        assert not agency.go(story, "run+resume").killed
        story.check()
    except AssertionError as error:
        at = f"seed {SEED}, {story.trip}, {case.trip} ({case.words}), {'; then '.join(history)}"
        raise AssertionError(f"{at}: {error}") from error
    return killed
