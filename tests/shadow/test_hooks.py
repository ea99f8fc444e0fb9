"""Hooks in shadow mode: the agent gets no word about a result, and is denied what it was denied before."""

from __future__ import annotations

import json

import pytest

from tests.hooks.conftest import Agent, Told, agent
from tests.shadow.given import allow

__all__ = ["agent"]


class ShadowAgent(Agent):
    """The same agent, with `--shadow` in its hooks' commands."""

    def raw(self, hook: str, content: bytes, *more: str) -> Told:
        return Agent.raw(self, hook, content, "--shadow", *more)


def shadowed(agent: Agent) -> Agent:
    return ShadowAgent(agent.folder, agent.session, agent.runtime)


def outcomes(agent: Agent) -> list[dict[str, object]]:
    listed = json.loads(agent.readback("list", "--json").out)
    return [json.loads(agent.readback("show", each["id"], "--json").out)["outcome"] for each in listed]


@pytest.mark.requirement("SHADOW-hooks")
@pytest.mark.parametrize("really", [None, "something else"])
def test_a_judged_write_is_reported_to_no_agent(
    agent: Agent, really: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, agent.folder.parent, 'shadow = ["*"]\n')
    told = shadowed(agent).write("a.txt", "hello", really)
    assert (told.code, told.out) == (0, "")
    assert shadowed(agent).tell("Stop", stop_hook_active=False).json == {}
    [outcome] = outcomes(agent)
    assert (outcome["mode"], outcome["verified"]) == ("shadow", False)
    judged = outcome["shadow"]
    assert isinstance(judged, dict)
    assert (judged["would_verdict"] == "verified") is (really is None)


@pytest.mark.requirement("SHADOW-hooks")
def test_a_call_without_a_contract_is_reported_to_no_agent_either(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, agent.folder.parent, 'shadow = ["*"]\n')
    one = shadowed(agent)
    told = one.use("WebThing", {"url": "https://example.test"}, lambda: None, {"ok": True})
    assert (told.code, told.out) == (0, "")
    assert one.tell("Stop", stop_hook_active=False).json == {}
    assert len(outcomes(agent)) == 1


@pytest.mark.requirement("SHADOW-two-keys")
def test_hooks_in_shadow_without_the_settings_block_the_tool(agent: Agent) -> None:
    given = {"file_path": str(agent.folder / "a.txt"), "content": "a"}
    told = shadowed(agent).tell("PreToolUse", tool_name="Write", tool_input=given, tool_use_id="toolu_1")
    assert told.code == 2
    assert "allow no contract in shadow mode" in told.err


@pytest.mark.requirement("SHADOW-hooks")
def test_a_call_that_was_denied_before_stays_denied(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, agent.folder.parent, 'shadow = ["*"]\n')
    given = {"file_path": str(agent.folder / "a.txt")}  # without the content
    told = shadowed(agent).tell("PreToolUse", tool_name="Write", tool_input=given, tool_use_id="toolu_1")
    assert "Write was not called" in told.denied
