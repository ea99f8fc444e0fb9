"""Postconditions and the three truth values of a judgement.

Used by contracts, verification and reconciliation. The predicate engine evaluates, behind a port.

Source: the action verification specification, "Postcondition predicates".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.errors import InvariantError

_SHOWN_TEXT_MAX_CHARS: Final = 240
_STEP: Final = re.compile(r"""(?P<name>[^.\[\]'"]+)|\[(?P<index>[0-9]+)\]|\[(?P<quote>['"])(?P<text>.*?)(?P=quote)\]""")


class Truth(StrEnum):
    """Truth of a predicate. Three values, and no default."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNDETERMINED = "undetermined"


_VIOLATED: Final = Truth.VIOLATED
_UNDETERMINED: Final = Truth.UNDETERMINED
_HOLDS: Final = Truth.HOLDS


@dataclass(frozen=True, slots=True)
class Postcondition:
    """A named condition on the state afterwards: an expression, or a versioned Python callable, never both."""

    name: str
    expression: str = ""
    check: Callable[..., object] | None = None
    check_name: str = ""
    check_version: str = ""
    group: str | None = None
    """Its effect group. Different results in different groups make an outcome partial."""

    def __post_init__(self) -> None:
        if bool(self.expression) == (self.check is not None):
            raise InvariantError(f"Postcondition {self.name!r} needs an expression or a callable, not both.")
        if self.check is not None and not (self.check_name and self.check_version):
            raise InvariantError(f"Postcondition {self.name!r} is a callable without a name or a version.")

    @property
    def source(self) -> str:
        """The text for people, covered by the contract's hash."""
        return self.expression or f"{self.check_name}@{self.check_version}"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A single judgement of a postcondition."""

    name: str
    truth: Truth
    source: str
    reason: str = ""
    values: tuple[tuple[str, Json], ...] = ()
    """The paths in the expression with their values: for display, never for deciding."""
    error: str | None = None
    """Stable code of the obstacle to a decision; None for a decided predicate."""
    verifier_fault: bool = False
    """The predicate itself is broken, not the data: a callable raised, or returned a wrong type."""
    group: str | None = None


def conjoin(truths: Iterable[Truth]) -> Truth:
    """Combine truths: any violated is violated; else any undetermined is undetermined; else all hold.

    An empty set raises InvariantError: an unchecked action is never a success.
    """
    seen = set(truths)
    if not seen:
        raise InvariantError("No postcondition was judged; an empty set has no truth.")
    if _VIOLATED in seen:
        return _VIOLATED
    if _UNDETERMINED in seen:
        return _UNDETERMINED
    return _HOLDS


class Path:
    """A path under a root, in steps: the root's name, then names of fields and places in lists. Immutable.

    `text`: the displayed form; `column`: its start in the expression, from 1. Paths with equal steps and text are
    equal.
    """

    __slots__ = ("_hash", "column", "root", "steps", "text")

    def __init__(self, steps: tuple[str | int, ...], text: str, column: int = 0) -> None:
        self.steps = steps
        self.text = text
        self.column = column
        self.root = str(steps[0]) if steps else ""
        self._hash = hash((steps, text))

    @classmethod
    def named(cls, text: str) -> Path:
        """Return the path of `lines[0].total`, the form used by `tell`, `redact` and workflow steps (no
        expressions).
        """
        return _named(text)

    @property
    def dotted(self) -> str:
        """All steps joined by dots, the form used by `redact`, for every spelling of the expression."""
        return ".".join(map(str, self.steps))

    def within(self, above: Path) -> bool:
        """Whether this path equals another path, or leads to a part of the other path's value."""
        return self.steps[: len(above.steps)] == above.steps

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and self.steps == other.steps and self.text == other.text

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Path({self.text!r})"


@lru_cache(maxsize=4_096)
def _named(text: str) -> Path:
    found = _STEP.finditer(text)
    return Path(tuple(int(step["index"]) if step["index"] else step["name"] or step["text"] for step in found), text)


def look(path: Path, variables: Mapping[str, Json]) -> Json:
    """The value at a path, or null for a missing value. Never for deciding."""
    here: Any = variables
    try:
        for step in path.steps:
            if type(here) is str:
                return None  # the characters of a text are no path steps
            here = here[step]
    except (KeyError, IndexError, TypeError):
        return None
    return here  # type: ignore[no-any-return]


def along(path: Path, variables: Mapping[str, Json]) -> Iterator[Json]:
    """The value at each step of a path, as far as values exist."""
    here: Any = variables
    for step in path.steps:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return
        yield here


def shown_values(paths: Iterable[Path], variables: Mapping[str, Json]) -> tuple[tuple[str, Json], ...]:
    """The values displayed beside an expression. A long text is cut, a large container is replaced by its size."""
    return tuple([(path.text, _brief(look(path, variables))) for path in paths])


def _brief(value: Json) -> Json:
    if type(value) is str and len(value) <= _SHOWN_TEXT_MAX_CHARS:
        return value  # the common case
    if isinstance(value, str) and len(value) > _SHOWN_TEXT_MAX_CHARS:
        return value[:_SHOWN_TEXT_MAX_CHARS] + "\N{HORIZONTAL ELLIPSIS}"
    if isinstance(value, (dict, list)) and value:
        return f"({'object' if isinstance(value, dict) else 'list'} of {len(value)})"
    return value
