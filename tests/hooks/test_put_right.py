"""What an agent's day is made of: calls that fail, are refused by its user, or lie, and the one that is right then.

A turn that could never end without a word again, because of a call that has long been put right, would end with the
hooks switched off.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.hooks.conftest import BASH, Agent
from tests.hooks.test_calls import outcomes, rewrite

COMMIT = {"command": "git commit -m notes", "description": "Commits"}
NO_TASKS: dict[str, Any] = {"stop_hook_active": False, "background_tasks": [], "session_crons": []}


def commit(agent: Agent) -> None:
    agent.git("commit", "--quiet", "--allow-empty", "-m", "notes")


@pytest.mark.requirement("HOOK-reported", "HOOK-stop-once")
@pytest.mark.parametrize("answer", ["Exit code 1\nnothing to commit", BASH])
def test_a_commit_that_was_not_made_is_told_as_that_and_held_against_no_turn_after_the_one_that_was(
    agent: Agent, answer: Any
) -> None:
    commit(agent)
    told = agent.use("Bash", COMMIT, lambda: None, answer)
    assert "Unknown" not in told.context, "the command has ended, and no commit of it is on its way"
    assert outcomes(agent)[0]["verdict"] == "refuted"
    assert f"git_commit on git/{agent.folder}" in agent.tell("Stop", **NO_TASKS).blocks
    assert "Verified" in agent.use("Bash", COMMIT, lambda: commit(agent), BASH).context
    assert agent.tell("Stop", **NO_TASKS).out == ""


@pytest.mark.requirement("HOOK-told")
def test_a_write_that_failed_and_changed_nothing_is_not_told_as_one_that_changed_something(agent: Agent) -> None:
    path = agent.folder / "a.txt"
    path.write_text("older", encoding="utf-8")
    given = {"file_path": str(path), "content": "newer"}
    told = agent.use("Write", given, lambda: None, "File has not been read yet. Read it first before writing to it.")
    assert "no_op_failure" in told.context
    assert "The target changed" not in told.context
    assert outcomes(agent)[0]["state"] == "failed"


@pytest.mark.requirement("HOOK-stop-once")
@pytest.mark.parametrize("really", ["he", "older"])
def test_a_write_that_lied_waits_for_a_person_and_for_no_turn_after_the_file_was_put_right(
    agent: Agent, really: str
) -> None:
    (agent.folder / "a.txt").write_text("older", encoding="utf-8")
    assert "Review required" in agent.write("a.txt", "hello", really).blocks
    assert "a.txt" in agent.tell("Stop", **NO_TASKS).blocks
    agent.write("a.txt", "hello, all")
    assert agent.tell("Stop", **NO_TASKS).out == ""
    waiting = json.loads(agent.readback("review", "list", "--json").out)
    assert [each["contract"] for each in waiting] == ["Write"], "a person is asked all the same"


@pytest.mark.requirement("HOOK-stop-once", "L29")
def test_what_is_wrong_elsewhere_than_in_the_target_is_not_put_right_by_a_later_call(agent: Agent) -> None:
    path = agent.folder / "a.txt"
    path.write_text("older", encoding="utf-8")
    agent.write("a.txt", "hello", "he")
    agent.write("b.txt", "hello")
    given = {"file_path": str(path), "old_string": "he", "new_string": "hello"}
    agent.use("Edit", given, lambda: path.write_text("hello", encoding="utf-8"), {})
    assert "a.txt" in agent.tell("Stop", **NO_TASKS).blocks, "another file, or another contract, says nothing of it"


@pytest.mark.requirement("HOOK-reported", "HOOK-stop-once")
def test_a_call_that_the_user_refused_is_read_as_not_done_when_the_turn_ends_and_is_put_right_by_the_next(
    agent: Agent,
) -> None:
    path = agent.folder / "a.txt"
    path.write_text("older", encoding="utf-8")
    given = {"file_path": str(path), "content": "newer"}
    assert agent.tell("PreToolUse", tool_name="Write", tool_input=given, tool_use_id="refused").denied == ""
    assert "a.txt: not done" in agent.tell("Stop", **NO_TASKS).blocks
    (ended,) = outcomes(agent)
    assert (ended["state"], ended["attempts"]) == ("failed", 1)
    assert "No report of this call came" in ended["observation"]["detail"]
    agent.write("a.txt", "something else")
    assert agent.tell("Stop", **NO_TASKS).out == ""


@pytest.mark.requirement("HOOK-reported", "L29")
@pytest.mark.parametrize(
    "said", [{}, {"background_tasks": None}, {"background_tasks": [{"id": "b1", "status": "running"}]}]
)
def test_a_call_without_a_report_is_not_told_as_not_done_unless_the_agent_says_that_nothing_goes_on(
    agent: Agent, said: dict[str, Any]
) -> None:
    path = agent.folder / "a.txt"
    path.write_text("older", encoding="utf-8")
    given = {"file_path": str(path), "content": "newer"}
    agent.tell("PreToolUse", tool_name="Write", tool_input=given, tool_use_id="out")
    assert "unresolved" in agent.tell("Stop", stop_hook_active=False, **said).blocks
    agent.runtime.advance(5)
    assert "unresolved" in agent.tell("Stop", stop_hook_active=False, **said).blocks
    assert outcomes(agent)[0]["may_repeat"] is False


@pytest.mark.requirement("HOOK-reported", "L29")
@pytest.mark.parametrize("pattern", ["", "mcp__files__*", "mc*", "*put"])
def test_a_server_may_still_be_at_a_call_that_the_agent_gave_up(agent: Agent, pattern: str) -> None:
    tool = "mcp__files__put"
    rewrite(agent, "readback-contracts.yaml", lambda text: text + (
        f"\n  {'put' if pattern else tool}:\n    kind: set\n    side_effect: ephemeral_write\n"
        "    target: file/{requested.path}\n    arguments: {path: string, content: string}\n"
        "    execute: {agent: {}, timeout: 10m}\n    readers:\n      - file: {root: /, path: \"{requested.path}\"}\n"
        "    ensure:\n      same bytes: authoritative.sha256 == sha256(requested.content)\n"
        "      a file: before == null || before.kind == 'file'\n    within: 1s\n"
    ))  # fmt: skip
    if pattern:
        rewrite(agent, "readback.yaml", lambda text: text.replace(
            "  - tool: Bash", f"  - tool: '{pattern}'\n    contract: put\n  - tool: Bash", 1
        ))  # fmt: skip
    (agent.folder / "m.txt").write_text("older", encoding="utf-8")
    given = {"path": str(agent.folder / "m.txt"), "content": "new"}
    assert agent.tell("PreToolUse", tool_name=tool, tool_input=given, tool_use_id="gone").denied == ""
    assert "unresolved" in agent.tell("Stop", **NO_TASKS).blocks
    agent.runtime.advance(5)
    assert "unresolved" in agent.tell("Stop", **NO_TASKS).blocks
    assert outcomes(agent)[0]["may_repeat"] is False
