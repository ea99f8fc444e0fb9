"""Tools as servers describe them, for drafts; and a person who takes every proposal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ANSWERS = {"error_matches": "There is no *", "root": ".", "kind": "set"}
"""What this person writes where nothing is proposed; elsewhere he does not know either."""
_MARKED = re.compile(r'^(?P<head>\s*(?:- )?(?P<key>"[^"]*"|[\w. -]+): )(?P<quote>"?)DECIDE(?: (?P<proposal>.*))?$')


def tool(
    name: str,
    takes: Mapping[str, object] | None = None,
    *,
    optional: tuple[str, ...] = (),
    gives: Mapping[str, object] | None = None,
    said: str = "",
    **hints: object,
) -> dict[str, Any]:
    """One tool, as `tools/list` has it. Types by name; a mapping is a schema of its own."""
    shapes = {key: {"type": kind} if isinstance(kind, str) else kind for key, kind in (takes or {}).items()}
    made: dict[str, Any] = {
        "name": name,
        "inputSchema": {
            "type": "object",
            "properties": shapes,
            "required": [key for key in shapes if key not in optional],
        },
    }
    if gives is not None:
        fields = {key: {"type": kind} if isinstance(kind, str) else kind for key, kind in gives.items()}
        made["outputSchema"] = {"type": "object", "properties": fields}
    if said:
        made["description"] = said
    if hints:
        made["annotations"] = {f"{key}Hint": value for key, value in hints.items()}
    return made


def taken(text: str) -> str:
    """The draft with each proposal taken, and the answers above where there is none. His clients name operations."""
    return "\n".join(_taken(line) for line in text.split("\n") if line.strip() != "operation: DECIDE")


def _taken(line: str) -> str:
    found = _MARKED.match(line)
    if found is None:
        return line
    if found["proposal"]:
        return f"{found['head']}{found['quote']}{found['proposal']}"
    answer = ANSWERS.get(found["key"])
    return line if answer is None else f"{found['head']}{answer}"
