"""Hooks of delegations in files: a head between two lines of `---` with event, priority, when and script.

Readback reads a file at the declaration of a delegation or in `readback delegate`. All faults of a file are reported at
once with their lines. An unknown key or event is a fault, since such a hook would never run. Reading executes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from readback.agent_errors import DelegationHookError
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.documents.own_files import content_of
from readback.contracts.problems import did_you_mean
from readback.decisions.contracts.document import read_text
from readback.decisions.contracts.shapes import Fault, Fields, Text
from readback.delegations.model.words import EVENTS, PRIORITY_MAX

FILE_MAX_BYTES: Final = 131_072
_HEAD: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


class _Priority:
    """A signed whole number."""

    def faults(self, value: Json, path: str) -> Iterator[Fault]:
        if type(value) is not int or abs(value) > PRIORITY_MAX:
            yield path, f"It is a whole number, at most {PRIORITY_MAX} either way."


_KEYS: Final = Fields(
    {"event": Text(least=1), "priority": _Priority(), "when": Text(least=1), "script": Text(least=1)},
    ("event", "script"),
)


@dataclass(frozen=True, slots=True)
class HookFile:
    """The content of a hook's file. `name` is the file's name without its ending."""

    name: str
    event: str
    script: str
    priority: int = 0
    when: str = ""


def read_hook_file(path: str | Path) -> HookFile:
    """Return the hook of a file. Raises DelegationHookError with every fault."""
    file = Path(path)
    try:
        content = content_of(file, FILE_MAX_BYTES, pipes=True)
    except OSError as error:
        raise DelegationHookError(f"The hook file {str(path)!r} cannot be read: {error.strerror}.") from error
    if len(content) > FILE_MAX_BYTES:
        raise DelegationHookError(f"The hook file {str(path)!r} is over {FILE_MAX_BYTES} bytes.")
    return parse_hook_file(content, file.stem)


def parse_hook_file(content: bytes, name: str) -> HookFile:
    """Return the hook in the bytes of a file. Raises DelegationHookError with every fault."""
    head = _HEAD.match(content)
    if head is None:
        raise DelegationHookError(f"The hook {name!r} does not begin with a head between two lines of '---'.")
    document = read_text(head[1], f"{name}.yaml")
    found = list(document.findings)
    value = document.value
    if not found:
        found = [document.at(where, said) for where, said in _KEYS.faults(value, "")]
        event = value.get("event") if isinstance(value, dict) else None
        if isinstance(event, str) and event and event not in EVENTS:
            said = f"Delegations have no event {event!r:.60}.{did_you_mean(event, EVENTS)}"
            found.append(document.at("event", said))
    if found or not isinstance(value, dict):
        problems = [
            {"key": each.path, "line": each.place.line + 1 if each.place else 1, "reason": each.said} for each in found
        ]
        listed = "; ".join(f"line {each['line']}: {each['key']}: {each['reason']}" for each in problems)
        raise DelegationHookError(f"The hook {name!r} cannot be used: {listed}", details={"problems": problems})
    priority = value.get("priority", 0)
    assert isinstance(priority, int)
    return HookFile(name, str(value["event"]), str(value["script"]), priority, str(value.get("when", "")))
