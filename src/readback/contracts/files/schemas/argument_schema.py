"""What may stand under `arguments`, as JSON Schema: made of the tables by which `shapes` reads it.

Called by `schema`, for editors. Whatever needs more than one schema at a time, such as whether a default fits its own,
is the checker's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from readback.contracts.files.schemas.json_schema import ARGUMENTS_MAX, BOUNDS, NAME, SAID_ONLY, TYPES

ARGUMENT: Final = "argument"
_SHAPE: Final[Mapping[str, Any]] = {"$ref": f"#/$defs/{ARGUMENT}"}
_NAMES: Final[Mapping[str, Any]] = {"pattern": f"^{NAME.pattern}$"}
_TYPE: Final[Mapping[str, Any]] = {"enum": [*TYPES]}
_CONSTANT: Final[Mapping[str, Any]] = {"type": ["string", "integer", "boolean", "null"]}
_ALTERNATIVES: Final[Mapping[str, Any]] = {"type": "array", "items": _SHAPE, "minItems": 1}
_SAID: Final[Mapping[str, Any]] = dict.fromkeys(sorted(SAID_ONLY), True)
_REQUIRED: Final[Mapping[str, Any]] = {"type": "array", "items": {"type": "string"}}


def arguments_schema() -> dict[str, Any]:
    """JSON Schema of an object, or names with types: told apart as the checker does."""
    whole = {
        **_SAID,
        "type": {"const": "object"},
        "properties": {**_each(_SHAPE), "maxProperties": ARGUMENTS_MAX},
        "required": _REQUIRED,
        "additionalProperties": {"enum": [False, None]},
        "$defs": True,
    }
    is_whole = [{"required": ["properties"]}, {"properties": {"type": {"const": "object"}}, "required": ["type"]}]
    return {
        "type": "object",
        "if": {"anyOf": is_whole},
        "then": {"properties": whole, "additionalProperties": False},
        "else": {**_each({"anyOf": [_TYPE, _SHAPE]}), "maxProperties": ARGUMENTS_MAX},
    }


def argument_schema() -> dict[str, Any]:
    """One argument, or a part of one: a schema of which every keyword is checked."""
    known: dict[str, Any] = {
        **_SAID,
        "default": True,
        "$defs": True,
        "$ref": {"type": "string", "pattern": "^#/"},
        "anyOf": _ALTERNATIVES,
        "oneOf": _ALTERNATIVES,
        "enum": {"type": "array", "items": _CONSTANT, "minItems": 1},
        "const": _CONSTANT,
        "type": {"anyOf": [_TYPE, {"type": "array", "items": _TYPE, "minItems": 1}]},
        "items": _SHAPE,
        "properties": {"type": "object", "additionalProperties": _SHAPE},
        "required": _REQUIRED,
        "additionalProperties": {"anyOf": [{"type": "boolean"}, _SHAPE]},
    }
    beside = [*_SAID, "default", "$defs"]
    words = {"$ref": _only("$ref", *beside), **{word: _only(word, *beside) for word in ("anyOf", "oneOf")}}
    words |= {word: _only("enum", "const", "type", *beside) for word in ("enum", "const")}
    owners: dict[str, list[str]] = {"items": ["array"]}
    owners |= {name: ["object"] for name in ("properties", "required", "additionalProperties")}
    some_properties = {"properties": {"properties": {"minProperties": 1}}, "required": ["properties"]}
    stands = {"properties": {"additionalProperties": {"not": {"const": False}}}}
    for kind, bounds in BOUNDS.items():
        for name in bounds:
            known[name] = {"type": "string"} if name == "pattern" else {"type": "number"}
            owners.setdefault(name, []).append(kind)
    return {
        "anyOf": [
            {"const": True},
            {
                "type": "object",
                "properties": known,
                "dependentSchemas": {**words, **{name: _typed(kinds) for name, kinds in owners.items()}},
                "anyOf": [some_properties, stands],
                "additionalProperties": False,
            },
        ]
    }


def _each(shape: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "propertyNames": _NAMES, "additionalProperties": shape}


def _only(*names: str) -> dict[str, Any]:
    return {"propertyNames": {"enum": [*names]}}


def _typed(kinds: Iterable[str]) -> dict[str, Any]:
    """The keyword is of these types alone."""
    one = {"enum": [*kinds]}
    return {"properties": {"type": {"anyOf": [one, {"type": "array", "contains": one}]}}, "required": ["type"]}
