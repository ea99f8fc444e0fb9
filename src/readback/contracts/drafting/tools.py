"""Tools as described by their server, reduced to the parts used by a draft. All of it is third-party text.

Called by `draft`. An invalid tool, or an unusable name, is left out here and counted there.
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
    """An argument nameable in an expression. `kind`: the JSON type; "" for several or an unknown type."""

    name: str
    kind: str
    required: bool
    null_by_default: bool = False
    """The default is null, so a client may also send null."""

    @property
    def names_something(self) -> bool:
        """Whether the value could stand in a target."""
        return self.kind in ("string", "integer", "")


@dataclass(frozen=True, slots=True)
class Hints:
    """The server's hints about a tool's effect; None for a missing hint."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `fields`: the output's fields by dotted path, with types; empty without an output schema."""

    name: str
    arguments: tuple[Argument, ...]
    unnamed: int
    fields: Mapping[str, str]
    hints: Hints
    said: str
    sha256: str = ""
    """The tool's fingerprint; "" for a definition over the size limit."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the name, in small letters: `createPull_request` is create, pull, request."""
        return tuple(found.lower() for found in _TOKEN.findall(self.name))

    def argument(self, name: str) -> Argument | None:
        return next((each for each in self.arguments if each.name == name), None)

    @property
    def required(self) -> tuple[Argument, ...]:
        return tuple(each for each in self.arguments if each.required)


def tool_of(raw: object) -> Tool | None:
    """Return the tool; None for a definition without a callable name."""
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
    """Return the arguments nameable in an expression, and the number of the others."""
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
    """Return the output's fields, two levels deep."""
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
    """Resolve a reference within the schema: one step, and only to the usual places."""
    named = shape.get("$ref") if isinstance(shape, Mapping) else None
    if not isinstance(named, str) or not named.startswith("#/$defs/") or not isinstance(root, Mapping):
        return shape
    known = root.get("$defs")
    return known.get(named.removeprefix("#/$defs/")) if isinstance(known, Mapping) else None


def _properties(schema: object) -> Mapping[str, Json]:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _kind(shape: object) -> str:
    """Return the single type of a schema, with or without null."""
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
