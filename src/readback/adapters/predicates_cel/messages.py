"""What the library's messages mean, as ExpressionError at load and as a kind of `Evaluated` afterwards.

The engine calls it. It must not repeat values of a reading: those may be secret.
"""

from __future__ import annotations

import re
from typing import Final

from readback.adapters.predicates_cel.functions import WRONG_KIND
from readback.domain.errors import ExpressionError
from readback.ports.predicates import ROOTS, Evaluated, EvaluatedKind

_MESSAGE_MAX_CHARS: Final = 240

_FAILURES: Final[tuple[tuple[str, EvaluatedKind, str], ...]] = (
    (WRONG_KIND, "type", ""),
    ("Key not found", "missing", ""),
    ("Applying SELECT to non-message", "missing", "A field was looked for in something that has no fields."),
    ("Index error: index=", "missing", ""),
    ("Index error", "type", ""),
    ("No matching overloads", "type", ""),
    ("budget exceeded", "limit", "The expression takes more than 10,000 iterations."),
    ("overflow", "limit", "A number left the range of 64 bits."),
    ("out of range", "limit", "A number is outside the range of 64 bits."),
    ("conversion", "type", "A value does not convert to the type that was asked for."),
)
"""Part of a message, its kind, and the text told instead where the library's own would repeat values."""


def failure(message: str) -> Evaluated:
    text = message.partition(": ")[2] or message
    for part, kind, told in _FAILURES:
        if part in message:
            return Evaluated(kind, error=(told or text.removeprefix(WRONG_KIND))[:_MESSAGE_MAX_CHARS])
    return Evaluated("error", error=text[:_MESSAGE_MAX_CHARS])


_PLACED: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([\w.]+)'")
_JOINS: Final = re.compile(r"'_\+_' applied to '\((?:[^)]*\b(?:string|bytes)\b)")


def refusal(source: str, message: str) -> ExpressionError:
    """The library's first complaint, with its place in the text."""
    if "recursion" in message:
        return refused("limit", "The expression is nested too deeply.", source)
    placed = _PLACED.search(message)
    reason = (placed[3] if placed else message).partition(" expecting {")[0].removesuffix(" [INVALID_ARGUMENT]")
    column = _column(source, int(placed[1]), int(placed[2])) if placed else 0
    if "Syntax error" in reason or "unsupported syntax" in reason or "invalid" in reason:
        return refused("syntax", reason, source, column)
    if "undeclared reference" in reason:
        told = reason.replace(" (in container '')", "")
        named = _UNDECLARED.search(reason)
        column = _begun(source, column, named[1]) if named and column else column
        return refused("unknown-name", f"{told}; there are {', '.join(ROOTS)}.", source, column)
    if _JOINS.search(reason):
        return refused("forbidden", "`+` adds numbers; it does not join texts.", source, column)
    return refused("type", reason, source, column)


def refused(variant: str, reason: str, source: str, column: int = 0) -> ExpressionError:
    reason = reason[:1].upper() + reason[1:_MESSAGE_MAX_CHARS]
    place = f" (column {column})" if column else ""
    return ExpressionError(f"{reason}{place}", source=source, column=column, code=f"expression.{variant}")


def _begun(source: str, column: int, name: str) -> int:
    """Where a name begins: the library tells the sign that follows it, or the last dot in it."""
    before, steps = source[: column - 1], name.split(".")
    starts = (".".join(steps[:count]) for count in range(len(steps), 0, -1))
    return next((column - len(each) for each in starts if before.endswith(each)), column)


def _column(source: str, line: int, column: int) -> int:
    if line < 1 or column < 1:
        return 0
    return sum(len(before) + 1 for before in source.split("\n")[: line - 1]) + column
