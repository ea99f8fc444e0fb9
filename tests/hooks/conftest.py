"""A project with the hooks set up as `readback init --claude-code` does it, and an agent that starts them.

The agent is fed the documented JSON of Claude Code's hooks. `Agent.start` runs the very command of the settings file in
a shell, as the agent does; `Agent.tell` runs the same in this process, with virtual time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from readback import bootstrap
from readback.cli.cli import main
from readback.testing.runtime_virtual import VirtualRuntime

PATIENCE_SECONDS = 120
EVENTS = {
    "PreToolUse": "pre",
    "PostToolUse": "post",
    "PostToolUseFailure": "post",
    "Stop": "stop",
    "SubagentStop": "stop",
}


@dataclass(frozen=True, slots=True)
class Told:
    """How one hook ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out) if self.out.strip() else {}

    @property
    def denied(self) -> str:
        """Why the tool may not run; "" where nothing stands against it."""
        assert self.code == 0, self
        said = self.json.get("hookSpecificOutput", {})
        return str(said["permissionDecisionReason"]) if said.get("permissionDecision") == "deny" else ""

    @property
    def blocks(self) -> str:
        """The reason of a block; "" for none."""
        assert self.code == 0, self
        return str(self.json["reason"]) if self.json.get("decision") == "block" else ""

    @property
    def context(self) -> str:
        assert self.code == 0, self
        return str(self.json.get("hookSpecificOutput", {}).get("additionalContext", ""))


@dataclass(slots=True)
class Agent:
    """A coding agent in a project: its tools act, and its hooks are told."""

    folder: Path
    session: str = "0f3c7a1e-5b1d-4d3f-9a55-3f1f6a1b2c3d"
    runtime: VirtualRuntime = field(default_factory=VirtualRuntime)
    calls: int = 0

    def said(self, event: str, **more: Any) -> dict[str, Any]:
        """The documented input of an event."""
        always = {
            "session_id": self.session,
            "transcript_path": str(self.folder / "transcript.jsonl"),
            "cwd": str(self.folder),
            "permission_mode": "default",
            "hook_event_name": event,
        }
        return {**always, **more}

    def start(self, event: str, **more: Any) -> Told:
        """The command of the settings file, as a process of its own."""
        settings = json.loads((self.folder / ".claude" / "settings.json").read_text(encoding="utf-8"))
        (entry,) = settings["hooks"][event]
        (hook,) = entry["hooks"]
        done = subprocess.run(
            hook["command"],
            shell=True,
            input=json.dumps(self.said(event, **more)),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return Told(done.returncode, done.stdout, done.stderr)

    def tell(self, event: str, **more: Any) -> Told:
        """The same in this process."""
        return self.raw(EVENTS[event], json.dumps(self.said(event, **more)).encode())

    def raw(self, hook: str, content: bytes, *more: str) -> Told:
        result = CliRunner().invoke(main, ["hook", hook, *more], input=content, prog_name="readback")
        return Told(result.exit_code, result.stdout, result.stderr)

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("READBACK_", "GIT_"))}
        beside = str(Path(sys.executable).parent)
        return {**kept, "CLAUDE_PROJECT_DIR": str(self.folder), "PATH": f"{beside}{os.pathsep}{kept['PATH']}"}

    # --- tools -------------------------------------------------------------------------------------------------

    def use(
        self,
        tool: str,
        given: Mapping[str, Any],
        act: Callable[[], object],
        answer: Any,
        *,
        how: Callable[..., Told] | None = None,
    ) -> Told:
        """A whole call: the hook before, the tool, and the hook after, whose answer this is."""
        how = how or self.tell
        self.calls += 1
        named = {"tool_name": tool, "tool_input": dict(given), "tool_use_id": f"toolu_{self.calls:04}"}
        allowed = how("PreToolUse", **named)
        assert (allowed.code, allowed.denied) == (0, ""), allowed
        act()
        if isinstance(answer, str):
            return how("PostToolUseFailure", **named, error=answer, is_interrupt=False)
        return how("PostToolUse", **named, tool_response=answer)

    def write(self, name: str, text: str, really: str | None = None, *, how: Callable[..., Told] | None = None) -> Told:
        """The Write tool. `really`: what it does instead, saying that all is well."""
        path = self.folder / name
        given = {"file_path": str(path), "content": text}
        answer = {"type": "create", "filePath": str(path), "content": text, "structuredPatch": []}
        wrote = text if really is None else really
        return self.use("Write", given, lambda: path.write_text(wrote, encoding="utf-8"), answer, how=how)

    def git(self, *args: str) -> str:
        named = ["-c", "user.name=agent", "-c", "user.email=agent@localhost", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *named, *args], cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=True
        )
        return done.stdout

    def readback(self, *args: str) -> Told:
        """Another command on the same ledger, in this process."""
        ledger = f"sqlite:///{self.folder / '.claude' / 'readback.db'}"
        result = CliRunner().invoke(main, [*args, "--url", ledger])
        return Told(result.exit_code, result.stdout, result.stderr)


BASH = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False}


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    folder = tmp_path / "project"
    folder.mkdir()
    one = Agent(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(bootstrap, "runtime", lambda: one.runtime)
    one.git("init", "--quiet", "--initial-branch", "main")
    assert CliRunner().invoke(main, ["init", "--claude-code"]).exit_code == 0
    return one
