"""Reads JSON from outside, every number exactly. Who calls it: whatever takes JSON in, from a wire, a file or a store.

msgspec reads, and hands the text of each number with a point or an exponent to `numbers`. It must not guess: bytes that
are no JSON are refused whole. Of two members of one name the last one counts.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson

from readback.canon.fault import NOT_JSON, MalformedJsonError, ValueTooLargeError
from readback.canon.limits import INTEGER_SAFE_MAX, NUMBER_EXPONENT_MAX, PAYLOAD_MAX_BYTES
from readback.canon.numbers import number_from, too_large, whole_from
from readback.canon.values import Json

SHORT_MAX_CHARS: Final = 16
"""A text of so many characters, point and sign among them, and without an exponent is kept by a double."""
PLAIN_MAX_CHARS: Final = 25
"""A longer text is none that a double has for itself."""
SMALL_MAX_BYTES: Final = 65_536
"""A text of so many bytes holds too few numbers to be counted."""
EXACT_NUMBERS_MAX: Final = 20_000
"""Of a larger text: numbers that no double keeps as they are written. Each takes some microseconds."""
_DIGITS: Final = bytes(ord("0") if chr(each) in "0123456789" else ord(" ") for each in range(256))
_LONG: Final = b"0" * (NUMBER_EXPONENT_MAX + 2)


def parse_json(data: bytes | str, *, bytes_max: int = PAYLOAD_MAX_BYTES) -> Json:
    """Reads JSON from outside, its numbers exactly.

    Raises ValueTooLargeError before parsing, MalformedJsonError after; NumberTooLargeError for a number over the
    bounds.
    """
    if len(data) > bytes_max:
        raise ValueTooLargeError(f"The JSON text has {len(data)} bytes, over {bytes_max}.")
    try:
        parsed: Json = _decode(data)
    except msgspec.ValidationError as error:  # nothing else is asked of a value without a type
        raise too_large() from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedJsonError(f"{NOT_JSON}{_why(data, error)}.") from error
    except RecursionError as error:
        raise MalformedJsonError(f"{NOT_JSON}it is nested too deeply.") from error
    if len(data) >= len(_LONG) and _LONG in (data.encode() if isinstance(data, str) else data).translate(_DIGITS):
        _bound_whole(parsed)
    return parsed


def _fraction(text: str) -> Any:
    if len(text) <= SHORT_MAX_CHARS and "e" not in text and "E" not in text:
        return float(text)
    return number_from(text)


class _Fractions:
    """The numbers of one text that have a point or an exponent. At most `left` of them are worked out in decimal."""

    __slots__ = ("_left",)

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, text: str) -> Any:
        if len(text) <= PLAIN_MAX_CHARS:
            near = float(text)
            if len(text) <= SHORT_MAX_CHARS and "e" not in text and "E" not in text:
                return near
            if -INTEGER_SAFE_MAX <= near <= INTEGER_SAFE_MAX and repr(near) == text:
                return near  # a double's own shortest text means the double
        self._left -= 1
        if self._left < 0:
            raise too_large()
        return number_from(text)


_decode_small: Final = msgspec.json.Decoder(float_hook=_fraction).decode


def _decode(data: bytes | str) -> Any:
    if len(data) <= SMALL_MAX_BYTES:
        return _decode_small(data)
    return msgspec.json.Decoder(float_hook=_Fractions(EXACT_NUMBERS_MAX)).decode(data)


def _why(data: bytes | str, error: Exception) -> str:
    """What is wrong, with its line and column where orjson has them."""
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError as named:
        return str(named)
    return str(error)


def _bound_whole(value: Json) -> None:
    """Raises NumberTooLargeError for an int over the bounds. Those of thousands of digits were never made."""
    pending: list[Any] = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list):
            pending += part
        elif type(part) is int:
            whole_from(str(part))
