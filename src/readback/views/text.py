"""Outside values as text on one line, times and durations: the same for a terminal and a page.

No value can move a cursor or turn the direction of a line: control, format and direction characters appear by number.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Final

from readback.canon import Json, ReadbackError, json_text, json_value
from readback.domain.verification.observation_signs import PLAIN_NAME

TEXT_MAX_CHARACTERS: Final = 400
VALUE_MAX_CHARACTERS: Final = 160
US: Final = 1_000_000
OK, BAD, OPEN, NONE = "ok", "bad", "open", "none"
"""The four marks: verified, not verified, open, and nothing to verify."""


def safe(text: object, limit: int = TEXT_MAX_CHARACTERS) -> str:
    """Outside text on one line, cut to `limit`, with control, format and direction characters shown by number."""
    said = str(text)
    shown = "".join(_plain(c) for c in said[: limit + 1])
    if len(said) <= limit and len(shown) <= 2 * limit:
        return shown
    return shown[: limit - 1] + "…"


def _plain(character: str) -> str:
    kind = unicodedata.category(character)
    if kind[0] != "C" and kind not in ("Zl", "Zp"):
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def quoted_name(text: object, limit: int = TEXT_MAX_CHARACTERS) -> str:
    """An outside name for a sentence, in quotes unless the name is one plain word."""
    line = safe(text, limit)
    return line if PLAIN_NAME.fullmatch(line) else json_text(line, ensure_ascii=False)


def value(shown: Json, limit: int = VALUE_MAX_CHARACTERS) -> str:
    """A JSON value on one line, cut to `limit`. Text is quoted, so that "7" and 7 look different."""
    return safe(json_text(shown, ensure_ascii=False, sort_keys=True), limit)


def moment(at_us: int) -> str:
    """A UTC time to the millisecond, or the bare number if out of range."""
    if at_us <= 0:
        return "-"
    try:
        at = datetime.fromtimestamp(at_us // US, UTC)
    except (OverflowError, ValueError, OSError):
        return str(at_us)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_us % US // 1000:03d}Z"


def span(us: int) -> str:
    """A duration for people."""
    sign, us = ("-", -us) if us < 0 else ("", us)
    if us < 1000:
        return f"{sign}{us} us"
    if us < US:
        return f"{sign}{us / 1000:.1f} ms"
    if us < 120 * US:
        return f"{sign}{us / US:.2f} s"
    minutes, seconds = divmod(us // US, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    return sign + " ".join(f"{n} {unit}" for n, unit in parts if n)


def json_or_text(value: object) -> Json:
    """A value as JSON, or as text if the value has no JSON form."""
    try:
        return json_value(value)
    except ReadbackError:
        return safe(repr(value))
