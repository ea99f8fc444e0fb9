"""A watched success at the shell: when it is looked at next, what drifted, what may be done, and how commands end."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cli import shop
from tests.cli.conftest import Desk

HERE = ("--contracts", "tests.cli.watched")
HOUR = 3_600
DAY = 86_400


def watched(desk: Desk) -> str:
    told = desk("run", "dispatch", *HERE, "--json", "--arg", "order_id=o-17", code=0).json
    assert told["due_us"] is not None
    return str(told["id"])


def write(**fields: Any) -> None:
    orders = shop.load()
    orders["o-17"].update(fields)
    shop.save(orders)


@pytest.mark.requirement("WATCH-settled")
def test_a_watched_success_is_settled_and_says_when_it_is_looked_at_next(desk: Desk) -> None:
    action_id = watched(desk)
    listed = desk("list", "--json").json[0]
    assert (listed["state"], listed["exit_code"]) == ("reconciled_success", 0)
    assert listed["due_us"] is not None
    assert "looked at again" in " ".join(desk("list").out.split())
    shown = desk("show", action_id, "--json", code=0).json
    assert (shown["watch"]["looks"], shown["watch"]["next_us"]) == (0, listed["due_us"])
    assert "last seen to hold" in desk("show", action_id).out
    assert any("The state is watched until" in said for said in desk("explain", action_id, "--json").json["now"])
    assert desk("resume", *HERE, code=0).out.startswith("Nothing is due")
    assert desk("worker", *HERE, "--until-idle", "--json", code=0).json["advanced"] == 0


@pytest.mark.requirement("WATCH-drift", "WATCH-decided")
def test_a_drift_is_in_the_queue_with_what_changed_and_ends_as_what_it_is(desk: Desk) -> None:
    action_id = watched(desk)
    desk.runtime.advance(2 * HOUR)
    assert desk("resume", *HERE, "--json", code=0).json["actions"][0]["standing"]
    write(status="lost")
    desk.runtime.advance(2 * DAY)
    told = desk("resume", *HERE, "--json", code=1).json["actions"][0]
    assert (told["id"], told["review"], told["verified"]) == (action_id, "drift", False)
    assert (
        desk("list", "--json").json[0]["exit_code"],
        desk("show", action_id, "--json").json["watch"]["drifted"],
    ) == (
        1,
        True,
    )
    assert action_id in desk("review", "list").out
    packet = desk("review", "show", action_id, "--json").json
    assert packet["drift"]["changed"] == ["status"]
    assert "since then changed: status" in " ".join(desk("review", "show", action_id).out.split())
    explained = desk("explain", action_id, "--json").json
    assert "The action was verified, and a later reading shows another state." in " ".join(explained["why"])
    assert any("review show" in line for line in explained["commands"])
    write(status="shipped")
    desk.runtime.advance(2 * DAY)
    assert desk("worker", *HERE, "--until-idle", "--json", code=0).json["advanced"] == 1
    assert desk("show", action_id, "--json").json["outcome"]["standing"]


@pytest.mark.requirement("WATCH-undetermined")
def test_a_look_that_could_not_tell_is_shown_as_that(desk: Desk) -> None:
    action_id = watched(desk)
    shop.path().write_text("{", encoding="utf-8")
    desk.runtime.advance(2 * HOUR)
    assert desk("resume", *HERE, "--json", code=0).json["actions"][0]["standing"]
    shown = desk("show", action_id, "--json", code=0).json["watch"]
    assert (shown["failing"], shown["why"], shown["drifted"]) == (1, "verifier_error", False)
    assert "could not tell (verifier error)" in " ".join(desk("show", action_id).out.split())


def test_an_event_of_another_day_is_shown_with_its_date(desk: Desk) -> None:
    action_id = watched(desk)
    desk.runtime.advance(2 * DAY)
    desk("resume", *HERE, code=0)
    events = [line for line in desk("show", action_id).out.splitlines() if line.startswith("· ")]
    assert all(re.match(r"· \d\d:\d\d:\d\d  ", line) for line in events[:-1])
    assert re.match(r"· \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  watched", events[-1])
