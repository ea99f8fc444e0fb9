"""Reasons for an expression without a value, and the meter of steps.

Evaluating code here raises only `Fault`, and `engine` turns a fault into an `Evaluated`. A fault's text names kinds and
places of the expression, never values: values may be secret.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, TypeAlias

from readback.errors import ExpressionError
from readback.ports.predicates import EvaluatedKind

MESSAGE_MAX_CHARS: Final = 240
METER: Final = 6
"""Index of the remaining steps in a frame, after the six roots."""
VISIT: Final = 128
"""Steps for one visited value."""
FAULT: Final = 512
"""Steps for a fault that a loop or an operator passes over."""

Frame: TypeAlias = "list[Any]"
"""The six roots, the remaining steps, and the loop variables."""


class Fault(Exception):
    """The expression has no value. `path`: the failing path in the expression, if any."""

    def __init__(self, kind: EvaluatedKind, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.path = path
        self.also = ""
        """Further reasons, where several parts failed."""


def wrong(reason: str) -> Fault:
    """Return the fault for values of wrong kinds."""
    return Fault("type", reason)


def spend(frame: Frame, steps: int) -> None:
    """Pay steps before the work. Raises Fault."""
    left = frame[METER] - steps
    frame[METER] = left
    if left < 0:
        too_much()


def too_much() -> NoReturn:
    raise Fault("limit", "The values are too large for what the expression does with them.")


def refused(variant: str, reason: str, source: str, column: int = 0) -> ExpressionError:
    """Return the error for an invalid expression. `column` counts from 1 through the whole text."""
    reason = reason[:1].upper() + reason[1:MESSAGE_MAX_CHARS]
    return ExpressionError(
        f"{reason}{_place(source, column)}", source=source, column=column, code=f"expression.{variant}"
    )


def _place(source: str, column: int) -> str:
    if not column:
        return ""
    line = source.count("\n", 0, column - 1) + 1
    if line == 1:
        return f" (column {column})"
    return f" (line {line}, column {column - 1 - source.rfind(chr(10), 0, column - 1)})"
