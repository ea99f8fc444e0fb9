"""Postconditions and the three values that a judgement of one can have.

Who uses it: contracts (which postconditions), lifecycle.verify (their evaluations), reconciliation. It must
not evaluate anything itself: that is the predicate engine's, behind a port.

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
    """What is known of a predicate. There is no fourth value, and no default."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNDETERMINED = "undetermined"


_VIOLATED: Final = Truth.VIOLATED
_UNDETERMINED: Final = Truth.UNDETERMINED
_HOLDS: Final = Truth.HOLDS


@dataclass(frozen=True, slots=True)
class Postcondition:
    """A named statement that must be true afterwards: an expression, or a versioned Python callable, never
    both.
    """

    name: str
    expression: str = ""
    check: Callable[..., object] | None = None
    check_name: str = ""
    check_version: str = ""
    group: str | None = None
    """The effect group it belongs to: groups that differ make an outcome partial."""

    def __post_init__(self) -> None:
        if bool(self.expression) == (self.check is not None):
            raise InvariantError(f"Postcondition {self.name!r} needs an expression or a callable, not both.")
        if self.check is not None and not (self.check_name and self.check_version):
            raise InvariantError(f"Postcondition {self.name!r} is a callable without a name or a version.")

    @property
    def source(self) -> str:
        """What a person reads, and what the contract's hash covers."""
        return self.expression or f"{self.check_name}@{self.check_version}"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One postcondition judged once."""

    name: str
    truth: Truth
    source: str
    reason: str = ""
    values: tuple[tuple[str, Json], ...] = ()
    """The paths the expression mentions with the values they had: for display, never for deciding."""
    error: str | None = None
    """Stable code of what kept it from being decided; None where it was decided."""
    verifier_fault: bool = False
    """The predicate itself is broken (a callable raised or lied about its type), as against the data."""
    group: str | None = None


def conjoin(truths: Iterable[Truth]) -> Truth:
    """All of them together: one violated is violated; else one undetermined is undetermined; else all hold.

    An empty set raises InvariantError: nothing checked is never a success.
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

    `text`: as it is shown; `column`: where it begins in its expression, from 1. Two of the same steps and text are
    equal.
    """

    __slots__ = ("_hash", "column", "steps", "text")

    def __init__(self, steps: tuple[str | int, ...], text: str, column: int = 0) -> None:
        self.steps = steps
        self.text = text
        self.column = column
        self._hash = hash((steps, text))

    @classmethod
    def named(cls, text: str) -> Path:
        """Of `lines[0].total`, as `tell`, `redact` and the steps of workflows name values: those are no expressions."""
        return _named(text)

    @property
    def dotted(self) -> str:
        """All steps with dots between them, as `redact` names them, however the expression was written."""
        return ".".join(map(str, self.steps))

    def within(self, above: Path) -> bool:
        """Whether it leads to what stands at another path, or to a part of that."""
        return self.steps[: len(above.steps)] == above.steps

    @property
    def root(self) -> str:
        return str(self.steps[0])

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
    """The value at a path, or null where the path leads nowhere. Never for deciding."""
    here: Any = variables
    try:
        for step in path.steps:
            if type(here) is str:
                return None  # its characters are no values of its own
            here = here[step]
    except (KeyError, IndexError, TypeError):
        return None
    return here  # type: ignore[no-any-return]


def along(path: Path, variables: Mapping[str, Json]) -> Iterator[Json]:
    """What stands at each step of a path, as far as it leads."""
    here: Any = variables
    for step in path.steps:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return
        yield here


def shown_values(paths: Iterable[Path], variables: Mapping[str, Json]) -> tuple[tuple[str, Json], ...]:
    """What a person sees beside an expression. A long text is cut, a large container is named by its size."""
    return tuple([(path.text, _brief(look(path, variables))) for path in paths])


def _brief(value: Json) -> Json:
    if type(value) is str and len(value) <= _SHOWN_TEXT_MAX_CHARS:
        return value  # as most are
    if isinstance(value, str) and len(value) > _SHOWN_TEXT_MAX_CHARS:
        return value[:_SHOWN_TEXT_MAX_CHARS] + "\N{HORIZONTAL ELLIPSIS}"
    if isinstance(value, (dict, list)) and value:
        return f"({'object' if isinstance(value, dict) else 'list'} of {len(value)})"
    return value
