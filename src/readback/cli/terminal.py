"""Terminal output: one JSON value, or text in which outside values cannot move the cursor.

Answers go to stdout, as JSON with `--json` and in words otherwise. Progress, warnings and errors go to stderr. Only
drawing imports rich, and only a terminal has colours.
"""

from __future__ import annotations

import contextlib
import os
import sys
import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from readback.canon import Json, json_text
from readback.domain.verification.observation_signs import PLAIN_NAME

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

TEXT_MAX_CHARACTERS: Final = 400
VALUE_MAX_CHARACTERS: Final = 160
WIDTH_WITHOUT_TERMINAL: Final = 120
WIDTH_MIN: Final = 60
US: Final = 1_000_000

OK, BAD, OPEN, NONE = "ok", "bad", "open", "none"
_MARKS: Final = {OK: ("✓", "+"), BAD: ("✗", "x"), OPEN: ("?", "?"), NONE: ("·", "-")}
_STYLES: Final = {OK: "green", BAD: "red", OPEN: "yellow", NONE: "dim"}


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


def print_json(answer: object) -> None:
    """Print one JSON value on stdout, in ASCII, so that no value can control the terminal."""
    print(json_text(answer, indent=2))


def note(text: str) -> None:
    """Print a line for people on stderr and ignore write errors. The caller escapes outside values."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def speaks_unicode() -> bool:
    """Whether stdout can show the marks."""
    return (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "").startswith("utf")


def mark(kind: str) -> Text:
    """One of the four marks, distinct without colour."""
    from rich.text import Text

    return Text(_MARKS[kind][0 if speaks_unicode() else 1], style=_STYLES[kind])


def console(*, stderr: bool = False) -> Console:
    """A rich console: colours only on a terminal and without NO_COLOR, and a fixed width without a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    terminal = stream.isatty()
    width = None if terminal else _width()
    return Console(
        file=stream,
        force_terminal=terminal,
        no_color=True if os.environ.get("NO_COLOR") else None,
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        safe_box=not speaks_unicode(),
    )


def _width() -> int:
    asked = os.environ.get("COLUMNS", "")
    return max(int(asked), WIDTH_MIN) if asked.isascii() and asked.isdigit() else WIDTH_WITHOUT_TERMINAL
