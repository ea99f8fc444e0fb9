"""How the lines of a text ended before it became a mail, which has one end for all and ends the last one itself.

Written by what sends, into a header of the message, and read by what looks: the ends are put back onto the text that
was read, and nothing else is. A message that was altered on its way gives another text than the one that was sent.
"""

from __future__ import annotations

import re
from typing import Final

HEADER: Final = "X-Readback-Line-Ends"
HEADER_MAX_CHARACTERS: Final = 800
RUNS_MAX: Final = 200
LINES_MAX: Final = 1_048_576
"""More than a text of the greatest size has."""
_ENDS: Final = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}
_NAMES: Final = {end: name for name, end in _ENDS.items()}
_END: Final = re.compile("\r\n|\r|\n")
_RUN: Final = re.compile(r"(crlf|lf|cr)(?:\*([1-9][0-9]{0,6}))?")


def as_mail(text: str) -> str:
    """The text as mail carries it: with line feeds, without those at its end."""
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def ends_of(text: str) -> str:
    """How its lines end, as a header says it; "" where mail says it already, or where it cannot be said in a header."""
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
    """The text whose lines ended so; as it was read where nothing is said, or what is said does not fit it."""
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
