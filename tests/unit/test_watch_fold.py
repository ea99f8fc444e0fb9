"""Watching after success as plain data: its bounds, its terms, and what each look makes of what was known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from readback.canon import Json
from readback.domain.contract import watch
from readback.domain.contract.watch import (
    CHANGES_MAX,
    WatchEnd,
    WatchState,
    WatchTerms,
    start_watch,
    watch_start_data,
    with_judgement,
    with_look,
)

S = 1_000_000
HELD: dict[str, Json] = {"role": "check", "n": 1}
READ: dict[str, Json] = {"role": "check", "n": 2}
SEEN = WatchState(
    since_us=5,
    until_us=900,
    every_us=100,
    looks=4,
    failing=2,
    why="timeout",
    told_us=30,
    held_us=20,
    drifted=True,
    changes=3,
    over="",
    held=HELD,
    held_ref="r1",
    seen_ref="j1",
)


def quiet(verdict: str, why: str = "", over: str = "") -> dict[str, Json]:
    return {"verdict": verdict, "why": why, "over": over}


def test_the_bounds_of_a_watch_are_these() -> None:
    assert (watch.LOOKS_MAX, watch.TRIES_MAX, CHANGES_MAX) == (1_000, 2_000, 32)
    assert (watch.EVERY_MIN_US, watch.RETRY_FIRST_US) == (S, 60 * S)
    assert (watch.RETRY_LAST_US, watch.ONCE_RETRIED_US) == (3_600 * S, 86_400 * S)


def test_the_words_that_a_watch_writes_are_on_record() -> None:
    assert (WatchEnd.TIME, WatchEnd.UNREAD, WatchEnd.CHANGES) == ("time", "unread", "changes")
    assert (WatchEnd.REVERSED, WatchEnd.WITHDRAWN) == ("reversed", "withdrawn")
    assert (watch.NO_LOOK, watch.UNTOLD) == ("not_checked", "undetermined")


def test_a_single_look_has_no_interval_and_asks_for_every_postcondition() -> None:
    once = WatchTerms(7)
    assert (once.every_us, once.for_us, once.ensure) == (0, 0, ())
    assert (once.looks, once.until_us) == (1, 7 + 86_400 * S)
    assert once.as_json() == {"after_us": 7, "every_us": 0, "for_us": 0, "ensure": []}


@pytest.mark.parametrize(
    ("after", "every", "last", "looks"), [(10, 10, 30, 3), (10, 10, 39, 3), (5, 10, 35, 4), (30, 10, 30, 1)]
)
def test_looks_are_counted_from_the_first_to_the_end(after: int, every: int, last: int, looks: int) -> None:
    terms = WatchTerms(after, every, last, ("status",))
    assert (terms.looks, terms.until_us) == (looks, last)
    assert terms.as_json() == {"after_us": after, "every_us": every, "for_us": last, "ensure": ["status"]}


def test_the_entry_of_a_success_says_until_when_and_how_often() -> None:
    assert watch_start_data(WatchTerms(10, 20, 300), 1_000) == {"until": 1_300, "every": 20}
    assert watch_start_data(WatchTerms(10), 1_000) == {"until": 1_010 + 86_400 * S, "every": 0}


def test_a_success_begins_its_watch_with_the_reading_that_verified_it() -> None:
    assert start_watch({"until": 900, "every": 100}, HELD, "r1", 5) == WatchState(
        since_us=5,
        until_us=900,
        every_us=100,
        looks=0,
        failing=0,
        why="",
        told_us=5,
        held_us=5,
        drifted=False,
        changes=0,
        over="",
        held=HELD,
        held_ref="r1",
        seen_ref="",
    )


@pytest.mark.parametrize("data", [{"until": "soon", "every": 0}, {"until": 900, "every": None}])
def test_a_watch_begins_at_times_and_at_nothing_else(data: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        start_watch(data, HELD, "r1", 5)


def test_people_are_shown_a_watch_without_its_evidence() -> None:
    shown = {"since_us": 5, "until_us": 900, "every_us": 100, "looks": 4, "failing": 2, "why": "timeout"}
    assert SEEN.as_json() == {**shown, "held_us": 20, "drifted": True, "changes": 3, "over": ""}
    fresh = WatchState(5, 900, 100)
    shown = {"since_us": 5, "until_us": 900, "every_us": 100, "looks": 0, "failing": 0, "why": ""}
    assert fresh.as_json() == {**shown, "held_us": 0, "drifted": False, "changes": 0, "over": ""}
    assert (fresh.told_us, fresh.held, fresh.held_ref, fresh.seen_ref) == (0, None, "", "")


@pytest.mark.requirement("WATCH-back")
@pytest.mark.parametrize("ends", [False, True])
def test_what_holds_again_holds_from_this_reading_on(ends: bool) -> None:
    told: dict[str, Any] = {"looks": 5, "failing": 0, "why": "", "told_us": 40, "over": "time" if ends else ""}
    now: dict[str, Any] = {"drifted": False, "held_us": 40, "held": READ, "held_ref": "r2", "seen_ref": ""}
    assert with_judgement(SEEN, READ, ("r2", "j2"), 40, verified=True, ends=ends) == replace(SEEN, **told, **now)


@pytest.mark.requirement("WATCH-drift")
@pytest.mark.parametrize("ends", [False, True])
def test_what_falls_keeps_the_reading_in_which_it_held_last(ends: bool) -> None:
    told: dict[str, Any] = {"looks": 5, "failing": 0, "why": "", "told_us": 40, "over": "time" if ends else ""}
    now: dict[str, Any] = {"drifted": True, "changes": 4, "seen_ref": "j2"}
    before = replace(SEEN, drifted=False)
    assert with_judgement(before, READ, ("r2", "j2"), 40, verified=False, ends=ends) == replace(SEEN, **told, **now)


@pytest.mark.requirement("WATCH-ends")
@pytest.mark.parametrize(("changes", "over"), [(30, ""), (31, "changes"), (32, "changes")])
def test_what_falls_too_often_is_watched_no_longer(changes: int, over: str) -> None:
    before = replace(SEEN, changes=changes)
    assert with_judgement(before, READ, ("r2", "j2"), 40, verified=False, ends=False).over == over
    ending = with_judgement(before, READ, ("r2", "j2"), 40, verified=False, ends=True)
    assert ending.over == (over or "time")
    assert with_judgement(before, READ, ("r2", "j2"), 40, verified=True, ends=False).changes == changes


@pytest.mark.parametrize("over", ["", "time"])
def test_a_look_that_could_not_tell_is_counted_and_changes_nothing_that_was_known(over: str) -> None:
    found = with_look(SEEN, quiet("undetermined", "partial", over), 40)
    assert found == replace(SEEN, looks=5, failing=3, why="partial", over=over)


@pytest.mark.parametrize("drifted", [False, True])
@pytest.mark.parametrize("over", ["", "time"])
def test_a_look_that_shows_what_was_known_says_when_that_was(drifted: bool, over: str) -> None:
    before = replace(SEEN, drifted=drifted)
    found = with_look(before, quiet("refuted" if drifted else "verified", over=over), 40)
    held_us = 20 if drifted else 40
    assert found == replace(before, looks=5, failing=0, why="", told_us=40, held_us=held_us, over=over)


@pytest.mark.parametrize("over", ["", "reversed"])
def test_an_entry_that_only_ends_the_watch_is_no_look(over: str) -> None:
    assert with_look(SEEN, quiet("not_checked", "never", over), 40) == replace(SEEN, over=over)
