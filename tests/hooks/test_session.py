"""A session of Claude Code against the real commands of its settings: processes, a real folder, a real repository."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from typing import Any

import pytest

from readback.cli.contracts.init_claude_code import HOOKS
from readback.cli.main import GIVE_UP_SECONDS
from readback.hooks.protocol import PRE
from tests.hooks.conftest import BASH, PATIENCE_SECONDS, Agent, Told

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
import os, sys
os._exit = sys.exit
sys.argv = ["readback", "hook", *sys.argv[1:]]
from readback.cli.main import main
try:
    main()
except SystemExit as ended:
    assert ended.code == 0, ended
print(sorted({name.removeprefix("readback.") for name in sys.modules} & HEAVY))
"""
HEAVY = {
    "pydantic", "httpx", "rich", "asyncio", "mcp", "cryptography", "click", "logging", "concurrent.futures",
    "lifecycle.saga.attend", "lifecycle.audit.ledger", "lifecycle.sealing.seal", "lifecycle.evidence.attest",
    "sdk.sealer", "sdk.sequencer", "sdk.client",
}  # fmt: skip


def started(agent: Agent, event: str, *arguments: str, program: str = "", **more: Any) -> Told:
    """A hook as the installed command starts it; `program`: another one around it."""
    name = {"PreToolUse": "pre", "PostToolUse": "post", "Stop": "stop"}[event]
    code = program or "import sys\nsys.argv[0] = 'readback'\nfrom readback.cli.main import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code, *([] if program else ["hook"]), name, *arguments],
        input=json.dumps(agent.said(event, **more)),
        cwd=agent.folder,
        env=agent.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return Told(done.returncode, done.stdout, done.stderr)


def test_nothing_heavy_is_imported_for_a_call(agent: Agent) -> None:
    """Two processes are started for each call of a tool."""
    call: dict[str, Any] = {
        "tool_name": "Write",
        "tool_use_id": "t",
        "tool_input": {"file_path": "/nowhere/x", "content": "a"},
    }
    program = f"HEAVY = {HEAVY!r}\n{STARTS}"
    more: dict[str, Any]
    for event, more in (("PreToolUse", {}), ("PostToolUse", {"tool_response": {}}), ("Stop", {})):
        told = started(agent, event, program=program, **call, **more)
        assert told.out.splitlines()[-1:] == ["[]"], told


SOON = """
import sys
from readback.cli import main as start
start.GIVE_UP_SECONDS = 0.2
sys.argv = ["readback", "hook", *sys.argv[1:]]
start.main()
"""


@pytest.mark.requirement("HOOK-closed", "L29")
def test_l29_what_is_not_decided_in_time_holds_the_tool_back_before_the_agent_gives_up(agent: Agent) -> None:
    """An agent that gives up on a hook lets the tool run: an argument over which a pattern never ends is enough."""
    assert HOOKS[PRE][2] > GIVE_UP_SECONDS
    path = agent.folder / ".claude" / "readback.yaml"
    lines = path.read_text(encoding="utf-8").split("\n")
    [at] = [number for number, line in enumerate(lines) if line.lstrip().startswith(r"^\s*git\s+commit")]
    lines[at] = lines[at].partition("^")[0] + r"^(\s*\w+)+ commit$"
    path.write_text("\n".join(lines), encoding="utf-8")
    call: dict[str, Any] = {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": f"{'a' * 60}!"}}
    told = started(agent, "PreToolUse", program=SOON, **call)
    assert (told.code, told.out) == (2, "")
    assert "Nothing was decided" in told.err


@pytest.mark.requirement("HOOK-closed")
def test_the_short_way_of_a_hook_says_what_the_command_line_says(agent: Agent) -> None:
    """The installed command does not wait for the command line where a hook is called plainly."""
    ledger = ("--url", f"sqlite:///{agent.folder / 'other.db'}", "--tenant=acme")
    named: dict[str, Any] = {
        "tool_name": "Write",
        "tool_input": {"file_path": str(agent.folder / "a.txt"), "content": "a"},
    }
    began = started(agent, "PreToolUse", *ledger, tool_use_id="t1", **named)
    assert (began.code, began.denied, began.err) == (0, "", "")
    (agent.folder / "a.txt").write_text("another")
    given: dict[str, Any] = {**named, "tool_use_id": "t1", "tool_response": {"filePath": "a.txt"}}
    whole = agent.raw("post", json.dumps(agent.said("PostToolUse", **given)).encode(), *ledger)
    short = started(agent, "PostToolUse", *ledger, **given)
    assert "value_mismatch" in short.blocks
    assert short.json == whole.json
    assert started(agent, "PostToolUse", **given).code == 2  # in the project's own ledger it was never begun
    for line, code, said in (
        (("--help",), 0, "Usage: readback hook post"),
        (("--nothing", "x"), 2, "--nothing"),
        (("--url",), 2, "--url"),
        (("--hooks", "/nowhere/else.yaml"), 2, "/nowhere/else.yaml"),
    ):
        told = started(agent, "PostToolUse", *line, **given)
        assert told.code == code, told
        assert said in told.out + told.err


def test_a_program_that_calls_a_hook_keeps_its_garbage_collector(agent: Agent) -> None:
    """A hook's own process collects nothing. Tests and the release gates call hooks in a process that lives on."""
    assert gc.isenabled()
    agent.raw("pre", b"no JSON at all")
    assert gc.isenabled()
