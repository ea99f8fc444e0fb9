"""Sample values for a JSON Schema, without meaning in any real system, to test a contract without calls.

Called by `tool_check` when a contract is loaded beside a server's tools, and by probes of readers with a missing
target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from readback.canon import Json

MADE_UP: Final = "readback-check-7f3a9c41"
MADE_UP_NUMBER: Final = 2_147_480_711
DEPTH_MAX: Final = 8
VALUES_MAX: Final = 2_000
_MADE_UP: Final[Mapping[str, Json]] = {
    "string": MADE_UP,
    "integer": MADE_UP_NUMBER,
    "number": MADE_UP_NUMBER,
    "boolean": False,
    "array": [],
    "object": {},
    "null": None,
}


def made_up(schema: Mapping[str, Any]) -> dict[str, Json]:
    """Return sample arguments of the right types."""
    found = _Making(schema).value(schema, 0)
    return found if isinstance(found, dict) else {}


class _Making:
    """Makes values by one schema with references. Recursion is limited."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = VALUES_MAX

    def value(self, shape: object, depth: int) -> Json:
        self._left -= 1
        shape = referred(shape, self._root)
        if not isinstance(shape, Mapping) or depth > DEPTH_MAX or self._left < 0:
            return MADE_UP
        for key in ("anyOf", "oneOf"):
            options = shape.get(key)
            if isinstance(options, list) and options:
                return self.value(options[0], depth + 1)
        constants = shape.get("enum", [shape["const"]] if "const" in shape else None)
        if isinstance(constants, list) and constants:
            first: Json = constants[0]
            return first
        properties = shape.get("properties")
        kind = _kind(shape, "object" if isinstance(properties, Mapping) else "string")
        if kind == "object" and isinstance(properties, Mapping):
            return {str(name): self.value(each, depth + 1) for name, each in properties.items()}
        length = shape.get("maxLength")
        made = _MADE_UP[kind]
        return made[:length] if isinstance(made, str) and isinstance(length, int) else made


def referred(shape: object, root: Mapping[str, Any]) -> object:
    """Return the target of a reference within the schema; the shape itself without a reference."""
    for _ in range(DEPTH_MAX):
        reference = shape.get("$ref") if isinstance(shape, Mapping) else None
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return shape
        shape = root
        if reference == "#":
            continue
        for step in reference[2:].split("/"):
            shape = shape.get(step) if isinstance(shape, Mapping) else None
    return None


def _kind(shape: Mapping[str, Any], otherwise: str) -> str:
    kinds = shape.get("type", otherwise)
    several = kinds if isinstance(kinds, list) else [kinds]
    return next((each for each in _MADE_UP if each in several), "string")
