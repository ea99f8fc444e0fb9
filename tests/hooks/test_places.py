"""Where a command acts: an agent goes into folders, working trees and other repositories, and its commits with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hooks.conftest import BASH, Agent, Told
from tests.hooks.test_calls import outcomes, rewrite

COMMIT = {"command": "git commit --allow-empty -m notes"}


def commit(agent: Agent, place: Path, *, really: bool = True) -> Told:
    """A commit by an agent that is in a place."""

    def how(event: str, **more: Any) -> Told:
        return agent.tell(event, **more, cwd=str(place))

    def act() -> None:
        if really:
            agent.git("-C", str(place), "commit", "--quiet", "--allow-empty", "-m", "notes")

    return agent.use("Bash", COMMIT, act, BASH, how=how)


def places(agent: Agent) -> dict[str, Path]:
    """Below the project: a folder, a working tree, a repository of its own, and a link to the project."""
    agent.git("commit", "--quiet", "--allow-empty", "-m", "first")
    found = {name: agent.folder / name for name in ("folder", "tree", "other", "link")}
    found["folder"].mkdir()
    agent.git("worktree", "add", "--quiet", str(found["tree"]), "-b", "tree")
    agent.git("init", "--quiet", str(found["other"]))
    found["link"].symlink_to(agent.folder)
    return found


@pytest.mark.requirement("HOOK-told")
@pytest.mark.parametrize("name", ["folder", "tree", "other", "link"])
def test_a_commit_is_read_where_the_agent_is(agent: Agent, name: str) -> None:
    place = places(agent)[name]
    assert "Verified" in commit(agent, place).context
    told = commit(agent, place, really=False)
    assert "no_op_failure" in told.blocks


@pytest.mark.requirement("HOOK-ungoverned", "L29")
def test_a_commit_outside_of_the_project_is_neither_denied_nor_told_as_one_that_was_not_made(
    agent: Agent, tmp_path: Path
) -> None:
    outside = tmp_path / "project-2"
    agent.git("init", "--quiet", str(outside))
    assert "no contract governs it" in commit(agent, outside).context
    (found,) = outcomes(agent)
    assert found["verdict"] == "undetermined"


@pytest.mark.requirement("HOOK-ungoverned")
def test_an_agent_that_does_not_say_where_it_is_is_in_no_folder(agent: Agent) -> None:
    rewrite(agent, "readback.yaml", lambda text: text.replace("policy: unverified", "policy: deny"))
    said = agent.said("PreToolUse", tool_name="Bash", tool_input=COMMIT, tool_use_id="toolu_x")
    del said["cwd"]
    assert "No contract governs Bash" in agent.raw("pre", json.dumps(said).encode()).denied


@pytest.mark.requirement("HOOK-closed")
@pytest.mark.parametrize("folder", ["''", "[a]", "7"])
def test_a_folder_that_is_no_text_is_a_fault_of_the_hook_file(agent: Agent, folder: str) -> None:
    rewrite(agent, "readback.yaml", lambda text: text.replace("    folder: ..", f"    folder: {folder}", 1))
    told = agent.tell("PreToolUse", tool_name="Bash", tool_input=COMMIT, tool_use_id="toolu_x")
    assert told.code == 2
    assert "tools[0].folder: It is a text." in told.err


@pytest.mark.requirement("HOOK-told", "L29")
def test_a_call_that_moved_the_agent_out_of_the_folder_is_read_back_all_the_same(agent: Agent, tmp_path: Path) -> None:
    """What comes after it is told of the folder that the agent is in by then."""
    rewrite(agent, "readback.yaml", lambda text: text.replace("policy: unverified", "policy: pass"))
    agent.git("commit", "--quiet", "--allow-empty", "-m", "first")
    named = {"tool_name": "Bash", "tool_input": COMMIT, "tool_use_id": "toolu_x"}
    assert agent.tell("PreToolUse", **named).denied == ""
    told = agent.tell("PostToolUse", **named, tool_response=BASH, cwd=str(tmp_path))
    assert "no_op_failure" in told.blocks
    assert outcomes(agent)[0]["verdict"] == "refuted"


@pytest.mark.requirement("HOOK-ungoverned")
def test_a_call_elsewhere_passes_where_the_policy_says_so(agent: Agent, tmp_path: Path) -> None:
    rewrite(agent, "readback.yaml", lambda text: text.replace("policy: unverified", "policy: pass"))
    told = agent.use(
        "Bash", COMMIT, lambda: None, BASH, how=lambda event, **more: agent.tell(event, **more, cwd=str(tmp_path))
    )
    assert (told.code, told.out) == (0, "")
