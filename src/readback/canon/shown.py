"""JSON text for people, models and files: the standard library's format, with every number exact.

Used for printing and quoting values. For hashing and comparing use `canonical`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from readback.canon.numbers import ExactNumber, number_text


def json_text(
    value: Any, *, indent: int | None = None, sort_keys: bool = False, ensure_ascii: bool = True, compact: bool = False
) -> str:
    """Return the text of a plain value. `compact`: without spaces. Raises TypeError for a value outside JSON."""
    comma, colon = (",", ":") if compact else (", " if indent is None else ",", ": ")
    try:
        return json.dumps(
            value, indent=indent, sort_keys=sort_keys, ensure_ascii=ensure_ascii, separators=(comma, colon)
        )
    except TypeError:
        if not holds_exact(value):
            raise
    return _Text(indent, sort_keys, ensure_ascii, comma, colon).of(value, 1)


def holds_exact(value: Any) -> bool:
    """Return whether a value contains an `ExactNumber`, unsuitable for readers limited to ints and floats."""
    pending: list[Any] = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, ExactNumber):
            return True
        if isinstance(part, Mapping):
            pending += part.values()
        elif isinstance(part, list | tuple):
            pending += part
    return False


class _Text:
    """The slow path, for a value with an `ExactNumber`."""

    __slots__ = ("ascii", "colon", "comma", "indent", "sort")

    def __init__(self, indent: int | None, sort: bool, ensure_ascii: bool, comma: str, colon: str) -> None:
        self.indent, self.sort, self.ascii = indent, sort, ensure_ascii
        self.comma, self.colon = comma, colon

    def of(self, value: Any, level: int) -> str:
        if isinstance(value, ExactNumber):
            return number_text(value)
        if isinstance(value, dict):
            named = sorted(value.items()) if self.sort else value.items()
            parts = (self._name(key) + self.colon + self.of(part, level + 1) for key, part in named)
            return self._enclosed("{", parts, "}", level)
        if isinstance(value, list | tuple):
            return self._enclosed("[", (self.of(part, level + 1) for part in value), "]", level)
        return json.dumps(value, ensure_ascii=self.ascii)

    def _name(self, key: object) -> str:
        return json.dumps(str(key), ensure_ascii=self.ascii)

    def _enclosed(self, opens: str, parts: Iterable[str], closes: str, level: int) -> str:
        inside = [*parts]
        if not inside:
            return opens + closes
        if self.indent is None:
            return opens + self.comma.join(inside) + closes
        line = "\n" + " " * (self.indent * level)
        return opens + line + (self.comma + line).join(inside) + "\n" + " " * (self.indent * (level - 1)) + closes
