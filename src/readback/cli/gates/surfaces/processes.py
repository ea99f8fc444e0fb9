"""Surfaces in a process of their own: the command line, the MCP server of actions, and a coding agent's hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from readback.assurance.surfaces import Behaviour, Probe, Told
from readback.canon import Json, parse_json
from readback.cli.gates.surfaces.shelf import MODULE, PRINCIPAL, TENANT, Shelf, shown
from readback.errors import UsageError

SECONDS_MAX: Final = 60
PROTOCOL: Final = "2025-06-18"
HERE: Final = (sys.executable, "-m", "readback")


def _environment(**more: str) -> dict[str, str]:
    """The environment without this process's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("READBACK_")}
    return {**kept, "READBACK_TENANT": TENANT, "READBACK_PRINCIPAL": PRINCIPAL, "NO_COLOR": "1", **more}


def _run(arguments: list[str], folder: Path, said: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HERE, *arguments],
        cwd=folder,
        env=_environment(**more),
        input=said,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


class CommandLine:
    """`readback run`."""

    name = "command-line"
    decides = True

    def missing(self) -> str:
        return ""

    def probe(self) -> Probe:
        return Shelf()

    def ask(self, probe: Probe, slot: str) -> Told:
        assert isinstance(probe, Shelf)
        command = ["run", "fill", "--contracts", MODULE, "--arg", f"slot={slot}", "--url", probe.url]
        ended = _run(command, probe.folder)
        if ended.returncode in (2, 5):
            raise UsageError(f"`readback run` ended with {ended.returncode}: {ended.stderr.strip()[-300:]}")
        return Told(ended.stdout + ended.stderr, ended.returncode == 0)

    def settled(self, probe: Probe, slot: str) -> Told:
        return self.ask(probe, slot)

    def close(self, probe: Probe) -> None:
        assert isinstance(probe, Shelf)
        probe.close()


class McpServer:
    """`readback mcp --actions`: the gateway's server over stdio."""

    name = "gateway"
    decides = True

    def missing(self) -> str:
        # Frameworks bring an earlier release of the package `mcp` too: only the extra's release has this module.
        return "" if find_spec("mcp_types") is not None else "the extra `mcp` is not installed."

    def probe(self) -> Probe:
        return Shelf()

    def ask(self, probe: Probe, slot: str) -> Told:
        assert isinstance(probe, Shelf)
        command = [*HERE, "mcp", "--actions", MODULE, "--ledger-url", probe.url]
        with subprocess.Popen(
            command,
            cwd=probe.folder,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server:
            try:
                return _asked(server, slot)
            finally:
                assert server.stdin is not None
                server.stdin.close()
                try:
                    server.wait(SECONDS_MAX)
                except subprocess.TimeoutExpired:
                    server.kill()

    def settled(self, probe: Probe, slot: str) -> Told:
        return self.ask(probe, slot)

    def close(self, probe: Probe) -> None:
        assert isinstance(probe, Shelf)
        probe.close()


def _asked(server: subprocess.Popen[str], slot: str) -> Told:
    client: dict[str, Json] = {"name": "release-gate", "version": "1"}
    _request(server, 1, "initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
    _send(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    result = _request(server, 2, "tools/call", {"name": "fill", "arguments": {"slot": slot}})
    texts = [str(each.get("text", "")) for each in result.get("content", []) if isinstance(each, dict)]
    return Told("\n".join([*texts, shown(result.get("structuredContent"))]), not result.get("isError"))


def _request(server: subprocess.Popen[str], number: int, method: str, params: dict[str, Json]) -> dict[str, Any]:
    _send(server, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert server.stdout is not None
    for line in server.stdout:
        answer = json.loads(line)
        if answer.get("id") == number:
            if "error" in answer:
                raise UsageError(f"The gateway answered {method} with an error: {shown(answer['error'])[:300]}")
            found: dict[str, Any] = answer["result"]
            return found
    raise UsageError(f"The gateway ended before its answer to {method}.")


def _send(server: subprocess.Popen[str], message: dict[str, Json]) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()


class Project(Shelf):
    """A project with the hooks of a coding agent. The agent's own tool writes the files, or claims so."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[str, int] = {}
        """The agent's calls by slot."""
        self.behaviour = Behaviour.HONEST

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / '.claude' / 'readback.db'}"

    def behave(self, behaviour: Behaviour) -> None:
        super().behave(behaviour)
        self.behaviour = behaviour
        hidden = self.folder / "hidden"
        if behaviour is Behaviour.BLIND:
            return
        if hidden.exists():  # the source answers again
            self.slots.unlink()
            hidden.rename(self.slots)

    @property
    def slots(self) -> Path:
        return self.folder / "slots"

    def write(self, slot: str) -> None:
        """Act as the agent's tool."""
        self.made[slot] = self.made.get(slot, 0) + 1
        place = self.slots / slot
        if self.behaviour is Behaviour.LYING:
            return
        if self.behaviour is not Behaviour.LATE:
            place.write_text("filled", encoding="utf-8")
        if self.behaviour is Behaviour.BLIND:
            self.slots.rename(self.folder / "hidden")
            self.slots.symlink_to(self.slots)  # a loop: no path below can be read

    def calls(self, slot: str) -> int:
        return self.made.get(slot, 0)

    def wake(self) -> None:
        _run(["resume", "--url", self.url], self.folder)


class Hooks:
    """The hooks of a coding agent, before and after its own tool."""

    name = "hooks"
    decides = False

    def missing(self) -> str:
        return ""

    def probe(self) -> Probe:
        made = Project()
        made.slots.mkdir()
        ended = _run(["init", "--claude-code"], made.folder, **self._place(made))
        if ended.returncode:
            raise UsageError(f"`readback init --claude-code` ended with {ended.returncode}: {ended.stderr[-300:]}")
        return made

    def ask(self, probe: Probe, slot: str) -> Told:
        assert isinstance(probe, Project)
        before = self._hook(probe, "pre", "PreToolUse", slot)
        denied = self._part(before, "permissionDecision") == "deny"
        if denied:
            return Told(str(self._part(before, "permissionDecisionReason")), completed=False)
        probe.write(slot)
        return self._read(self._hook(probe, "post", "PostToolUse", slot, tool_response={"type": "create"}))

    def settled(self, probe: Probe, slot: str) -> Told:
        """Return the words of the recorded outcome: a hook speaks once for each call."""
        assert isinstance(probe, Project)
        ended = _run(["list", "--json", "--url", probe.url], probe.folder)
        found = parse_json(ended.stdout.encode())
        listed = found.get("actions") if isinstance(found, dict) else found
        for each in listed if isinstance(listed, list) else []:
            if isinstance(each, dict) and str(each.get("target", "")).endswith(f"/{slot}"):
                shown_one = _run(["show", str(each["id"]), "--url", probe.url], probe.folder)
                return Told(shown_one.stdout, shown_one.returncode == 0)
        raise UsageError(f"The hooks recorded no action for {slot!r}.")

    def close(self, probe: Probe) -> None:
        assert isinstance(probe, Project)
        probe.close()

    def _read(self, answer: dict[str, Any]) -> Told:
        words = f"{answer.get('reason', '')}\n{self._part(answer, 'additionalContext')}"
        return Told(words, answer.get("decision") != "block" and "Verified:" in words)

    def _part(self, answer: dict[str, Any], name: str) -> object:
        held = answer.get("hookSpecificOutput")
        return held.get(name, "") if isinstance(held, dict) else ""

    def _place(self, probe: Project) -> dict[str, str]:
        """Settings of a user's own stay out: the probe's folder is the home."""
        return {
            "CLAUDE_PROJECT_DIR": str(probe.folder),
            "HOME": str(probe.folder),
            "XDG_CONFIG_HOME": str(probe.folder),
        }

    def _hook(self, probe: Project, hook: str, event: str, slot: str, **more: object) -> dict[str, Any]:
        said = {
            "session_id": "release-gate",
            "transcript_path": str(probe.folder / "transcript.jsonl"),
            "cwd": str(probe.folder),
            "permission_mode": "default",
            "hook_event_name": event,
            "tool_name": "Write",
            "tool_input": {"file_path": str(probe.slots / slot), "content": "filled"},
            "tool_use_id": f"toolu_{slot}",
            **more,
        }
        ended = _run(["hook", hook], probe.folder, json.dumps(said), **self._place(probe))
        if ended.returncode not in (0, 2):
            raise UsageError(f"The hook {hook} ended with {ended.returncode}: {ended.stderr[-300:]}")
        answer = json.loads(ended.stdout) if ended.stdout.strip() else {}
        if ended.returncode == 2:
            return {"decision": "block", "reason": ended.stderr, "hookSpecificOutput": {"permissionDecision": "deny"}}
        return dict(answer)
