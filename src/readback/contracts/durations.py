"""Durations as people write them, turned into microseconds. Used by options; it must not know what they are for.

A bare number is refused: nobody can tell whether it means seconds or milliseconds.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from readback.domain.errors import ContractFieldError

DURATION_MAX_US: Final = 400 * 86_400 * 1_000_000
_UNITS_US: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_PART: Final = re.compile(r"(\d{1,12})(?:\.(\d{1,6}))? *(us|ms|s|m|h|d)")
_WHOLE: Final = re.compile(rf" *(?:{_PART.pattern} *)+")
"""Spaces stand between numbers and units, and in neither: `1 0s` would be ten seconds, and `1m s` a millisecond."""


def microseconds(value: object) -> int:
    """`"500ms"`, `"10s"`, `"1m30s"`, `"1.5h"`, or a timedelta. Raises ContractFieldError."""
    if isinstance(value, timedelta):
        span = value // timedelta(microseconds=1)
    elif isinstance(value, str):
        span = _written(value)
    else:
        raise ContractFieldError(
            f"A duration is text with its unit, such as '10s', '500ms', '2m' or '1h', and not {value!r:.40}."
        )
    if not 0 <= span <= DURATION_MAX_US:
        raise ContractFieldError(f"The duration {value!s:.40} is not between 0 and 400 days.")
    return span


def _written(text: str) -> int:
    if len(text) > 64 or not text.isascii() or _WHOLE.fullmatch(text) is None:
        raise ContractFieldError(
            f"{text[:40]!r} is not a duration: write a number with one of the units us, ms, s, m, h, d."
        )
    total = 0
    for whole, fraction, unit in _PART.findall(text):
        size = _UNITS_US[unit]
        total += int(whole) * size
        if fraction:
            total += int(fraction) * size // 10 ** len(fraction)
    return total
