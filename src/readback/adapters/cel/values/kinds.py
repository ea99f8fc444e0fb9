"""The kinds of values in expressions, and their names.

A value is None, a boolean, a number (int, float or Decimal), a text, bytes, a list, an object, a timestamp, a duration,
or the name of a type.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from readback.adapters.cel.values.moments import Duration, Timestamp


class TypeName:
    """The result of `type(x)`. Equal names are the same object."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


TYPE_NAMES: Final = {
    name: TypeName(name) for name in ("int", "double", "string", "bool", "bytes", "list", "map", "null_type", "type")
}
_TIMES: Final = {Timestamp: TypeName("google.protobuf.Timestamp"), Duration: TypeName("google.protobuf.Duration")}
NUMBER: Final = "a number"
LIST: Final = "a list"
OBJECT: Final = "an object"
_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: NUMBER,
    float: NUMBER,
    Decimal: NUMBER,
    str: "a text",
    bytes: "bytes",
    list: LIST,
    dict: OBJECT,
    Timestamp: "a timestamp",
    Duration: "a duration",
    TypeName: "a type",
}
_TYPES: Final = {
    "null": "null_type", "a boolean": "bool", "a text": "string", "bytes": "bytes", LIST: "list", OBJECT: "map",
    "a type": "type",
}  # fmt: skip


def kind_of(value: object) -> str:
    """Return the kind of a value, in plain words. A subclass has its parent's kind."""
    known = _KINDS.get(type(value))
    if known is not None:
        return known
    for kind in (str, int, float, Decimal, bytes, list, dict):
        if isinstance(value, kind):
            return _KINDS[kind]
    return "a value of another kind"


def type_of(value: object) -> TypeName:
    """Return `type(value)`: a whole number is `int`, a number with a fraction or an exponent `double`."""
    kind = kind_of(value)
    if kind == NUMBER:
        return TYPE_NAMES["int" if isinstance(value, int) else "double"]
    if isinstance(value, (Timestamp, Duration)):
        return _TIMES[type(value)]
    return TYPE_NAMES[_TYPES.get(kind, "type")]
