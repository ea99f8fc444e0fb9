"""Parser for JSON from outside (wire, file or store), with every number exact.

msgspec parses, and passes the text of each number with a point or an exponent to `numbers`. Bytes that are no JSON are
refused whole. The last of several members with the same name counts.
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
"""A double keeps a text of so many characters, including point and sign, without an exponent."""
PLAIN_MAX_CHARS: Final = 25
"""No double's own text is longer."""
SMALL_MAX_BYTES: Final = 65_536
"""A text of so many bytes holds too few numbers to be counted."""
EXACT_NUMBERS_MAX: Final = 20_000
"""Numbers in a larger text that no double keeps as written. Each takes some microseconds."""
_DIGITS: Final = bytes(ord("0") if chr(each) in "0123456789" else ord(" ") for each in range(256))
_LONG: Final = b"0" * (NUMBER_EXPONENT_MAX + 2)


def parse_json(data: bytes | str, *, bytes_max: int = PAYLOAD_MAX_BYTES) -> Json:
    """Parse JSON from outside, with exact numbers.

    Raises ValueTooLargeError before parsing, MalformedJsonError after parsing, and NumberTooLargeError for a number
    over the limits.
    """
    if len(data) > bytes_max:
        raise ValueTooLargeError(f"The JSON text has {len(data)} bytes, over {bytes_max}.")
    try:
        parsed: Json = _decode(data)
    except msgspec.ValidationError as error:  # the only possible reason, since no type was given
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
    """The numbers with a point or an exponent in one text. At most `left` numbers are converted to decimal."""

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
    """Return the problem, with line and column where orjson has them."""
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError as named:
        return str(named)
    return str(error)


def _bound_whole(value: Json) -> None:
    """Raise NumberTooLargeError for an int over the limits. The parser never creates ints of thousands of digits."""
    pending: list[Any] = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list):
            pending += part
        elif type(part) is int:
            whole_from(str(part))
