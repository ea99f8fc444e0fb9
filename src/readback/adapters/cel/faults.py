"""What keeps an expression from having a value, and the meter of its work.

Everything here that evaluates raises `Fault`, and nothing else; `engine` makes an `Evaluated` of it. A fault's text
names kinds and places of the expression, and never a value: values may be secret.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, TypeAlias

from readback.errors import ExpressionError
from readback.ports.predicates import EvaluatedKind

MESSAGE_MAX_CHARS: Final = 240
METER: Final = 6
"""Where the steps that are left stand in a frame: behind the six roots."""
VISIT: Final = 128
"""Steps of visiting one value."""
FAULT: Final = 512
"""Steps of a fault that a loop or an operator goes on behind."""

Frame: TypeAlias = "list[Any]"
"""The six roots, the steps that are left, and the variables of loops."""


class Fault(Exception):
    """There is no value. `path`: the path of the expression at which that was seen, where there is one."""

    def __init__(self, kind: EvaluatedKind, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.path = path
        self.also = ""
        """What else kept it from being decided, where several parts could have."""


def wrong(reason: str) -> Fault:
    """Values of the wrong kinds."""
    return Fault("type", reason)


def spend(frame: Frame, steps: int) -> None:
    """Takes steps from what is left, before they are done. Raises Fault."""
    left = frame[METER] - steps
    frame[METER] = left
    if left < 0:
        too_much()


def too_much() -> NoReturn:
    raise Fault("limit", "The values are too large for what the expression does with them.")


def refused(variant: str, reason: str, source: str, column: int = 0) -> ExpressionError:
    """A text that is no expression of this language. `column` counts from 1 through the whole text."""
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
