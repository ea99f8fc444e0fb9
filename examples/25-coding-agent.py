"""A session of Claude Code, replayed: the JSON that it hands to its hooks, the tools' own deeds, and what is answered.

Run it with `python examples/25-coding-agent.py`. The project is set up by `readback init --claude-code`; the commands
are those of its `.claude/settings.json`. Two tools lie: a Write that keeps half, and a commit that never happens.

Prints:
    Write notes.txt    before: nothing stands against it    after: verified
    Edit notes.txt     before: nothing stands against it    after: verified
    Write plan.txt     before: nothing stands against it    after: blocked, value_mismatch
    Bash git commit    before: nothing stands against it    after: verified
    Bash git commit    before: nothing stands against it    after: blocked, no_op_failure
    Bash make test     before: nothing stands against it    after: not verified, no contract
    end of the turn:   kept on, once: Write on plan.txt, git_commit on .
    end of the turn:   the turn ends, and its person is told
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

folder = tempfile.TemporaryDirectory()
project = Path(os.path.realpath(folder.name))
# `readback` is installed beside this Python, on the path or not.
programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
beside = {**os.environ, "CLAUDE_PROJECT_DIR": str(project), "PATH": programs}
calls = count(1)
always = {"session_id": "9f1c0a52", "transcript_path": "", "cwd": str(project), "permission_mode": "default"}


def run(*command: str) -> None:
    subprocess.run(command, cwd=project, env=beside, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def hook(event: str, **said: Any) -> dict[str, Any]:
    """Starts the hook as the agent does, and returns its answer."""
    settings = json.loads((project / ".claude" / "settings.json").read_text(encoding="utf-8"))
    command = settings["hooks"][event][0]["hooks"][0]["command"]
    given = json.dumps({**always, "hook_event_name": event, **said})
    done = subprocess.run(
        command, shell=True, input=given, cwd=project, env=beside, capture_output=True, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return answer


def use(told: str, tool: str, given: dict[str, Any], act: Callable[[], object], answer: dict[str, Any]) -> None:
    """One call: the hook before it, what the tool really does, and the hook after it."""
    call = {"tool_name": tool, "tool_input": given, "tool_use_id": f"toolu_{next(calls)}"}
    stands = hook("PreToolUse", **call).get("hookSpecificOutput", {}).get("permissionDecisionReason", "")
    act()
    said = hook("PostToolUse", **call, tool_response=answer)
    text = said["hookSpecificOutput"]["additionalContext"]
    found = re.search(r"Discrepancy: (\w+)", text)
    after = "verified" if "Verified" in text else "not verified, no contract"
    if said.get("decision") == "block":
        after = f"blocked, {found[1] if found else 'unknown'}"
    print(f"{told:<18} before: {stands or 'nothing stands against it'}    after: {after}")


def end(again: bool) -> None:
    said = hook("Stop", stop_hook_active=again)
    if said.get("decision") == "block":
        items = re.findall(r"- (\w+) on \w+/(\S+):", said["reason"])
        named = ", ".join(f"{name} on {os.path.relpath(what, project)}" for name, what in items)
        print(f"end of the turn:   kept on, once: {named}")
    else:
        print("end of the turn:   the turn ends, and its person is told" if "systemMessage" in said else "silence")


run("git", "init", "--quiet")
run("readback", "init", "--claude-code")
notes, plan = project / "notes.txt", project / "plan.txt"
shell = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False}
commit = {"command": "git commit -m notes", "description": "Commits the notes"}
who = ("-c", "user.name=agent", "-c", "user.email=agent@localhost", "-c", "commit.gpgsign=false")

wrote = {"file_path": str(notes), "content": "one\ntwo\n"}
use("Write notes.txt", "Write", wrote, lambda: notes.write_text("one\ntwo\n"), {"type": "create"})
edit = {"file_path": str(notes), "old_string": "two", "new_string": "three"}
use("Edit notes.txt", "Edit", edit, lambda: notes.write_text("one\nthree\n"), {"filePath": str(notes)})
whole = {"file_path": str(plan), "content": "first this, then that"}
use("Write plan.txt", "Write", whole, lambda: plan.write_text("first this"), {"type": "create"})
run("git", "add", "notes.txt")
use("Bash git commit", "Bash", commit, lambda: run("git", *who, "commit", "-m", "notes"), shell)
use("Bash git commit", "Bash", commit, lambda: None, {**shell, "stdout": "[main 5a1f] notes"})
use("Bash make test", "Bash", {"command": "make test"}, lambda: None, {**shell, "stdout": "ok"})
end(again=False)
end(again=True)
folder.cleanup()
