"""What an expression gives here, in a form that can be held against another engine's answer."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from readback.adapters.cel import CelPredicates
from readback.adapters.cel.faults import Fault
from readback.adapters.cel.values.kinds import TypeName
from readback.canon import Json
from readback.errors import ExpressionError

ENGINE: Final = CelPredicates()


def answer(source: str, roots: dict[str, Json] | None = None) -> tuple[str, Any]:
    """`value` with the engine's own value, `refused` with the code, or the kind of the fault."""
    try:
        predicate = ENGINE.compile(source, boolean=False)
    except ExpressionError as error:
        return "refused", error.code
    try:
        return "value", predicate._run(ENGINE.bind(roots or {}).frame)
    except Fault as fault:
        return fault.kind, f"{fault.reason}{fault.also}"


def is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def is_as_told(told: list[Any], value: Any) -> bool:
    """Whether a value is what a row of the specification tells, as its kind with its text."""
    kind, text = told
    match kind:
        case "null":
            return value is None
        case "bool":
            return value is (text == "true")
        case "int64" | "uint64":
            return is_number(value) and isinstance(value, int) and value == int(text, 0)
        case "double":
            return is_number(value) and float(value) == float(text)
        case "bytes":
            return isinstance(value, bytes) and value.hex() == text
        case "list":
            return isinstance(value, list) and len(value) == len(text) and all(map(is_as_told, text, value))
        case "map":
            pairs = list(value.items()) if isinstance(value, dict) else []
            return len(pairs) == len(text) and all(
                any(is_as_told(key, k) and is_as_told(part, v) for k, v in pairs) for key, part in text
            )
        case "type":
            return isinstance(value, TypeName) and value.name == text
        case _:
            return isinstance(value, str) and value == text
