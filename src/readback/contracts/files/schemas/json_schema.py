"""Converts the JSON Schema of a contract's arguments into the argument schema of a function's annotations.

Called by `contract`, and by the loaders of tool schemas. Keywords with an annotation are converted. A keyword without a
check is a fault and never ignored. Names without a type accept any value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias, Union

from readback.contracts.functions.arguments import ArgumentSchema, Parameter, parameter_of
from readback.contracts.problems import did_you_mean
from readback.errors import ContractFieldError

DEPTH_MAX: Final = 16
ARGUMENTS_MAX: Final = 64
SHAPES_MAX: Final = 1_000
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: Final[Mapping[str, Any]] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
TYPES: Final = (*_PLAIN, "array", "object")
SAID_ONLY: Final = frozenset(
    {"title", "description", "examples", "$schema", "$id", "$comment", "format", "deprecated", "readOnly", "writeOnly"}
)
BOUNDS: Final[Mapping[str, Mapping[str, str]]] = {
    "string": {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"},
    "integer": {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"},
    "number": {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
}
Report: TypeAlias = Callable[[tuple[str, ...], str], None]
"""Receives each fault: the keys to its place, and the fault."""


def arguments_of(schema: object, report: Report) -> ArgumentSchema:
    """Return the argument schema. `schema`: JSON Schema of an object, or a mapping of names to types (`{order_id:
    string}`).

    An optional argument without a default is null when left out.
    """
    if not isinstance(schema, dict):
        report((), "Must be a JSON Schema of an object, or a mapping of names to types.")
        return ArgumentSchema(())
    whole = schema if "properties" in schema or schema.get("type") == "object" else _short(schema)
    reading = _Reading(report, whole)
    properties = whole.get("properties", {})
    if not isinstance(properties, dict) or len(properties) > ARGUMENTS_MAX:
        report(("properties",), f"Must be a mapping of at most {ARGUMENTS_MAX} names.")
        return ArgumentSchema(())
    for key in whole:
        if key not in SAID_ONLY | {"type", "properties", "required", "additionalProperties", "$defs"}:
            report(
                (key,),
                "Only `properties` and `required` are checked for the arguments together. Remove the other keys.",
            )
    if whole.get("type", "object") != "object":
        report(("type",), "The arguments together must be an object.")
    if whole.get("additionalProperties") not in (None, False):
        report(("additionalProperties",), "An action's arguments are all named.")
    required = _required(whole, properties, report, ())
    inside = ("properties",) if whole is schema else ()
    made = [reading.parameter(name, shape, name in required, (*inside, name)) for name, shape in properties.items()]
    return ArgumentSchema([each for each in made if each is not None])


def arguments_named(names: Mapping[str, object] | frozenset[str]) -> ArgumentSchema:
    """Return the schema of arguments known by name alone: each accepts any value."""
    return ArgumentSchema([parameter_of(name, Any) for name in sorted(names)])


def _short(schema: Mapping[str, object]) -> dict[str, Any]:
    """Read `{order_id: string, note: {type: string}}`: every argument is required."""
    shapes = {name: {"type": said} if isinstance(said, str) else said for name, said in schema.items()}
    required = [name for name, said in shapes.items() if not (isinstance(said, dict) and "default" in said)]
    return {"type": "object", "properties": shapes, "required": required}


def _required(
    shape: Mapping[str, Any], properties: Mapping[str, object], report: Report, path: tuple[str, ...]
) -> list[str]:
    """Return the names under `required`; a name without a property is a fault, because no schema would check the
    argument.
    """
    said = shape.get("required", [])
    if not isinstance(said, list) or not all(isinstance(name, str) for name in said):
        report((*path, "required"), "Must be a list of names.")
        return []
    for name in said:
        if name not in properties:
            report((*path, "required"), f"There is no argument {name!r:.60}.{did_you_mean(name, properties)}")
    return said


class _Reading:
    """Converts one schema to annotations."""

    def __init__(self, report: Report, root: Mapping[str, Any]) -> None:
        self._report = report
        self._root = root
        self._shapes = 0

    def parameter(self, name: str, shape: object, required: bool, path: tuple[str, ...]) -> Parameter | None:
        if NAME.fullmatch(name) is None:
            self._report(path, f"{name!r:.60} is not a valid argument name. Use letters, digits and '_'.")
            return None
        annotation = self.annotation(shape, path)
        default: tuple[object, ...] = ()
        if isinstance(shape, dict) and "default" in shape:
            default = (shape["default"],)
        elif not required:
            annotation, default = _union([annotation, None]), (None,)
        try:
            return parameter_of(name, annotation, *default)
        except ContractFieldError as error:
            self._report(path, error.message)
            return None

    def annotation(self, shape: object, path: tuple[str, ...], depth: int = 0) -> Any:
        self._shapes += 1
        if shape is True or self._shapes > SHAPES_MAX:
            if self._shapes == SHAPES_MAX + 1:
                self._report(path, f"The schema leads to more than {SHAPES_MAX} shapes.")
            return Any
        if not isinstance(shape, dict) or depth > DEPTH_MAX:
            self._report(path, f"Must be a type or a schema, at most {DEPTH_MAX} levels deep.")
            return Any
        if "$ref" in shape:
            self._only(shape, {"$ref"}, path)
            return self.annotation(self._referred(shape["$ref"], path), path, depth + 1)
        for word in ("anyOf", "oneOf"):
            if isinstance(shape.get(word), list) and shape[word]:
                self._only(shape, {word}, path)
                inner = [self.annotation(each, (*path, word), depth + 1) for each in shape[word]]
                return _union(inner)
        named = shape.get("type")
        if "type" in shape and (not named or (isinstance(named, list) and None in named)):
            self._report((*path, "type"), "No type is named. Omit the key to allow any value.")
            return Any
        kinds = named if isinstance(named, list) else [named]
        constants = shape.get("enum", [shape["const"]] if "const" in shape else None)
        if constants is not None:
            for kind in kinds if named else ():
                if kind not in TYPES:
                    self._no_type(kind, path)
            return self._one_of(shape, constants, path)
        return _union([self._typed(kind, shape, kinds, path, depth) for kind in kinds])

    def _one_of(self, shape: dict[str, Any], constants: object, path: tuple[str, ...]) -> Any:
        self._only(shape, {"enum", "const", "type"}, path)
        plain = isinstance(constants, list) and all(type(each) in (str, int, bool, type(None)) for each in constants)
        if not plain or not constants:
            self._report(path, "An `enum` must list texts, whole numbers, true, false or null.")
            return Any
        return Literal.__getitem__(tuple(constants))  # type: ignore[arg-type]

    def _typed(self, kind: object, shape: dict[str, Any], kinds: list[Any], path: tuple[str, ...], depth: int) -> Any:
        allowed = {"type"}
        for each in kinds:
            allowed |= set(BOUNDS.get(str(each), ()))
            allowed |= {"items"} if each == "array" else set()
            allowed |= {"properties", "required", "additionalProperties"} if each == "object" else set()
        self._only(shape, allowed, path)
        if kind is None:
            return Any
        if kind == "array":
            inner = self.annotation(shape["items"], (*path, "items"), depth + 1) if "items" in shape else Any
            return self._bounded(list[inner], "array", shape, path)  # type: ignore[valid-type]
        if kind == "object":
            return self._object(shape, path, depth)
        if not isinstance(kind, str) or kind not in _PLAIN:
            self._no_type(kind, path)
            return Any
        return self._bounded(_PLAIN[kind], kind, shape, path)

    def _no_type(self, kind: object, path: tuple[str, ...]) -> None:
        self._report(path, f"{kind!r:.40} is not a type.{did_you_mean(str(kind), TYPES)}")

    def _object(self, shape: dict[str, Any], path: tuple[str, ...], depth: int) -> Any:
        properties, more = shape.get("properties", {}), shape.get("additionalProperties")
        if not isinstance(properties, dict):
            self._report((*path, "properties"), "Must be a mapping of names to types.")
            return Any
        if "additionalProperties" in shape and not isinstance(more, bool | dict):
            self._report((*path, "additionalProperties"), "Must be true, false or a schema.")
        required = _required(shape, properties, self._report, path)
        if not properties:
            if more is False:
                self._report(
                    (*path, "additionalProperties"),
                    "Without `properties` the object would always be empty. Add `properties`.",
                )
            inner = self.annotation(more, (*path, "additionalProperties"), depth + 1) if isinstance(more, dict) else Any
            return dict[str, inner]  # type: ignore[valid-type]
        from typing_extensions import TypedDict  # pydantic's own; it reads another one wrongly before Python 3.12

        fields: dict[str, Any] = {}
        for name, each in properties.items():
            made = self.annotation(each, (*path, "properties", name), depth + 1)
            fields[name] = made if name in required else NotRequired.__getitem__(made)
        make: Any = TypedDict  # its name and fields are known only now
        record = make("".join(path[-1:]) or "Record", fields)
        record.__pydantic_config__ = {"extra": "forbid" if more is False else "allow"}
        return record

    def _bounded(self, annotation: Any, kind: str, shape: dict[str, Any], path: tuple[str, ...]) -> Any:
        bounds = {ours: shape[theirs] for theirs, ours in BOUNDS.get(kind, {}).items() if theirs in shape}
        if not bounds:
            return annotation
        for theirs, ours in BOUNDS[kind].items():
            wanted = (str,) if ours == "pattern" else (int, float)
            if ours in bounds and (not isinstance(bounds[ours], wanted) or isinstance(bounds[ours], bool)):
                self._report((*path, theirs), f"`{theirs}` has an invalid value.")
                return annotation
        from pydantic import Field, TypeAdapter
        from pydantic_core import SchemaError

        bounded = Annotated[annotation, Field(**bounds)]
        try:
            TypeAdapter(bounded)
        except (SchemaError, TypeError, ValueError) as error:
            self._report(path, f"The keyword cannot be checked: {str(error).splitlines()[0]:.120}")
            return annotation
        return bounded

    def _only(self, shape: dict[str, Any], allowed: set[str], path: tuple[str, ...]) -> None:
        for key in shape:
            if key not in allowed | SAID_ONLY | {"default", "$defs"}:
                self._report((*path, key), f"`{key}` is not checked here. Use `require`.")

    def _referred(self, reference: object, path: tuple[str, ...]) -> object:
        here: object = self._root
        steps = str(reference).removeprefix("#/").split("/") if str(reference).startswith("#/") else [""]
        for step in steps:
            here = here.get(step) if isinstance(here, dict) else None
        if here is None:
            self._report(path, f"{str(reference)!r:.80} leads nowhere in this schema.")
            return True
        return here


def _union(parts: list[Any]) -> Any:
    return Any if any(part is Any for part in parts) else Union.__getitem__(tuple(parts))


# What may stand under `arguments`, as JSON Schema: made of the tables by which `shapes` reads it.

ARGUMENT: Final = "argument"
_SHAPE: Final[Mapping[str, Any]] = {"$ref": f"#/$defs/{ARGUMENT}"}
_NAMES: Final[Mapping[str, Any]] = {"pattern": f"^{NAME.pattern}$"}
_TYPE: Final[Mapping[str, Any]] = {"enum": [*TYPES]}
_CONSTANT: Final[Mapping[str, Any]] = {"type": ["string", "integer", "boolean", "null"]}
_ALTERNATIVES: Final[Mapping[str, Any]] = {"type": "array", "items": _SHAPE, "minItems": 1}
_SAID: Final[Mapping[str, Any]] = dict.fromkeys(sorted(SAID_ONLY), True)
_REQUIRED: Final[Mapping[str, Any]] = {"type": "array", "items": {"type": "string"}}


def arguments_schema() -> dict[str, Any]:
    """Return the schema for JSON Schema of an object, or names with types, with the checker's own distinction."""
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
    """Return the schema of one argument, or of a part: every keyword is checked."""
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
    """Restrict the keyword to these types."""
    one = {"enum": [*kinds]}
    return {"properties": {"type": {"anyOf": [one, {"type": "array", "contains": one}]}}, "required": ["type"]}
