"""The hook protocol of coding agents: JSON on stdin and stdout, as documented by Claude Code.

A misunderstood input could let a tool through, so reading is strict: a missing or mistyped value raises HookInputError.
Unknown keys are ignored, since agents add keys with every release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from readback.agent_errors import HookInputError
from readback.canon import Json, MalformedJsonError, ReadbackError, parse_json, why_not_json
from readback.canon.frozen import dataclass
from readback.canon.limits import ID_MAX_BYTES

INPUT_MAX_BYTES: Final = 32 * 1024 * 1024
"""Largest input from an agent. A tool's answer may hold a whole file twice."""
TEXT_MAX_CHARACTERS: Final = 8_000
"""Longest text for an agent. Claude Code truncates at 10,000 characters."""
PRE: Final = "PreToolUse"
POST: Final = "PostToolUse"
FAILURE: Final = "PostToolUseFailure"
STOP: Final = "Stop"
SUBAGENT_STOP: Final = "SubagentStop"
EVENTS: Final[Mapping[str, tuple[str, ...]]] = {"pre": (PRE,), "post": (POST, FAILURE), "stop": (STOP, SUBAGENT_STOP)}
"""The events handled by each hook."""
_SESSION_MAX_BYTES: Final = ID_MAX_BYTES // 2
_CALL_MAX_BYTES: Final = ID_MAX_BYTES // 2 - 1
_ESCAPES: Final = re.compile(rb"\\(?:u[dD][89abAB].{2}\\u[dD][c-fC-F].{2}|(?P<half>u[dD][89a-fA-F].{2})|.)", re.DOTALL)
"""The escapes of a JSON text: surrogate pairs, unpaired surrogates (`half`), and all others."""
_KEPT_ON: Final = re.compile(rb'(?<!\\)"stop_hook_active"\s*:\s*true\b')
_RUNS_NO_MORE: Final = frozenset({"completed", "failed", "killed", "stopped", "cancelled"})


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call, before (`PreToolUse`) or after the tool ran.

    Attributes:
        answer: The tool's result.
        failed: The agent's error text of a failed call.
        stopped: The user interrupted the call.
        running: The call continues in the background; `answer` reports only the start.
    """

    event: str
    session: str
    call: str
    tool: str
    given: Mapping[str, Json]
    answer: Json = None
    failed: str | None = None
    stopped: bool = False
    running: bool = False
    folder: str = ""
    agent: str = ""
    """The calling inner agent; "" for the main agent and for older releases."""

    @property
    def operation(self) -> str:
        """The operation key of this call, unique for session and call. The ledger finds the action by this key."""
        session = self.session.replace("%", "%25").replace("/", "%2F")
        return f"{session}/{self.call}"


@dataclass(frozen=True, slots=True)
class Stopping:
    """An agent or inner agent is about to end its turn.

    Attributes:
        again: A hook has already kept this turn from ending.
        busy: Background agents or commands still run, and may be calling a tool.
        quiet: The agent reports no background work. Older agents report neither `busy` nor `quiet`.
    """

    event: str
    session: str
    again: bool
    busy: bool = False
    quiet: bool = False
    agent: str = ""
    """The ending inner agent."""


def read_call(content: bytes, hook: str) -> ToolCall:
    """Parse the input of `readback hook pre` or `post`. Raises HookInputError."""
    said, event = _read(content, hook)
    tool_input = said.get("tool_input")
    if not isinstance(tool_input, dict):
        raise HookInputError("`tool_input` is missing or not an object.")
    call = ToolCall(
        event,
        _name(said, "session_id", _SESSION_MAX_BYTES),
        _name(said, "tool_use_id", _CALL_MAX_BYTES),
        _name(said, "tool_name", ID_MAX_BYTES),
        tool_input,
        folder=_text(said, "cwd") if "cwd" in said else "",
        agent=_agent(said),
    )
    if event == PRE:
        return call
    if event == FAILURE:
        return replace(call, failed=_text(said, "error"), stopped=_flag(said, "is_interrupt"))
    if "tool_response" not in said:
        raise HookInputError("`tool_response` is missing.")
    answer = said["tool_response"]
    told = answer if isinstance(answer, dict) else {}
    running = tool_input.get("run_in_background") is True or bool(told.get("backgroundTaskId"))
    return replace(call, answer=answer, stopped=told.get("interrupted") is True, running=running)


def read_stop(content: bytes) -> Stopping:
    """Parse the input of `readback hook stop`. Raises HookInputError."""
    said, event = _read(content, "stop")
    session, again = _name(said, "session_id", _SESSION_MAX_BYTES), _flag(said, "stop_hook_active")
    tasks = said.get("background_tasks")
    busy = _busy(tasks)
    quiet = isinstance(tasks, list) and not busy
    return Stopping(event, session, again=again, busy=busy, quiet=quiet, agent=_agent(said))


def kept_on_before(content: bytes) -> bool:
    """Return whether a hook already kept this turn from ending, even if the rest of the input is unreadable."""
    return _KEPT_ON.search(content) is not None


def _busy(tasks: Json) -> bool:
    """Return whether background work may still run. Work without a reported end counts as running."""
    if not isinstance(tasks, list):
        return tasks is not None
    return any(not isinstance(task, dict) or task.get("status") not in _RUNS_NO_MORE for task in tasks)


def _read(content: bytes, hook: str) -> tuple[dict[str, Json], str]:
    if len(content) > INPUT_MAX_BYTES:
        raise HookInputError(f"The input is over {INPUT_MAX_BYTES} bytes.")
    try:
        said = _parsed(content, hook)
    except ReadbackError as error:
        raise HookInputError(f"The input is not valid JSON: {why_not_json(error)}") from error
    if not isinstance(said, dict):
        raise HookInputError("The input is not a JSON object.")
    event = said.get("hook_event_name")
    if event not in EVENTS[hook]:
        wanted = " or ".join(EVENTS[hook])
        raise HookInputError(f"The event is {str(event)!r:.60}, and `readback hook {hook}` is for {wanted}.")
    return said, str(event)


def _parsed(content: bytes, hook: str) -> Json:
    """Parse the input. After a tool, and at the end of a turn, unpaired surrogates become U+FFFD.

    Agents truncate outputs inside a character. Before a tool nothing is replaced: the tool would receive these very
    arguments.
    """
    try:
        return parse_json(content, bytes_max=INPUT_MAX_BYTES)
    except MalformedJsonError:
        if hook == "pre":
            raise
        mended = _ESCAPES.sub(lambda found: b"\\ufffd" if found["half"] else found[0], content)
        return parse_json(mended, bytes_max=INPUT_MAX_BYTES)


def _name(said: Mapping[str, Json], key: str, most: int) -> str:
    found = said.get(key)
    if not isinstance(found, str) or not found.strip() or not found.isascii() or not found.isprintable():
        raise HookInputError(f"`{key}` is missing or not plain text.")
    if len(found) > most:
        raise HookInputError(f"`{key}` is over {most} characters.")
    return found


def _agent(said: Mapping[str, Json]) -> str:
    return "" if said.get("agent_id") is None else _name(said, "agent_id", ID_MAX_BYTES // 2)


def _text(said: Mapping[str, Json], key: str) -> str:
    found = said.get(key)
    if not isinstance(found, str):
        raise HookInputError(f"`{key}` is missing or not text.")
    return found


def _flag(said: Mapping[str, Json], key: str) -> bool:
    found = said.get(key, False)
    if not isinstance(found, bool):
        raise HookInputError(f"`{key}` is neither true nor false.")
    return found


# --- answers ---------------------------------------------------------------------------------------------------------

Answer = dict[str, Json]
"""One JSON object for stdout. The empty object leaves every decision to the agent's own rules."""


def go_ahead() -> Answer:
    """Raise no objection. This grants no permission: the agent's own rules still decide."""
    return {}


def denied(reason: str) -> Answer:
    """Deny the tool call and give the model the reason."""
    return {
        "hookSpecificOutput": {
            "hookEventName": PRE,
            "permissionDecision": "deny",
            "permissionDecisionReason": _bounded(reason),
        }
    }


def told(event: str, text: str) -> Answer:
    """Add the text to the model's context, beside the tool's answer."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": _bounded(text)}}


def contradicted(event: str, text: str) -> Answer:
    """Stop the model: the tool ran, and its report is not verified. After a failed tool the text is context only."""
    if event == FAILURE:
        return told(event, text)
    return {"decision": "block", "reason": _bounded(text), **told(event, text)}


def kept_on(reason: str) -> Answer:
    """Keep the turn from ending."""
    return {"decision": "block", "reason": _bounded(reason)}


def shown(text: str) -> Answer:
    """Show the text to the user and let the turn end."""
    return {"systemMessage": _bounded(text)}


def _bounded(text: str) -> str:
    return text if len(text) <= TEXT_MAX_CHARACTERS else text[: TEXT_MAX_CHARACTERS - 1] + "…"
