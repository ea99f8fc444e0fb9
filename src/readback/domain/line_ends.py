"""Line ends of a text sent as mail. Mail has a single line end for all lines, and adds a final line end.

The sender writes the original line ends into a header. The reader restores the line ends of the received text, and
changes nothing else. A message altered on its way still gives another text than the original.
"""

from __future__ import annotations

import re
from typing import Final

HEADER: Final = "X-Readback-Line-Ends"
HEADER_MAX_CHARACTERS: Final = 800
RUNS_MAX: Final = 200
LINES_MAX: Final = 1_048_576
"""More lines than in a text of the greatest size."""
_ENDS: Final = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}
_NAMES: Final = {end: name for name, end in _ENDS.items()}
_END: Final = re.compile("\r\n|\r|\n")
_RUN: Final = re.compile(r"(crlf|lf|cr)(?:\*([1-9][0-9]{0,6}))?")


def as_mail(text: str) -> str:
    """The text in mail form: with line feeds, without final line feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def ends_of(text: str) -> str:
    """Return the header value for the text's line ends; "" where mail preserves the text, or where no header can hold
    them.
    """
    if as_mail(text) == text:
        return ""
    runs: list[tuple[str, int]] = []
    for found in _END.finditer(text):
        name = _NAMES[found[0]]
        if runs and runs[-1][0] == name:
            runs[-1] = name, runs[-1][1] + 1
        elif len(runs) == RUNS_MAX:
            return ""
        else:
            runs.append((name, 1))
    said = " ".join(name if count == 1 else f"{name}*{count}" for name, count in runs)
    return said if len(said) <= HEADER_MAX_CHARACTERS else ""


def with_ends(lines: str, said: str) -> str:
    """Return the text with the header's line ends; unchanged without a header, or with an unfitting header."""
    runs = [_RUN.fullmatch(each) for each in said.split(" ")] if 0 < len(said) <= HEADER_MAX_CHARACTERS else []
    if not runs or len(runs) > RUNS_MAX:
        return lines
    ends: list[str] = []
    for run in runs:
        if run is None or len(ends) + int(run[2] or 1) > LINES_MAX:
            return lines
        ends += [_ENDS[run[1]]] * int(run[2] or 1)
    parts = lines.split("\n")
    if len(ends) < len(parts) - 1:
        return lines
    joined = "".join(part + end for part, end in zip(parts, ends, strict=False))
    return joined + (parts[-1] if len(parts) > len(ends) else "") + "".join(ends[len(parts) :])
