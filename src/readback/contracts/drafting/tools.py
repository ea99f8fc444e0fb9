"""Tools as their server describes them, reduced to what a draft may go by. Everything in them is somebody else's word.

Called by `draft`. What is no tool, or names nothing that a contract could name, is left out here and counted there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from readback.canon import CanonError, Json
from readback.canon.frozen import dataclass
from readback.contracts.files.tools.listing import fingerprint

NAME_MAX_CHARS: Final = 128
ARGUMENTS_MAX: Final = 64
FIELDS_MAX: Final = 200
SAID_MAX_CHARS: Final = 2_000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TOKEN: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that an expression can name. `kind`: its JSON type; "" where it has several, or none is said."""

    name: str
    kind: str
    required: bool
    null_by_default: bool = False
    """Null is what it is where it is not given, so that a client may as well send that."""

    @property
    def names_something(self) -> bool:
        """Whether its value could stand in a target."""
        return self.kind in ("string", "integer", "")


@dataclass(frozen=True, slots=True)
class Hints:
    """What the server says of a tool's effect; None where it says nothing."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `fields`: of its output, by dotted path, with their types; empty where it has no output schema."""

    name: str
    arguments: tuple[Argument, ...]
    unnamed: int
    fields: Mapping[str, str]
    hints: Hints
    said: str
    sha256: str = ""
    """Its fingerprint; "" where it is too large to have one."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its name, in small letters: `createPull_request` is create, pull, request."""
        return tuple(found.lower() for found in _TOKEN.findall(self.name))

    def argument(self, name: str) -> Argument | None:
        return next((each for each in self.arguments if each.name == name), None)

    @property
    def required(self) -> tuple[Argument, ...]:
        return tuple(each for each in self.arguments if each.required)


def tool_of(raw: object) -> Tool | None:
    """The tool; None for what has no name that could be called."""
    if not isinstance(raw, Mapping):
        return None
    name = raw.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_MAX_CHARS or not name.isprintable():
        return None
    arguments, unnamed = _arguments(raw.get("inputSchema"))
    said = raw.get("description")
    return Tool(
        name,
        arguments,
        unnamed,
        _fields(raw.get("outputSchema")),
        _hints(raw.get("annotations")),
        said[:SAID_MAX_CHARS] if isinstance(said, str) else "",
        _fingerprint(raw),
    )


def _fingerprint(raw: Mapping[str, Any]) -> str:
    try:
        return fingerprint(raw)
    except CanonError:
        return ""


def _arguments(schema: object) -> tuple[tuple[Argument, ...], int]:
    """Those that an expression can name, and how many there are beside them."""
    properties = _properties(schema)
    required = schema.get("required") if isinstance(schema, Mapping) else None
    named = {each for each in required if isinstance(each, str)} if isinstance(required, list) else set()
    found = [
        Argument(name, _kind(shape), name in named, isinstance(shape, Mapping) and shape.get("default", "") is None)
        for name, shape in properties.items()
        if _NAME.fullmatch(name)
    ][:ARGUMENTS_MAX]
    return tuple(found), len(properties) - len(found)


def _fields(schema: object) -> dict[str, str]:
    """The output's fields, two deep."""
    found: dict[str, str] = {}
    for name, shape in _properties(schema).items():
        if _NAME.fullmatch(name) is None:
            continue
        found[name] = _kind(shape)
        for inner, below in _properties(_resolved(shape, schema)).items():
            if _NAME.fullmatch(inner):
                found[f"{name}.{inner}"] = _kind(below)
        if len(found) > FIELDS_MAX:
            break
    return found


def _resolved(shape: object, root: object) -> object:
    """What a reference within the schema leads to; one step, and only to where schemas keep such."""
    named = shape.get("$ref") if isinstance(shape, Mapping) else None
    if not isinstance(named, str) or not named.startswith("#/$defs/") or not isinstance(root, Mapping):
        return shape
    known = root.get("$defs")
    return known.get(named.removeprefix("#/$defs/")) if isinstance(known, Mapping) else None


def _properties(schema: object) -> Mapping[str, Json]:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _kind(shape: object) -> str:
    """The one type of a schema, with null beside it or not."""
    if not isinstance(shape, Mapping):
        return ""
    named = shape.get("type")
    choices = shape.get("anyOf")
    if named is None and isinstance(choices, list):
        named = [each.get("type") for each in choices if isinstance(each, Mapping)]
    kinds = [each for each in (named if isinstance(named, list) else [named]) if each != "null"]
    kind = kinds[0] if len(kinds) == 1 else ""
    return kind if isinstance(kind, str) and kind in _SCALARS | {"array", "object"} else ""


def _hints(raw: object) -> Hints:
    found = raw if isinstance(raw, Mapping) else {}

    def flag(name: str) -> bool | None:
        value = found.get(name)
        return value if isinstance(value, bool) else None

    return Hints(flag("readOnlyHint"), flag("destructiveHint"), flag("idempotentHint"), flag("openWorldHint"))
