"""Reports that are crossed, replayed or made up: each attempt is closed by its own call, and by nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from readback.hooks.protocol import ToolCall
from tests.hooks.conftest import BASH, Agent, Told
from tests.hooks.test_calls import outcomes, pre

WROTE = {"type": "create"}


def written(agent: Agent, name: str) -> dict[str, Any]:
    return {"file_path": str(agent.folder / name), "content": name}


def post(agent: Agent, name: str, call: str, tool: str = "Write") -> Told:
    given, answer = (written(agent, name), WROTE) if tool != "Bash" else ({"command": "ls"}, BASH)
    return agent.tell("PostToolUse", tool_name=tool, tool_input=given, tool_use_id=call, tool_response=answer)


def post_of(agent: Agent, given: dict[str, Any], call: str) -> Told:
    return agent.tell("PostToolUse", tool_name="Write", tool_input=given, tool_use_id=call, tool_response=WROTE)


@pytest.mark.requirement("HOOK-reported")
@pytest.mark.parametrize(("tool", "call"), [("Bash", "toolu_1"), ("Write", "toolu_2"), ("mcp__x__y", "toolu_2")])
def test_an_open_attempt_is_not_closed_by_the_report_of_another_call(agent: Agent, tool: str, call: str) -> None:
    assert not pre(agent, given=written(agent, "a"), call="toolu_1").denied
    told = post(agent, "a", call, tool)
    assert (told.code, told.out) == (2, "")
    assert "without a recorded attempt" in told.err
    asked = [each for each in outcomes(agent) if each["contract"] == "Write"]
    assert [each["state"] for each in asked] == ["executing"]
    Path(agent.folder, "a").write_text("a", encoding="utf-8")
    assert "Verified" in post(agent, "a", "toolu_1").context


@pytest.mark.requirement("HOOK-reported")
@pytest.mark.parametrize("tools", [("Bash", "Write"), ("Write", "Bash")])
def test_calls_of_two_tools_with_one_id_are_each_reported_as_their_own(agent: Agent, tools: tuple[str, str]) -> None:
    given = {"Bash": {"command": "ls"}, "Write": written(agent, "a")}
    for tool in tools:
        assert pre(agent, tool, given[tool], "toolu_1").denied == ""
    Path(agent.folder, "a").write_text("a", encoding="utf-8")
    assert "nothing of it was verified" in post(agent, "a", "toolu_1", "Bash").context
    assert "Verified" in post(agent, "a", "toolu_1").context


@pytest.mark.requirement("HOOK-reported", "HOOK-denied")
def test_a_call_that_was_denied_and_ran_all_the_same_is_on_record_and_told_at_the_end(agent: Agent) -> None:
    """An agent that gave up on the hook before it lets the tool run, and does not hear that it was denied."""
    given = {"file_path": "a", "content": "a"}
    assert pre(agent, given=given, call="toolu_1").denied
    told = post_of(agent, given, "toolu_1")
    assert (told.code, "without a recorded attempt" in told.err) == (2, True)
    assert [(each["target"], each["attempts"]) for each in outcomes(agent)] == [("tool/Write", 1), ("file/a", 0)]
    assert "Write (1)" in agent.tell("Stop", stop_hook_active=False).json["systemMessage"]
    assert "nothing of it was verified" in post_of(agent, given, "toolu_1").context


@pytest.mark.requirement("HOOK-reported", "HOOK-ungoverned")
def test_a_call_that_no_hook_saw_before_it_is_on_record_from_its_report_on_and_told_at_the_end(agent: Agent) -> None:
    for _ in range(2):
        told = post(agent, "a", "toolu_1")
        assert "Verified" not in told.out
    (action,) = outcomes(agent)
    assert (action["target"], action["why"], action["attempts"]) == ("tool/Write", "unverifiable", 1)
    assert "Write (1)" in agent.tell("Stop", stop_hook_active=False).json["systemMessage"]
    assert pre(agent, given=written(agent, "a"), call="toolu_2").denied == ""


@pytest.mark.requirement("HOOK-ungoverned")
def test_an_ungoverned_call_is_not_closed_by_another_tool_s_report(agent: Agent) -> None:
    assert not pre(agent, "mcp__x__y", written(agent, "a"), "toolu_1").denied
    assert post(agent, "a", "toolu_1").code == 2
    assert "nothing of it was verified" in post(agent, "a", "toolu_1", "mcp__x__y").context


@pytest.mark.requirement("HOOK-reported")
def test_no_two_calls_have_the_same_operation() -> None:
    def operation(session: str, call: str) -> str:
        return ToolCall("PreToolUse", session, call, "Write", {}).operation

    named = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("a%252Fb", "c")]
    assert len({operation(*each) for each in named}) == len(named)
    assert operation("s", "toolu_1") == "s/toolu_1"
