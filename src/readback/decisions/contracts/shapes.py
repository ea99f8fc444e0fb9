"""Shapes of JSON values, and every departure of a value from a shape.

`formats` uses the shapes. Types are exact: a truth value is no number, and a fraction is no whole number. All faults
are found, and none is repaired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.canon.limits import INTEGER_SAFE_MAX
from readback.contracts.problems import did_you_mean
from readback.decisions.model.drift import read_moment

WHOLE_MAX: Final = INTEGER_SAFE_MAX // 1_000
"""The largest number of milliseconds with an exact count of microseconds."""

Fault = tuple[str, str]
"""The path, with dots, and the fault."""


class Shape(Protocol):
    """Yields every fault of a value with its path."""

    def faults(self, value: Json, path: str) -> Iterator[Fault]: ...


@dataclass(frozen=True, slots=True)
class Text:
    """A text. `among` lists the permitted texts. `moment` requires a time by RFC 3339."""

    least: int = 0
    among: tuple[str, ...] = ()
    moment: bool = False

    def faults(self, value: Json, path: str) -> Iterator[Fault]:
        if type(value) is not str:
            yield path, f"It is a text, and not {_shown(value)}."
        elif len(value) < self.least:
            yield path, "It is empty."
        elif self.among and value not in self.among:
            yield path, f"{value!r:.60} is none of its words.{did_you_mean(value, self.among)}"
        elif self.moment and read_moment(value) is None:
            yield path, f"{value!r:.60} is no time such as '2026-02-11T06:34:13Z'."


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number of at least `least`."""

    least: int = 0

    def faults(self, value: Json, path: str) -> Iterator[Fault]:
        if type(value) is not int:
            yield path, f"It is a whole number, and not {_shown(value)}."
        elif not self.least <= value <= WHOLE_MAX:
            yield path, f"It is from {self.least} to {WHOLE_MAX}, and not {value!r:.40}."


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def faults(self, value: Json, path: str) -> Iterator[Fault]:
        if type(value) is not bool:
            yield path, f"It is true or false, and not {_shown(value)}."


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of values of one shape."""

    of: Shape
    least: int = 0

    def faults(self, value: Json, path: str) -> Iterator[Fault]:
        if type(value) is not list:
            yield path, f"It is a list, and not {_shown(value)}."
            return
        if len(value) < self.least:
            yield path, f"It has {len(value)} entries, and at least {self.least}."
        for number, each in enumerate(value):
            yield from self.of.faults(each, f"{path}[{number}]")


@dataclass(frozen=True, slots=True)
class Mapped:
    """An object with free keys and values of one shape, or of any shape with None."""

    of: Shape | None = None

    def faults(self, value: Json, path: str) -> Iterator[Fault]:
        if type(value) is not dict:
            yield path, f"It is an object, and not {_shown(value)}."
        elif self.of is not None:
            for name, each in value.items():
                yield from self.of.faults(each, _inner(path, name))


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with these keys. The `required` keys are present. Without `open` no other key is permitted."""

    keys: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    open: bool = False

    def faults(self, value: Json, path: str) -> Iterator[Fault]:
        if type(value) is not dict:
            yield path, f"It is an object, and not {_shown(value)}."
            return
        for name in self.required:
            if name not in value:
                yield path, f"The key {name!r} is missing."
        for name, each in value.items():
            shape = self.keys.get(name)
            if shape is not None:
                yield from shape.faults(each, _inner(path, name))
            elif not self.open:
                yield _inner(path, name), f"There is no such key.{did_you_mean(name, self.keys)}"


def _inner(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shown(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return f"{value!r:.40}"
