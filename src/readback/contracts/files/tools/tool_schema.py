"""Checks a value against the JSON Schema of a server's tool, as far as possible here; the server checks the rest.

Called for each call of a tool. A reported fault is certain; an unknown keyword passes, and `left_to_server` lists such
keywords when the contract is loaded. Patterns are left to the server: the server wrote them, and a malicious pattern
runs forever. Deep recursion in a schema is left to the server beyond a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from readback.canon import (
    ExactNumber,
    Json,
    JsonNumber,
    UnsupportedValueError,
    ValueTooLargeError,
    decimal_of,
    json_value,
    payload_bytes,
    same_number,
    sha256_hex,
)
from readback.contracts.functions.arguments import ArgumentSchema, Bound, Parameter
from readback.contracts.problems import did_you_mean
from readback.domain.saga.fold import Reference
from readback.errors import ArgumentError, OversizeError

DEPTH_MAX: Final = 64
FAULTS_MAX: Final = 50
LOOKS_MAX: Final = 100_000
"""The limit of comparisons between a value's part and a schema's part."""
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
"""A place, and the fault there."""


def unfit(schema: Mapping[str, Any], value: Json) -> list[Found]:
    """Return the certain faults of a value; empty for none."""
    found: list[Found] = []
    for each in _Check(schema).faults(schema, value, "", 0):
        found.append(each)
        if len(found) >= FAULTS_MAX:
            break
    return found


def left_to_server(schema: object, path: str = "", depth: int = 0) -> Iterator[str]:
    """Return the schema's keywords checked only by the server, each with its place."""
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
            yield path, "The argument is not accepted."
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
            yield path, "Not one of the allowed values."
        if "const" in schema and not same(schema["const"], value):
            yield path, "Not the only allowed value."
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
                yield path, "The value fits none of the allowed forms."

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
    """Return whether values are equal as JSON: true is not 1, and 1 is 1.0."""
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


# The arguments of a server's tool: checked by the server's own schema as far as that can be, and left as they came.

_ANY: Final[Mapping[str, Any]] = {"type": "object"}
_HASH: Final = sha256_hex(payload_bytes(dict(_ANY)))
"""One hash for all: a server's argument descriptions are no part of a contract; `tool_sha256` pins them."""


class ToolArguments(ArgumentSchema):
    """An `ArgumentSchema` of a tool. `open`: names outside the schema are accepted too."""

    __slots__ = ("_given", "left", "open")

    def __init__(self, schema: Mapping[str, Any], names: Iterable[str] = ()) -> None:
        """`names`: arguments known by use alone, without a schema."""
        found = schema.get("properties")
        properties = found if isinstance(found, Mapping) else {}
        required = schema.get("required")
        needed = {each for each in required if isinstance(each, str)} if isinstance(required, list) else set()
        every = dict.fromkeys([*map(str, properties), *names])
        super().__init__(Parameter(name, Any, *(() if name in needed else (None,))) for name in every)
        self._given = schema
        self.open = schema.get("additionalProperties") is not False or "patternProperties" in schema
        self.left = tuple(left_to_server(schema))
        """Keywords checked by the server alone."""
        used: dict[str, Json] = {"type": "object", "properties": {name: {} for name in every}}
        self.schema = dict(schema) or used
        self.schema_hash = _HASH

    @classmethod
    def unknown(cls, names: Iterable[str]) -> ToolArguments:
        """Return the arguments of a tool with a schema known to its server only."""
        return cls({}, sorted(names))

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Bound:
        """Check as far as possible, and take a snapshot. Raises ArgumentError, OversizeError."""
        if args:
            raise _unfit([("", "Pass a tool's arguments by name.")])
        references = {name: value for name, value in kwargs.items() if isinstance(value, Reference)}
        try:
            given = json_value({name: value for name, value in kwargs.items() if name not in references})
            payload_bytes(given)
        except ValueTooLargeError as error:
            raise OversizeError(f"The arguments are too large. {error.message}", details=error.details) from error
        except UnsupportedValueError as error:
            raise _unfit([(str(error.details.get("path", "$")).removeprefix("$."), error.message)]) from error
        assert isinstance(given, dict)
        faults = [each for each in unfit(self._given, given) if each != _missing(each[0]) or each[0] not in references]
        if faults:
            raise _unfit([(where, self._near(where, said)) for where, said in faults])
        return Bound({**_copied(given), **references}, given)

    def revive(self, requested: Mapping[str, Json]) -> dict[str, object]:
        """Return recorded arguments unchanged. Raises ArgumentError where the tool no longer accepts them."""
        faults = unfit(self._given, dict(requested))
        if faults:
            raise _unfit(faults)
        return _copied(dict(requested))

    def _near(self, where: str, said: str) -> str:
        return said + did_you_mean(where, self.names) if said == "There is no such argument." else said


def _missing(name: str) -> tuple[str, str]:
    return name, "It is missing."


def _copied(given: dict[str, Json]) -> dict[str, object]:
    copy = json_value(given)
    assert isinstance(copy, dict)
    return dict(copy)


def _unfit(faults: list[tuple[str, str]]) -> ArgumentError:
    said = "; ".join(f"{where}: {reason}" if where else reason for where, reason in faults)
    problems = [{"argument": where, "reason": reason} for where, reason in faults]
    return ArgumentError(f"The arguments do not fit. {said}", details={"problems": problems})
