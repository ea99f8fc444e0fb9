"""A value against the JSON Schema of a server's tool, as far as it can be checked here; the server checks the rest.

Called for each call of a tool. What it finds is certainly wrong; what it does not know it lets through, and
`left_to_server` counts it when the contract is loaded. Patterns are left to the server: they are its own, and one
written with ill will takes for ever; of a schema that leads to itself many times, so is what goes beyond a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from readback.canon import ExactNumber, Json, JsonNumber, decimal_of, same_number

DEPTH_MAX: Final = 64
FAULTS_MAX: Final = 50
LOOKS_MAX: Final = 100_000
"""How often a value, or a part of it, is held against a schema, or a part of that."""
_SAID_ONLY: Final = frozenset(
    {
        "$schema", "$id", "$comment", "$defs", "$anchor", "definitions", "title", "description", "default", "examples",
        "deprecated", "readOnly", "writeOnly",
    }
)  # fmt: skip
_CHECKED: Final = frozenset(
    {
        "type", "enum", "const", "properties", "required", "additionalProperties", "items", "anyOf", "oneOf", "allOf",
        "$ref", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems",
        "maxItems", "minProperties", "maxProperties",
    }
)  # fmt: skip
_INSIDE: Final = ("items", "additionalProperties")
_MAPS: Final = ("properties", "$defs", "definitions")
_LISTS: Final = ("anyOf", "oneOf", "allOf")
Found = tuple[str, str]
"""Where, and what is wrong there."""


def unfit(schema: Mapping[str, Any], value: Json) -> list[Found]:
    """What is certainly wrong with a value; empty where nothing is."""
    found: list[Found] = []
    for each in _Check(schema).faults(schema, value, "", 0):
        found.append(each)
        if len(found) >= FAULTS_MAX:
            break
    return found


def left_to_server(schema: object, path: str = "", depth: int = 0) -> Iterator[str]:
    """The keywords of a schema that nobody checks before the server does, each with where it stands."""
    if not isinstance(schema, Mapping) or depth > DEPTH_MAX:
        return
    for key, inner in schema.items():
        where = f"{path}.{key}" if path else str(key)
        if key in _MAPS and isinstance(inner, Mapping):
            for name, each in inner.items():
                yield from left_to_server(each, f"{where}.{name}", depth + 1)
        elif key in _LISTS and isinstance(inner, list):
            for number, each in enumerate(inner):
                yield from left_to_server(each, f"{where}[{number}]", depth + 1)
        elif key in _INSIDE:
            yield from left_to_server(inner, where, depth + 1)
        elif key not in _CHECKED | _SAID_ONLY:
            yield where


class _Check:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._looks = 0

    def faults(self, schema: object, value: Json, path: str, depth: int) -> Iterator[Found]:
        if schema is False:
            yield path, "It is not taken."
        self._looks += 1
        if not isinstance(schema, Mapping) or depth > DEPTH_MAX or self._looks > LOOKS_MAX:
            return
        if "$ref" in schema:
            yield from self.faults(self._referred(schema["$ref"]), value, path, depth + 1)
        if not _of_type(schema.get("type"), value):
            kinds = schema["type"]
            wanted = " or ".join(map(str, kinds)) if isinstance(kinds, list) else kinds
            yield path, f"It takes {wanted}, and is given {_kind(value)}."
            return
        enum = schema.get("enum")
        if isinstance(enum, list) and not any(same(each, value) for each in enum):
            yield path, "It is none of the values that it takes."
        if "const" in schema and not same(schema["const"], value):
            yield path, "It is not the one value that it takes."
        yield from _bounds(schema, value, path)
        yield from self._combined(schema, value, path, depth)
        if isinstance(value, dict):
            yield from self._object(schema, value, path, depth)
        elif isinstance(value, list) and "items" in schema:
            for number, each in enumerate(value):
                yield from self.faults(schema["items"], each, f"{path}[{number}]", depth + 1)

    def _combined(self, schema: Mapping[str, Any], value: Json, path: str, depth: int) -> Iterator[Found]:
        for each in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
            yield from self.faults(each, value, path, depth + 1)
        for word in ("anyOf", "oneOf"):
            options = schema.get(word)
            if not isinstance(options, list) or not options:
                continue
            if all(next(self.faults(each, value, path, depth + 1), None) is not None for each in options):
                yield path, "It fits none of the forms that it takes."

    def _object(self, schema: Mapping[str, Any], value: dict[str, Json], path: str, depth: int) -> Iterator[Found]:
        required, properties = schema.get("required"), schema.get("properties")
        known = properties if isinstance(properties, Mapping) else {}
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in value:
                yield _joined(path, name), "It is missing."
        more = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        for name, each in value.items():
            inner = known.get(name, more)
            if inner is False:
                yield _joined(path, name), "There is no such argument."
            else:
                yield from self.faults(inner, each, _joined(path, name), depth + 1)

    def _referred(self, reference: object) -> object:
        here: object = self._root
        if reference == "#":
            return here
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return True  # what it leads to only the server knows
        for step in reference[2:].split("/"):
            here = here.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(here, Mapping) else None
        return True if here is None else here


def _bounds(schema: Mapping[str, Any], value: Json, path: str) -> Iterator[Found]:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float | ExactNumber):
        sized, least, most = value, "minimum", "maximum"
    elif isinstance(value, str):
        sized, least, most = len(value), "minLength", "maxLength"
    elif isinstance(value, list):
        sized, least, most = len(value), "minItems", "maxItems"
    elif isinstance(value, dict):
        sized, least, most = len(value), "minProperties", "maxProperties"
    else:
        return
    schema = {key: decimal_of(part) for key, part in schema.items() if _number(part)}
    size = decimal_of(sized)
    if least in schema and size < schema[least]:
        yield path, f"It is below {least} {schema[least]}."
    if most in schema and size > schema[most]:
        yield path, f"It is over {most} {schema[most]}."
    if least == "minimum":
        if "exclusiveMinimum" in schema and size <= schema["exclusiveMinimum"]:
            yield path, f"It is not over {schema['exclusiveMinimum']}."
        if "exclusiveMaximum" in schema and size >= schema["exclusiveMaximum"]:
            yield path, f"It is not below {schema['exclusiveMaximum']}."


def _number(value: object) -> bool:
    return isinstance(value, int | float | ExactNumber) and not isinstance(value, bool)


def _of_type(kinds: object, value: Json) -> bool:
    if kinds is None:
        return True
    named = kinds if isinstance(kinds, list) else [kinds]
    return any(each not in _TYPES or _TYPES[each](value) for each in named if isinstance(each, str)) or not named


_TYPES: Final[Mapping[str, Any]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": _number,
    "integer": lambda value: _number(value) and value == int(value),
}


def _kind(value: Json) -> str:
    return next((name for name, fits in _TYPES.items() if name != "number" and fits(value)), "number")


def same(one: object, other: object) -> bool:
    """Equal as JSON: true is not 1, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if _number(one) and _number(other):
        return same_number(cast("JsonNumber", one), cast("JsonNumber", other))
    return type(one) is type(other) and one == other


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
