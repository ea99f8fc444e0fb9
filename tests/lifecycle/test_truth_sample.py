"""A sample of the truth-oracle matrix for the inner loop; tests/truth holds the whole of it."""

from __future__ import annotations

import pytest

from tests.truth.cells import GROUPS, cells
from tests.truth.oracle import faults
from tests.truth.stage import play

STRIDE = 23


@pytest.mark.parametrize("number", range(len(GROUPS)), ids=lambda n: str(GROUPS[n]))
@pytest.mark.slow
def test_what_is_told_is_true(number: int) -> None:
    for cell in list(cells(number))[number::STRIDE]:
        played = play(cell)
        assert not list(faults(played, played.outcome)), str(cell)
