"""Terminal output: one JSON value, or text in which outside values cannot move the cursor.

Answers go to stdout, as JSON with `--json` and in words otherwise. Progress, warnings and errors go to stderr. Only
drawing imports rich, and only a terminal has colours.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

from readback.canon import json_text
from readback.views.text import BAD, NONE, OK, OPEN, moment, quoted_name, safe, span, value

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = [
    "BAD",
    "NONE",
    "OK",
    "OPEN",
    "console",
    "mark",
    "moment",
    "note",
    "print_json",
    "quoted_name",
    "safe",
    "span",
    "speaks_unicode",
    "value",
]
WIDTH_WITHOUT_TERMINAL: Final = 120
WIDTH_MIN: Final = 60

_MARKS: Final = {OK: ("✓", "+"), BAD: ("✗", "x"), OPEN: ("?", "?"), NONE: ("·", "-")}
_STYLES: Final = {OK: "green", BAD: "red", OPEN: "yellow", NONE: "dim"}


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
