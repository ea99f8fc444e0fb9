"""Tool and hook files of delegating agents: Markdown with YAML at its head. Read and described; no script runs.

Used by `readback import`. Unknown keys and events are refused, because a misspelt hook would never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from readback.canon import Json, sha256_hex
from readback.contracts.problems import did_you_mean
from readback.decisions.contracts.document import Finding, read_text
from readback.decisions.contracts.shapes import Fault, Fields, Flag, Mapped, Shape, Text, Whole
from readback.decisions.interop.imported import Imported, Statement, refuse_any

EVENTS: Final = (
    "session.start",
    "session.end",
    "turn.start",
    "turn.end",
    "agent.stop",
    "tool.pre",
    "tool.post",
    "completion.pre",
    "completion.post",
    "delegation.pre",
    "delegation.post",
    "delegation.post_verify",
    "error",
)
OPEN_EVENTS: Final = ("custom.", "meta.")
_FENCE: Final = re.compile(rb"\A\xef?\xbb?\xbf?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)

_TOOL: Final = Fields(
    {
        "name": Text(least=1),
        "description": Text(),
        "parameters": Mapped(
            Fields({"type": Text(least=1), "required": Flag(), "description": Text()}, ("type",), open=True)
        ),
        "script": Text(least=1),
        "verify": Text(least=1),
        "timeout_ms": Whole(1),
        "async": Flag(),
    },
    ("script",),
)
_HOOK: Final[dict[str, Shape]] = {"event": Text(least=1), "script": Text(least=1), "when": Text(least=1)}
_PRIORITY_MAX: Final = 1_000_000


def import_tool(content: bytes, name: str) -> Imported:
    """Read a tool with its script and its optional verifying script. Raises ForeignFileError."""
    value = _head(content, name, "tool file")
    parameters: dict[str, Any] = value.get("parameters", {})
    facts: dict[str, Json] = {
        "parameters": {key: str(each["type"]) for key, each in parameters.items()},
        "required": [key for key, each in parameters.items() if each.get("required") is True],
        "script": _digest(value.get("script")),
        "verify": _digest(value.get("verify")),
        "timeout_ms": value.get("timeout_ms"),
    }
    notes = ["The scripts are read and not run. An operator must make a contract of them."]
    if "verify" not in value:
        notes.append("The delegation has no `verify`: the other system accepts every answer.")
    statement = Statement("tool", "verified by its script" if "verify" in value else "not verified", {})
    return Imported("tool", sha256_hex(content), (statement,), facts, notes=tuple(notes))


def import_hook(content: bytes, name: str) -> Imported:
    """Read a hook: event, order and condition. Raises ForeignFileError."""
    value = _head(content, name, "hook file")
    event = str(value["event"])
    facts: dict[str, Json] = {
        "event": event,
        "priority": value.get("priority", 0),
        "when": value.get("when", ""),
        "script": _digest(value.get("script")),
        "verifies": event == "delegation.post_verify",
    }
    notes = ("The script is read and not run. The script's answer is unknown.",)
    if "script" not in value:
        notes = ("The hook has no script, so the hook decides nothing.",)
    return Imported("hook", sha256_hex(content), (), facts, notes=notes)


def _head(content: bytes, name: str, what: str) -> dict[str, Any]:
    found = _FENCE.match(content)
    if found is None:
        refuse_any([Finding("", "The file does not begin with a head between two lines of '---'.")], what, name)
        raise AssertionError("refused above")
    document = read_text(found[1], f"{name}.yaml")
    findings = [*document.findings]
    if document.value is not None or not findings:
        faults = _TOOL.faults(document.value, "") if what == "tool file" else _hook_faults(document.value)
        findings += [document.at(path, said) for path, said in faults]
    down = content[: found.start(1)].count(b"\n")
    moved = [Finding(f.path, f.said, f.place._replace(line=f.place.line + down) if f.place else None) for f in findings]
    refuse_any(moved, what, name)
    assert isinstance(document.value, dict)
    return document.value


def _hook_faults(value: Json) -> Iterator[Fault]:
    yield from Fields({**_HOOK, "priority": _Any()}, ("event",)).faults(value, "")
    if not isinstance(value, dict):
        return
    event, priority = value.get("event"), value.get("priority", 0)
    if isinstance(event, str) and event and event not in EVENTS and not _is_open(event):
        yield "event", f"There is no event {event!r:.60}.{did_you_mean(event, EVENTS)}"
    if type(priority) is not int or abs(priority) > _PRIORITY_MAX:
        yield "priority", f"It is a whole number, at most {_PRIORITY_MAX} either way."


def _is_open(event: str) -> bool:
    return any(event.startswith(each) and len(event) > len(each) for each in OPEN_EVENTS)


class _Any:
    """A shape without a check here. Another check follows."""

    def faults(self, value: Json, path: str) -> Iterator[Fault]:
        yield from ()


def _digest(script: object) -> Json:
    return sha256_hex(script.encode()) if isinstance(script, str) else None
