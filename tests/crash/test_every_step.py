"""Kill -9 at every durable step of a real process and between any two; another process goes on, and the world is asked.

`make crash` does it fifty times over, with a second kill in whoever goes on, and with kills at random moments.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.crash.checker import Facts, check, facts
from tests.crash.contracts import SCENARIOS
from tests.crash.nursery import SEED, End, Nursery, stage

STEPS_MIN = {"create": 12, "assign": 12, "spoil": 30, "queue": 20, "insist": 20}
SUCCESSORS = ("resume", "run+resume")
"""A worker that looks for what is due; or a caller that proposes the same operation again."""


class Story:
    """One folder: a run that is killed, whoever goes on with it, and what is true at the end."""

    def __init__(self, nursery: Nursery, stories: Path, scenario: str, *, from_nothing: bool = False) -> None:
        self.nursery, self.scenario = nursery, scenario
        shutil.rmtree(stories / scenario, ignore_errors=True)  # of a story that failed
        self.folder = stage(stories / scenario, None if from_nothing else stories / "ledger.db")

    def go(self, phase: str, kill_at: int = 0, kill_after_ms: float | None = None) -> End:
        return self.nursery.order(self.folder, phase, self.scenario, kill_at, kill_after_ms)

    def finish(self, how: str) -> Facts:
        """Goes on until nothing is due any more."""
        assert not self.go(how).killed
        found = facts(self.folder)
        check(found, settled=True)
        return found

    def again(self, before: Facts) -> Facts:
        """The same operation proposed anew: replayed, or (only where it provably had no effect) done now."""
        after = self.finish("run+resume")
        last = [action for action in before.actions if action.contract == self.scenario][-1:]
        if last and not last[0].may_repeat:
            assert after.calls == before.calls, "a finished operation was called again"
            assert after.effects == before.effects
            assert after.told[-1]["replayed"]
        return after

    def close(self) -> None:
        shutil.rmtree(self.folder)


def points_of(nursery: Nursery, stories: Path, scenario: str) -> int:
    """How many points an undisturbed run has."""
    story = Story(nursery, stories, scenario)
    end = story.go("run")
    assert not end.killed
    assert end.points >= STEPS_MIN.get(scenario, 10)
    story.finish("resume")
    story.close()
    return end.points


@pytest.mark.requirement("PRINCIPLE-idempotency", "PRINCIPLE-replayable-evidence", "TRUTH-time-durable-wait")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_process_that_is_killed_at_any_step_leaves_nothing_lost_doubled_or_false(
    nursery: Nursery, stories: Path, scenario: str, rounds: int
) -> None:
    total = points_of(nursery, stories, scenario)
    chance = random.Random(f"{SEED}/{scenario}")
    for round_ in range(rounds):
        for kill_at in range(1, total + 1):
            how = SUCCESSORS[kill_at % 2] if round_ == 0 else chance.choice(SUCCESSORS)
            second = 0 if round_ == 0 else chance.randint(1, total)
            story = Story(nursery, stories, scenario)
            first = story.go("run", kill_at)
            assert first.killed, f"point {kill_at} of {total} was not reached"
            try:
                _go_on(story, how, second)
            except AssertionError as error:
                at = f"seed {SEED}, round {round_}, killed at {kill_at} ({first.point}), then {how} killed at {second}"
                raise AssertionError(f"{at}: {error}") from error
            story.close()


def _go_on(story: Story, how: str, second: int) -> None:
    left = facts(story.folder)
    check(left, settled=False)
    if second:
        story.go(how, second)
    found = story.finish(how)
    if how == "resume" and not second:
        # Whoever held the lease is provably gone, so that the very first look takes the action over.
        open_ = {action.id for action in left.actions if action.attempt_open}
        at_once = {told["id"] for told in found.told if told["how"] == "resume at once"}
        assert open_ <= at_once, "the next process waited for a dead one's lease"
    story.again(found)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_process_that_is_killed_at_a_random_moment_leaves_nothing_lost_doubled_or_false(
    nursery: Nursery, stories: Path, scenario: str, rounds: int
) -> None:
    chance = random.Random(f"{SEED}/{scenario}/moments")
    for round_ in range(2 * rounds):
        story = Story(nursery, stories, scenario, from_nothing=True)
        moments = [chance.uniform(0, 60) for _ in range(chance.randint(1, 3))]
        how = chance.choice(SUCCESSORS)
        try:
            story.go("run", kill_after_ms=moments[0])
            for moment in moments[1:]:
                check(facts(story.folder), settled=False)
                story.go(how, kill_after_ms=moment)
            story.again(story.finish(how))
        except AssertionError as error:
            raise AssertionError(
                f"seed {SEED}, round {round_}, killed after {moments} ms, then {how}: {error}"
            ) from error
        story.close()
