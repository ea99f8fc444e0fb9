"""Strict JSON from outside: no repeated key, no NaN, no deep nesting.

The module also holds the format's canonical form. The form is not RFC 8785, but the output of Python's encoder with
sorted keys. Its numbers with a point are doubles, so a number beyond a double is refused. Nothing is repaired.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final, NoReturn

from readback.canon.numbers import is_kept
from readback.traces.format.fault import DEPTH_MAX_LEVELS, INTEGER_MAX_DIGITS, TraceInputError

REAL_MAX_CHARACTERS: Final = 800
"""The longest written form of a double, in digits."""

Value = Any
"""A parsed JSON value."""


class _RefusedError(ValueError):
    """A refusal with its code, inside the parser only."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(said)
        self.code = code


def _unique(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _RefusedError("duplicate-key", f"the key {twice[:80]!r} stands twice in one object")
    return made


def _constant(name: str) -> NoReturn:
    raise _RefusedError("malformed", f"{name} is no JSON")


def _real(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise _RefusedError("malformed", "a number is too large to be kept")
    if len(digits) > REAL_MAX_CHARACTERS or not is_kept(digits, number):
        raise _RefusedError("malformed", f"the number {digits[:40]} has more digits than the format keeps")
    return number


def _integer(digits: str) -> int:
    if len(digits) > INTEGER_MAX_DIGITS:
        raise _RefusedError("malformed", f"an integer has more than {INTEGER_MAX_DIGITS} digits")
    return int(digits)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_constant, parse_float=_real, parse_int=_integer
)
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def strict_json(data: bytes, what: str, *, bytes_max: int) -> Value:
    """Return the single value of the bytes. Raises TraceInputError with `what` (a file, or a line of a file)."""
    if len(data) > bytes_max:
        raise refused("too-large", what, f"{len(data)} bytes, over {bytes_max}")
    try:
        value = _DECODER.decode(data.decode("utf-8"))
    except _RefusedError as error:
        raise refused(error.code, what, str(error)) from error
    except UnicodeDecodeError as error:
        raise refused("malformed", what, f"byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise refused("too-deep", what, f"nested deeper than {DEPTH_MAX_LEVELS} levels") from error
    except ValueError as error:
        raise refused("malformed", what, f"not JSON: {error}"[:200]) from error
    if data.count(b"{") + data.count(b"[") > DEPTH_MAX_LEVELS and _depth_exceeded(value):
        raise refused("too-deep", what, f"nested deeper than {DEPTH_MAX_LEVELS} levels")
    if b"\\u" in data and not _is_text(value):
        raise refused("malformed", what, "a text holds half a surrogate pair")
    return value


def refused(code: str, what: str, said: str) -> TraceInputError:
    """Return an error in the common form."""
    return TraceInputError(f"{what}: {said}.", code=f"trace.input.{code}", details={"where": what})


def canonical(value: Value) -> bytes:
    """Return the format's canonical bytes of a value from `strict_json`."""
    written = _ENCODER.encode(value)
    if "-0.0" in written:
        written = _ENCODER.encode(_positive_zero(value))
    return written.encode("utf-8")


def _positive_zero(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _positive_zero(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_positive_zero(part) for part in value]
    return value + 0.0 if isinstance(value, float) else value


def _depth_exceeded(value: Value) -> bool:
    level = [value]
    for _ in range(DEPTH_MAX_LEVELS + 1):
        level = [node for node in level if isinstance(node, dict | list)]
        if not level:
            return False
        level = [part for node in level for part in (node.values() if isinstance(node, dict) else node)]
    return True


def _is_text(value: Value) -> bool:
    try:
        _ENCODER.encode(value).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
