"""The demo's delegation: how it is counted, and what it does where the delegate does not come round."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from readback.demo import delegated
from readback.demo.desk import desk
from readback.demo.facts import Fact
from readback.demo.naive import Claim, Told, all_heard
from readback.demo.progress import Progress
from readback.demo.systems.launch import Systems
from readback.demo.tally import Row, Totals, count_attempts, reckon_attempts


@pytest.fixture
def connected(systems: Systems) -> Iterator[Systems]:
    desk.open(**systems.addresses)
    yield systems
    desk.close()


def test_a_delegate_that_only_ever_lies_is_never_told_as_done(
    connected: Systems, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegated, "ADDRESS", "nowhere that the task names")
    sent = asyncio.run(delegated.delegate(f"sqlite:///{tmp_path / 'ledger.db'}", connected, Progress()))
    rows = reckon_attempts(sent, all_heard(desk.overheard))
    totals = count_attempts(rows)
    assert [row.readback.claim for row in rows] == [Claim.OPEN] * 3
    assert (totals.readback_false, totals.sound, totals.good) == (0, False, False)
    assert [row.tool_said for row in rows] == ["Done! o-26 is packed and readdressed."] * 3


def row(naive: Claim, readback: Claim, *, done: bool) -> Row:
    return Row("1", "Done!", Fact(done, "so it is"), Told(naive, ""), Told(readback, ""))


@pytest.mark.parametrize(
    ("naive", "readback", "done", "counted"),
    [
        (Claim.DONE, Claim.OPEN, False, (True, False, False)),
        (Claim.DONE, Claim.DONE, False, (True, True, False)),
        (Claim.DONE, Claim.DONE, True, (False, False, False)),
        (Claim.DONE, Claim.OPEN, True, (False, False, True)),
        (Claim.FAILED, Claim.FAILED, False, (False, False, False)),
    ],
)
def test_what_is_told_of_an_attempt_is_held_against_what_was_true_then(
    naive: Claim, readback: Claim, done: bool, counted: tuple[bool, bool, bool]
) -> None:
    found = row(naive, readback, done=done)
    assert (found.naive_false, found.readback_false, found.missed) == counted


def test_the_totals_are_those_of_the_rows() -> None:
    lied, done = row(Claim.DONE, Claim.OPEN, done=False), row(Claim.DONE, Claim.DONE, done=True)
    assert count_attempts([lied, lied, done]) == Totals(3, 2, 0, 0, naive_min=2)
    assert count_attempts([done, lied]) == Totals(2, 1, 0, 0, sound=False, naive_min=2)
    assert not count_attempts([]).good


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"naive_false": 1}, False),
        ({"readback_false": 1}, False),
        ({"missed": 1}, False),
        ({"sound": False}, False),
    ],
)
def test_the_demo_fails_unless_every_count_of_the_attempts_is_as_promised(change: dict[str, Any], good: bool) -> None:
    assert replace(Totals(3, 2, 0, 0, naive_min=2), **change).good is good
