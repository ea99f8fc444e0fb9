"""Verify the verifier: every careless belief that is put in its place has to be caught by the matrix."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.truth.cells import GROUPS, cells
from tests.truth.mutants import MUTANTS
from tests.truth.oracle import faults
from tests.truth.stage import Cell, play

STRIDE = 7
"""Cells are met far apart, so that a mutant is found soon."""


def _mixed() -> Iterator[Cell]:
    rows = [list(cells(number, answers_each=4)) for number in range(len(GROUPS))]
    for start in range(STRIDE * STRIDE):
        for row in rows:
            yield from row[start :: STRIDE * STRIDE]


def _lies() -> str:
    """The first lie that is told, or nothing."""
    for cell in _mixed():
        played = play(cell)
        for fault in faults(played, played.outcome):
            return f"{cell}: {fault}"
    return ""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_careless_verifier_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert _lies(), f"nobody notices that {name}"
