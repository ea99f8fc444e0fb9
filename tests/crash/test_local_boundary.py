"""Kill -9 at every step of a staged transaction and of a workspace: stage, verify, move, commit, and the clearing up.

Whoever comes next finds the folder and the database as they were before, or as they were meant to be, and nothing else
beside them; and what is told is what is there.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from readback.systems.files.executor import FileExecutor
from tests.crash import builder
from tests.crash.nursery import SEED, End, Nursery
from tests.crash.points import Memory

BEFORE_SITE = {f"site/{name}": f"the first {name}" for name in (
    "about.html", "index.html", "old/deep/two.html", "old/one.html"
)}  # fmt: skip
AFTER_SITE = {
    "site/index.html": "the second",
    "site/new/about.html": "the first about.html",
    "site/new/deep/page.html": "the second",
}
BEFORE_BOOKS, AFTER_BOOKS = {"a": "100", "b": "0"}, {"a": "70", "b": "30"}
POINTS_MIN = {"publish": 45, "publish_wrongly": 25, "transfer": 8, "transfer_wrongly": 8}


@pytest.fixture(scope="module")
def builders() -> Iterator[Nursery]:
    made = Nursery("tests.crash.builder")
    yield made
    made.close()


class Site:
    """One folder with its work, its books, its ledger, and what was told."""

    def __init__(self, builders: Nursery, stories: Path, scenario: str) -> None:
        self.builders, self.scenario = builders, scenario
        self.folder = stories / f"local-{scenario}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        builder.make_site(self.folder)
        builder.make_books(self.folder)
        shutil.copy(stories / "ledger.db", self.folder / "ledger.db")

    def go(self, phase: str, kill_at: int = 0) -> End:
        return self.builders.order(self.folder, phase, self.scenario, kill_at)

    @property
    def shown(self) -> dict[str, str]:
        """What anybody sees: files with what they hold, or the accounts."""
        if self.scenario.startswith("transfer"):
            with closing(sqlite3.connect(self.folder / "books.db")) as db:
                return {row[0]: str(row[1]) for row in db.execute("select id, cents from accounts order by id")}
        root = self.folder / "work"
        return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}

    @property
    def told(self) -> list[dict[str, Any]]:
        path = self.folder / "told.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def ends(self) -> tuple[dict[str, str], dict[str, str]]:
        files = (BEFORE_SITE, AFTER_SITE)
        return (BEFORE_BOOKS, AFTER_BOOKS) if self.scenario.startswith("transfer") else files

    def check(self) -> bool:
        """Whole, one way or the other, and nothing beside it; true where it is done."""
        before, after = self.ends
        shown = self.shown
        assert shown in (before, after), f"half of it is visible: {shown}"
        folders = {p.name for p in (self.folder / "work/site").rglob("*") if p.is_dir()}
        assert folders == ({"old", "deep"} if (self.folder / "work/site/old").exists() else {"new", "deep"})
        area = self.folder / ".readback-work"
        left = [p.name for p in area.iterdir()] if area.exists() else []
        assert left in ([], ["records"]), f"left lying about: {left}"
        assert not list((self.folder / "work").rglob(".readback*"))
        assert shown == before or not self.scenario.endswith("_wrongly"), "what was refuted inside is visible"
        return shown == after

    def finish(self) -> None:
        """Somebody goes on until nothing is due; then everything is told as it is."""
        assert not self.go("resume").killed
        done = self.check()
        if not self.told:
            return
        last = self.told[-1]
        assert last["verified"] is done, f"told as {last['state']}, and it is {'done' if done else 'not done'}"
        if not done:
            assert last["state"] in ("failed", "rolled_back", "review_required"), last["state"]
            assert last["may_repeat"] or last["state"] != "rolled_back"

    def again(self) -> None:
        """The same operation anew: replayed where it is done or a person has it, else done now, and once."""
        was = self.check()
        assert not self.go("run+resume").killed
        done = self.check()
        # Absence alone does not show that nothing landed: then the key stays taken, and nothing is done again.
        kept = not done and not self.told[-1]["may_repeat"]
        assert kept or done is not self.scenario.endswith("_wrongly")
        assert self.told[-1]["verified"] is done
        assert not was or any(told["replayed"] for told in self.told)


@pytest.mark.requirement("STRATEGY-rollback", "PRINCIPLE-idempotency")
@pytest.mark.parametrize("scenario", builder.PROPOSALS)
def test_a_process_that_is_killed_at_any_step_of_a_local_boundary_leaves_all_or_nothing(
    builders: Nursery, stories: Path, scenario: str, rounds: int
) -> None:
    site = Site(builders, stories, scenario)
    end = site.go("run")
    site.finish()
    assert end.points >= POINTS_MIN[scenario]
    chance = random.Random(f"{SEED}/{scenario}")
    for round_ in range(rounds):
        for kill_at in range(1, end.points + 1):
            second = chance.randint(1, 30) if (round_ + kill_at) % 2 else 0
            site = Site(builders, stories, scenario)
            first = site.go("run", kill_at)
            assert first.killed, f"point {kill_at} of {end.points} was not reached"
            try:
                if second:
                    site.go("resume", second)
                site.finish()
                site.again()
            except AssertionError as error:
                at = f"seed {SEED}, round {round_}, killed at {kill_at} ({first.point}), then at {second}"
                raise AssertionError(f"{at}: {error}") from error


@pytest.mark.requirement("STRATEGY-rollback")
def test_opening_the_folder_is_all_it_takes_to_clear_up(builders: Nursery, stories: Path) -> None:
    """No ledger, no engine: whoever opens the folder next finishes what was being moved, or drops what was staged."""
    site = Site(builders, stories, "publish")
    total = site.go("run").points
    states: set[str] = set()
    for kill_at in range(1, total + 1, 2):
        site = Site(builders, stories, "publish")
        site.go("run", kill_at)
        states |= {each["state"] for each in FileExecutor(site.folder / "work").left}
        site.check()
        assert FileExecutor(site.folder / "work").left == []
    assert states == {"dropped", "moved"}
    assert Memory(site.folder / "memory").count
