"""The Python functions that expressions call: strict equality, digests, exact decimals.

The engine registers them. They must be pure, and raise only WrongKindError: it becomes an error value.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from readback.canon import BYTES_KEY, sha256_hex

_DECIMAL_TEXT_MAX_CHARS: Final = 400
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""As it is written everywhere; Python's own reading takes blanks, underscores and other digits too."""


class WrongKindError(ValueError):
    """Becomes an error value of the evaluation; the mark tells `failure` which kind."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{WRONG_KIND}{what}")


WRONG_KIND: Final = "wrong kind: "
_KINDS: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a text",
    bytes: "bytes",
    bytearray: "bytes",
    list: "a list",
    dict: "an object",
    datetime: "a timestamp",
    timedelta: "a duration",
}


def kind_name(value: object) -> str:
    return _KINDS.get(type(value), "a type")


def same(one: Any, other: Any) -> bool:
    """Equality that refuses to compare a text with a number; a difference found elsewhere still is one."""
    if type(one) is type(other) and type(one) in _PLAIN_SCALARS:
        return bool(one == other)
    kind, other_kind = kind_name(one), kind_name(other)
    if kind != other_kind:
        if one is None or other is None:
            return False
        raise WrongKindError(f"{kind} is compared with {other_kind}")
    if kind == "a list":
        return len(one) == len(other) and _all_same(zip(one, other, strict=True))
    if kind == "an object":
        return one.keys() == other.keys() and _all_same((one[key], other[key]) for key in one)
    return bool(one == other)


_PLAIN_SCALARS: Final = frozenset({str, int, bool, float})


def _all_same(pairs: Iterator[tuple[object, object]]) -> bool:
    unlike: WrongKindError | None = None
    for one, other in pairs:
        try:
            if not same(one, other):
                return False
        except WrongKindError as error:
            unlike = error
    if unlike is not None:
        raise unlike
    return True


def differ(one: Any, other: Any) -> bool:
    return not same(one, other)


def within(part: object, whole: object) -> bool:
    """CEL's `in`, which finds no text among numbers: where it is not found and could not be compared, nobody knows."""
    if not isinstance(whole, (list, dict)) or (isinstance(whole, dict) and part is None):
        raise WrongKindError(f"{kind_name(part)} is looked for in {kind_name(whole)}")
    if type(part) is str and part in whole:
        return True
    unlike: WrongKindError | None = None
    for each in whole:
        try:
            if same(part, each):
                return True
        except WrongKindError as error:
            unlike = error
    if unlike is not None:
        raise unlike
    return False


def contains_all(whole: object, parts: object) -> bool:
    """Whether each part is in the whole, equal and of its kind."""
    texts, others, wanted = _apart(whole, parts)
    return all(part in texts if type(part) is str else _in(others, part) for part in wanted)


def contains_any(whole: object, parts: object) -> bool:
    """Whether one part at least is in the whole, equal and of its kind."""
    texts, others, wanted = _apart(whole, parts)
    return any(part in texts if type(part) is str else _in(others, part) for part in wanted)


def _apart(whole: object, parts: object) -> tuple[set[object], list[object], list[object]]:
    if not isinstance(whole, list) or not isinstance(parts, list):
        raise WrongKindError(f"two lists are taken, not {kind_name(whole)} and {kind_name(parts)}")
    return {each for each in whole if type(each) is str}, [each for each in whole if type(each) is not str], parts


def _in(whole: list[object], part: object) -> bool:
    return any(kind_name(each) == kind_name(part) and same(each, part) for each in whole)


def sha256(data: object) -> str:
    if isinstance(data, str):
        return sha256_hex(data.encode())
    if isinstance(data, (bytes, bytearray)):
        return sha256_hex(bytes(data))
    if isinstance(data, dict) and data.keys() == {BYTES_KEY} and isinstance(data[BYTES_KEY], str):
        try:
            return sha256_hex(b64decode(data[BYTES_KEY], validate=True))
        except ValueError as error:
            raise WrongKindError("the bytes are not base64") from error
    raise WrongKindError(f"sha256 takes a text or bytes, not {kind_name(data)}")


def dec_eq(one: object, other: object) -> bool:
    return _decimal(one) == _decimal(other)


def dec_cmp(one: object, other: object) -> int:
    left, right = _decimal(one), _decimal(other)
    return (left > right) - (left < right)


def _decimal(value: object) -> Decimal:
    """A JSON number is what its shortest text says: 10.1 is ten and one tenth."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise WrongKindError(f"{kind_name(value)} is not a decimal")
    text = value if isinstance(value, str) else repr(value)
    if len(text) > _DECIMAL_TEXT_MAX_CHARS:
        raise WrongKindError("a text that long is not a decimal")
    if _DECIMAL.fullmatch(text) is None:
        raise WrongKindError("a text is not a decimal")
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise WrongKindError("the decimal has too large an exponent") from error
