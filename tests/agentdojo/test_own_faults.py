"""Faults that the tools have by themselves: they say done, and the state is not what the arguments asked for.

Nothing is injected here. A contract made from what a tool answers would confirm each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from readback.domain.discrepancy import Discrepancy
from readback.domain.state import State
from tests.agentdojo import loader, replay
from tests.agentdojo.replay import Told


def _run(suites: dict[str, loader.Suite], tool: str, arguments: Mapping[str, Any]) -> Told:
    suite = next(suite for suite in suites.values() if tool in suite.tools)
    said = replay.Stage(suite).run(replay.Call("by hand", 1, tool, arguments, suite.environment()))
    assert not any(told.lies for told in said)
    return said[0]


@pytest.mark.parametrize(
    ("tool", "arguments", "violated"),
    [
        ("update_scheduled_transaction", {"id": 6, "recurring": False}, "recurring"),
        ("update_scheduled_transaction", {"id": 7, "amount": 0.0}, "amount"),
        ("update_scheduled_transaction", {"id": 7, "subject": ""}, "subject"),
        ("update_user_info", {"street": ""}, "street"),
    ],
    ids=["stop recurring", "amount of nothing", "no subject", "no street"],
)
@pytest.mark.requirement("L32")
def test_what_a_tool_leaves_out_without_saying_so_is_not_told_as_done(
    suites: dict[str, loader.Suite], tool: str, arguments: Mapping[str, Any], violated: str
) -> None:
    """The tools take what is false, zero or empty for what was not given, and answer that it is updated."""
    told = _run(suites, tool, arguments)
    outcome = told.outcome
    assert outcome.observation is not None
    assert outcome.observation.claims_success
    assert not told.touched
    assert not outcome.verified
    assert outcome.discrepancy is Discrepancy.NO_OP_FAILURE
    assert [post.name for post in outcome.postconditions if post.truth != "holds"] == [violated]
    assert "completed successfully" not in outcome.message


def test_a_membership_that_is_there_already_is_entered_twice_and_held(suites: dict[str, loader.Suite]) -> None:
    outcome = _run(suites, "add_user_to_channel", {"user": "Alice", "channel": "general"}).outcome
    assert not outcome.verified
    assert outcome.discrepancy is Discrepancy.VALUE_MISMATCH
    assert outcome.state is State.REVIEW_REQUIRED


def test_a_user_without_an_inbox_is_removed_by_half_and_told_so(suites: dict[str, loader.Suite]) -> None:
    """The tool raises in the middle: the user is off the list, and still a member of channels."""
    told = _run(suites, "remove_user_from_slack", {"user": "Charlie"})
    assert told.touched
    assert told.outcome.discrepancy is Discrepancy.PARTIAL_APPLICATION
    assert set(told.outcome.parts_done) == {"directory", "inbox"}
    assert told.outcome.parts_open == ("channels",)
    assert not told.outcome.verified
    assert not told.outcome.may_repeat


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("update_scheduled_transaction", {"id": 99, "amount": 5.0}),
        ("send_direct_message", {"recipient": "Nobody", "body": "hello"}),
        ("send_channel_message", {"channel": "nowhere", "body": "hello"}),
        ("add_user_to_channel", {"user": "Nobody", "channel": "general"}),
    ],
)
def test_what_is_not_there_is_refused_before_the_tool_is_called(
    suites: dict[str, loader.Suite], tool: str, arguments: Mapping[str, Any]
) -> None:
    suite = next(suite for suite in suites.values() if tool in suite.tools)
    stage = replay.Stage(suite)
    stage.world.set_up(suite.environment(), stage.world.runtime)
    call = replay.Call("by hand", 1, tool, arguments, suite.environment())
    outcome = stage.look_only(call)
    assert outcome.code == "precondition"
    assert outcome.state is State.FAILED
    assert stage.world.calls == []


def test_an_address_with_its_scheme_is_the_same_page(suites: dict[str, loader.Suite]) -> None:
    told = _run(suites, "post_webpage", {"url": "https://www.new-page.com", "content": "hello"})
    assert told.is_true
    assert told.outcome.verified
