"""What a coding agent says to a hook, and what it is answered: JSON on stdin and stdout, as Claude Code documents it.

Reading is strict, since a hook that misunderstands lets a tool through: whatever is missing or of another kind raises
HookInputError. Keys that nobody here knows are left alone; agents add some with every release.
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
"""Of what an agent says: a tool's answer may hold a whole file twice."""
TEXT_MAX_CHARACTERS: Final = 8_000
"""Of what an agent is told: it cuts at ten thousand."""
PRE: Final = "PreToolUse"
POST: Final = "PostToolUse"
FAILURE: Final = "PostToolUseFailure"
STOP: Final = "Stop"
SUBAGENT_STOP: Final = "SubagentStop"
EVENTS: Final[Mapping[str, tuple[str, ...]]] = {"pre": (PRE,), "post": (POST, FAILURE), "stop": (STOP, SUBAGENT_STOP)}
"""The events that each of our hooks is for."""
_SESSION_MAX_BYTES: Final = ID_MAX_BYTES // 2
_CALL_MAX_BYTES: Final = ID_MAX_BYTES // 2 - 1
_ESCAPES: Final = re.compile(rb"\\(?:u[dD][89abAB].{2}\\u[dD][c-fC-F].{2}|(?P<half>u[dD][89a-fA-F].{2})|.)", re.DOTALL)
"""The escapes of a JSON text: whole characters of two halves, a half without its other one, and all else."""
_KEPT_ON: Final = re.compile(rb'(?<!\\)"stop_hook_active"\s*:\s*true\b')
_RUNS_NO_MORE: Final = frozenset({"completed", "failed", "killed", "stopped", "cancelled"})


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool's call, before it (`PreToolUse`) or after it. `answer`: what the tool gave back; `failed`: the agent's
    words where it failed; `stopped`: somebody interrupted it; `running`: it goes on in the background, and what came
    back says only that it began.
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
    """The agent within that makes the call; "" for the outer one, and where an older release does not say."""

    @property
    def operation(self) -> str:
        """The name of this intent, by which its action is found again; no other session and call have the same."""
        session = self.session.replace("%", "%25").replace("/", "%2F")
        return f"{session}/{self.call}"


@dataclass(frozen=True, slots=True)
class Stopping:
    """The agent, or one that it has started, is about to end its turn. `again`: a hook has kept it from that before.

    `busy`: agents or commands that it has started go on in the background, and may be at a call. `quiet`: it says that
    nothing does; older agents say neither.
    """

    event: str
    session: str
    again: bool
    busy: bool = False
    quiet: bool = False
    agent: str = ""
    """The agent within that ends."""


def read_call(content: bytes, hook: str) -> ToolCall:
    """What `readback hook pre` or `post` is told. Raises HookInputError."""
    said, event = _read(content, hook)
    tool_input = said.get("tool_input")
    if not isinstance(tool_input, dict):
        raise HookInputError("`tool_input` is no object, or is missing.")
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
    """What `readback hook stop` is told. Raises HookInputError."""
    said, event = _read(content, "stop")
    session, again = _name(said, "session_id", _SESSION_MAX_BYTES), _flag(said, "stop_hook_active")
    tasks = said.get("background_tasks")
    busy = _busy(tasks)
    quiet = isinstance(tasks, list) and not busy
    return Stopping(event, session, again=again, busy=busy, quiet=quiet, agent=_agent(said))


def kept_on_before(content: bytes) -> bool:
    """Whether this is the end of a turn that a hook has kept on before, also where nothing else of it can be read."""
    return _KEPT_ON.search(content) is not None


def _busy(tasks: Json) -> bool:
    """Whether something goes on behind the turn. Older agents do not say; what is not said to have ended goes on."""
    if not isinstance(tasks, list):
        return tasks is not None
    return any(not isinstance(task, dict) or task.get("status") not in _RUNS_NO_MORE for task in tasks)


def _read(content: bytes, hook: str) -> tuple[dict[str, Json], str]:
    if len(content) > INPUT_MAX_BYTES:
        raise HookInputError(f"The input is over {INPUT_MAX_BYTES} bytes.")
    try:
        said = _parsed(content, hook)
    except ReadbackError as error:
        raise HookInputError(f"The input is no JSON that can be taken: {why_not_json(error)}") from error
    if not isinstance(said, dict):
        raise HookInputError("The input is no JSON object.")
    event = said.get("hook_event_name")
    if event not in EVENTS[hook]:
        wanted = " or ".join(EVENTS[hook])
        raise HookInputError(f"The event is {str(event)!r:.60}, and `readback hook {hook}` is for {wanted}.")
    return said, str(event)


def _parsed(content: bytes, hook: str) -> Json:
    """After a tool, and at the end, with a sign for each half of a character: an agent cuts a tool's output, and its
    own, where it likes. Before a tool nothing is replaced, since that is what the tool would be called with.
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
        raise HookInputError(f"`{key}` is missing, or is no plain text.")
    if len(found) > most:
        raise HookInputError(f"`{key}` is over {most} characters.")
    return found


def _agent(said: Mapping[str, Json]) -> str:
    return "" if said.get("agent_id") is None else _name(said, "agent_id", ID_MAX_BYTES // 2)


def _text(said: Mapping[str, Json], key: str) -> str:
    found = said.get(key)
    if not isinstance(found, str):
        raise HookInputError(f"`{key}` is missing, or is no text.")
    return found


def _flag(said: Mapping[str, Json], key: str) -> bool:
    found = said.get(key, False)
    if not isinstance(found, bool):
        raise HookInputError(f"`{key}` is neither true nor false.")
    return found


# --- answers ---------------------------------------------------------------------------------------------------------

Answer = dict[str, Json]
"""One JSON object for stdout; the empty one says nothing, and leaves everything to the agent's own rules."""


def go_ahead() -> Answer:
    """Nothing stands against it. That is no permission: whether the tool may run stays with the agent's own rules."""
    return {}


def denied(reason: str) -> Answer:
    """The tool is not called, and the model is told why."""
    return {
        "hookSpecificOutput": {
            "hookEventName": PRE,
            "permissionDecision": "deny",
            "permissionDecisionReason": _bounded(reason),
        }
    }


def told(event: str, text: str) -> Answer:
    """The tool has run; this goes into the model's context beside its answer."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": _bounded(text)}}


def contradicted(event: str, text: str) -> Answer:
    """The tool has run, and what it says does not hold: the model is stopped over it. A failure is only told."""
    if event == FAILURE:
        return told(event, text)
    return {"decision": "block", "reason": _bounded(text), **told(event, text)}


def kept_on(reason: str) -> Answer:
    """The turn does not end yet."""
    return {"decision": "block", "reason": _bounded(reason)}


def shown(text: str) -> Answer:
    """The person is told, and the turn may end."""
    return {"systemMessage": _bounded(text)}


def _bounded(text: str) -> str:
    return text if len(text) <= TEXT_MAX_CHARACTERS else text[: TEXT_MAX_CHARACTERS - 1] + "…"
