"""Keeping what a contract redacts out of the record: at its own paths, and wherever else its value turns up.

Called by a run before anything is kept or recorded. A tool that quotes the card number in its error, a reader that puts
it into an exception, an answer that repeats it under another name: the value is known from its path, and is looked for
in everything that is written. Short values cannot be told from chance, and are hidden at their own paths alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from readback.canon import Json
from readback.domain.change import REDACTED

SECRET_MIN_CHARACTERS: Final = 4
HIDDEN_TEXT: Final = "[redacted]"
_TEXTS: Final = frozenset({"detail", "error", "reason"})
"""Fields that are sentences: the value is cut out of them. Everywhere else a text that holds it becomes a mark."""
_NAMES: Final = frozenset({"name", "group", "truth", "source", "key"})
"""Fields that the contract's author wrote."""


class Secrecy:
    """What one run keeps to itself. Learns values as they pass; forgets with the run."""

    __slots__ = ("_paths", "_values")

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths
        self._values: set[str] = set()

    def learn(self, value: Json, root: str) -> None:
        """Remembers the values at the redacted paths under `root`."""
        for path in self._paths:
            head, *parts = path.split(".")
            if head == root:
                self._values.update(_leaves(value, parts))

    def hide(self, value: Json, root: str) -> Json:
        """The value as it may be kept under `root`."""
        if not self._paths:
            return value
        self.learn(value, root)
        for path in self._paths:
            head, *parts = path.split(".")
            if head == root:
                value = _without(value, parts)
        return self._marked(value) if self._values else value

    def text(self, text: str) -> str:
        """A sentence without the values in it."""
        for secret in self._values:
            text = text.replace(secret, HIDDEN_TEXT)
        return text

    def recorded(self, data: dict[str, Json]) -> dict[str, Json]:
        """An event's data: its sentences without the values, its hints only where they do not hold one."""
        if not self._values:
            return data
        kept = {key: self.text(v) if key in _TEXTS and isinstance(v, str) else v for key, v in data.items()}
        for key in ("reference", "source_version", "author"):
            hint = kept.get(key)
            if hint is not None and self._holds(str(hint)):
                kept[key] = None
        return kept

    def _holds(self, text: str) -> bool:
        return any(secret in text for secret in self._values)

    def _marked(self, value: Json) -> Json:
        if isinstance(value, str):
            return {REDACTED: True} if self._holds(value) else value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return {REDACTED: True} if str(value) in self._values else value
        if isinstance(value, list):
            return [self._marked(part) for part in value]
        if isinstance(value, dict):
            return {key: self._field(key, part) for key, part in value.items()}
        return value

    def _field(self, key: str, value: Json) -> Json:
        if isinstance(value, str) and key in _TEXTS:
            return self.text(value)
        return value if isinstance(value, str) and key in _NAMES else self._marked(value)


def _leaves(value: Json, parts: list[str]) -> Iterator[str]:
    """The values at a path, as text, where they are long enough to be told from chance."""
    if isinstance(value, list):
        for part in value:
            yield from _leaves(part, parts)
    elif parts:
        if isinstance(value, dict) and parts[0] in value:
            yield from _leaves(value[parts[0]], parts[1:])
    elif isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part, [])
    elif value is not None and not isinstance(value, bool) and len(str(value)) >= SECRET_MIN_CHARACTERS:
        yield str(value)


def _without(value: Json, parts: list[str]) -> Json:
    """The value with a mark in place of what stands at a path."""
    if not parts:
        return {REDACTED: True}
    if isinstance(value, list):
        return [_without(part, parts) for part in value]
    if not isinstance(value, dict) or parts[0] not in value:
        return value
    return {**value, parts[0]: _without(value[parts[0]], parts[1:])}
