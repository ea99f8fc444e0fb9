"""The truth-oracle matrix: told success is true success, and what was true and readable is told.

Each cell plays one action against a world that knows what really happened: an effect, an answer of the tool, a read
path, a contract. A failing cell prints how to replay it. Thousands of cells run in seconds, under virtual time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from readback.domain.kind import Kind
from readback.domain.state import State
from readback.testing.world_answers import Answer
from readback.testing.world_effects import Landing
from tests.truth.cells import GROUPS, cells
from tests.truth.oracle import faults, knowable
from tests.truth.stage import PATHS, Cell, play

NUMBERS = range(len(GROUPS))
SHOWN_MAX = 12


def _found(number: int, chosen: Iterable[Cell], *, to_the_end: bool = False) -> list[str]:
    """What is wrong in these cells, each with the order that replays it."""
    found = []
    for cell in chosen:
        played = play(cell)
        outcome = played.to_the_end() if to_the_end else played.outcome
        found += [f"python -m tests.truth.replay {number} {cell.order}  # {fault}" for fault in faults(played, outcome)]
    return found


def _report(found: list[str]) -> str:
    return f"{len(found)} cells lie:\n" + "\n".join(found[:SHOWN_MAX])


@pytest.mark.requirement(
    "LIFE-rule-success",
    "PRINCIPLE-authoritative-reads",
    "PRINCIPLE-tell-reconciled",
    "PRINCIPLE-unknown-first-class",
    "REPORT-never-upgraded",
    "TRUTH-source-no-fence-sitting",
    "HS-03",
    "HS-04",
    "HS-05",
    "HS-07",
    "HS-08",
    "HS-09",
    "HS-12",
    "L14",
    "L26",
    "L33",
)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: str(GROUPS[n]))
def test_told_success_is_true_success_and_what_is_readable_is_told(number: int) -> None:
    found = _found(number, cells(number))
    assert not found, _report(found)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: str(GROUPS[n]))
def test_it_stays_so_to_the_very_end(number: int) -> None:
    """Slow polling after an unknown outcome, late landings and reviews: everything that comes later is held too."""
    chosen = [cell for place, cell in enumerate(cells(number)) if place % 29 == number]
    late = [cell for cell in chosen if cell.landing is not Landing.DUPLICATED_AT_CLOSE]
    found = _found(number, late, to_the_end=True)
    assert not found, _report(found)


def test_every_pair_of_effect_answer_and_path_is_met() -> None:
    for number in NUMBERS:
        met = list(cells(number))
        assert len({(c.landing, c.path.name) for c in met}) >= (len(Landing) - 1) * len(PATHS)
        pairs = {(c.path.name, c.answer) for c in met if c.answer is not Answer.REFUSED}
        assert len(pairs) == len(PATHS) * (len(Answer) - 1)
        assert {c.answer for c in met} == set(Answer)


def test_the_oracle_calls_enough_cells_knowable_to_mean_anything() -> None:
    """A matrix in which nothing had to be told would pass for a house that says nothing."""
    counted = Counter(knowable(cell) for number in NUMBERS for cell in cells(number))
    assert counted[True] > 700
    assert counted[False] > 3_000


@pytest.mark.requirement("TRUTH-kind-elsewhere")
@pytest.mark.parametrize("kind", [Kind.SET, Kind.APPEND], ids=lambda k: k.value)
def test_success_claimed_on_an_unchanged_target_is_no_failure_where_nobody_can_look_elsewhere(kind: Kind) -> None:
    group = next(g for g in GROUPS if g.kind is kind and not g.offers.find)
    for landing in (Landing.NONE, Landing.WRONG_TARGET, Landing.WRONG_TENANT):
        cell = Cell(kind, group.side_effect, landing, Answer.OK, PATHS[0], group.offers)
        played = play(cell)
        assert played.outcome.state in (State.UNKNOWN, State.REVIEW_REQUIRED), str(cell)
        assert not played.outcome.may_repeat
        ended = played.to_the_end()
        assert ended.state is State.REVIEW_REQUIRED, str(cell)
        assert not ended.may_repeat
