"""A session of Claude Code against the real commands of its settings: processes, a real folder, a real repository."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.hooks.conftest import BASH, PATIENCE_SECONDS, Agent

pytestmark = pytest.mark.slow


@pytest.mark.requirement("L29", "HOOK-told")
def test_a_session_is_verified_call_by_call_and_its_lies_are_told(agent: Agent) -> None:
    wrote = agent.write("notes.txt", "one\ntwo\n", how=agent.start)
    assert (wrote.blocks, "Verified" in wrote.context) == ("", True)

    path = agent.folder / "notes.txt"
    edit = {"file_path": str(path), "old_string": "two", "new_string": "three", "replace_all": False}
    patched = {"filePath": str(path), "oldString": "two", "newString": "three", "userModified": False}
    edited = agent.use("Edit", edit, lambda: path.write_text("one\nthree\n"), patched, how=agent.start)
    assert (edited.blocks, "Verified" in edited.context) == ("", True)

    agent.git("add", "notes.txt")
    bash = {"command": "git commit -m 'Note it'", "description": "Commits"}
    committed = agent.use("Bash", bash, lambda: agent.git("commit", "-m", "Note it"), BASH, how=agent.start)
    assert (committed.blocks, "Verified" in committed.context) == ("", True)

    lost = agent.write("lost.txt", "kept", really="something else", how=agent.start)
    assert "value_mismatch" in lost.blocks
    nothing = agent.use("Bash", bash, lambda: None, {**BASH, "stdout": "[main 1] Note it"}, how=agent.start)
    assert "no_op_failure" in nothing.blocks

    kept_on = agent.start("Stop", stop_hook_active=False)
    assert "lost.txt" in kept_on.blocks
    assert "git_commit" in kept_on.blocks
    assert "notes.txt" not in kept_on.blocks
    let_go = agent.start("Stop", stop_hook_active=True)
    assert let_go.blocks == ""
    assert "lost.txt" in let_go.json["systemMessage"]


@pytest.mark.requirement("L29")
def test_where_the_command_is_missing_the_shell_holds_the_tool_back(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Agent, "environment", lambda self: {"PATH": "/usr/bin:/bin"})
    for event in ("PreToolUse", "PostToolUse", "PostToolUseFailure"):
        assert agent.start(event).code == 2


STARTS = """
import sys
from readback.commands.cli import main
try:
    main(["hook", sys.argv[1]])
except SystemExit as ended:
    assert ended.code == 0, ended
print(sorted({"pydantic", "httpx", "rich", "asyncio", "mcp", "cryptography"} & sys.modules.keys()))
"""


def test_nothing_heavy_is_imported_for_a_call(agent: Agent) -> None:
    """Two processes are started for each call of a tool."""
    call = {"tool_name": "Write", "tool_use_id": "t", "tool_input": {"file_path": "/nowhere/x", "content": "a"}}
    for event, more in (("PreToolUse", {}), ("PostToolUse", {"tool_response": {}})):
        done = subprocess.run(
            [sys.executable, "-c", STARTS, {"PreToolUse": "pre", "PostToolUse": "post"}[event]],
            input=json.dumps(agent.said(event, **call, **more)),
            cwd=agent.folder,
            env=agent.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.stdout.splitlines()[-1:] == ["[]"], done
