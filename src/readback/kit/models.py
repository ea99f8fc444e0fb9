"""A pydantic model of a tool's arguments, for frameworks that take a class in place of a JSON Schema.

The model's JSON Schema is the tool's own schema. The model checks plain types alone: Readback itself checks each call,
and answers in its own words. pydantic is imported at first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Literal, Union

from readback.canon import Json

if TYPE_CHECKING:
    from pydantic import BaseModel

_PLAIN: Final[Mapping[str, Any]] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "null": None, "array": list, "object": dict,
}  # fmt: skip
_CHOICES_MAX: Final = 200


def model_of(name: str, description: str, schema: Mapping[str, Json]) -> type[BaseModel]:
    """Return a model class with the properties of a JSON Schema as fields."""
    from pydantic import BaseModel, ConfigDict, Field, create_model

    properties, required = schema.get("properties"), schema.get("required")
    needed = set(required) if isinstance(required, list) else set()
    open_ = schema.get("additionalProperties") is not False
    fields: dict[str, Any] = {}
    for number, (key, shape) in enumerate(properties.items() if isinstance(properties, Mapping) else ()):
        described = shape if isinstance(shape, Mapping) else {}
        kind = type_of(described)
        default = ... if key in needed else described.get("default")
        plain = key.isidentifier() and not key.startswith("_") and not hasattr(BaseModel, key)
        field = key if plain else f"argument_{number}"
        fields[field] = (
            kind if default is not None else kind | None,
            Field(default, alias=key, description=str(described.get("description", "")) or None),
        )
    config = ConfigDict(
        extra="allow" if open_ else "forbid",
        populate_by_name=True,
        protected_namespaces=(),
        json_schema_extra=lambda made: _replaced(made, schema),
        strict=True,
    )
    made: type[BaseModel] = create_model(_class_name(name), __config__=config, **fields)
    made.__doc__ = description or None
    return made


def _replaced(made: dict[str, Any], schema: Mapping[str, Json]) -> None:
    made.clear()
    made.update(deepcopy(dict(schema)))


def type_of(shape: Mapping[str, Any]) -> Any:
    """Return the Python type of a schema's plain part; Any for everything else."""
    choices = shape.get("enum")
    texts = isinstance(choices, list) and all(isinstance(each, str) for each in choices)
    if isinstance(choices, list) and texts and 0 < len(choices) <= _CHOICES_MAX:
        return Literal[tuple(choices)]
    kinds = shape.get("type")
    if isinstance(kinds, list):
        named = [_PLAIN[each] for each in kinds if isinstance(each, str) and each in _PLAIN]
        return Union[tuple(named)] if named and len(named) == len(kinds) else Any  # noqa: UP007 - made at run time
    if kinds == "array":
        inner = shape.get("items")
        return list[type_of(inner)] if isinstance(inner, Mapping) else list  # type: ignore[misc]
    return _PLAIN.get(kinds, Any) if isinstance(kinds, str) else Any


def _class_name(name: str) -> str:
    parts = "".join(each if each.isalnum() else " " for each in name).split()
    return "".join(each[:1].upper() + each[1:] for each in parts) + "Arguments"
