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
from readback.domain.errors import InvariantError

_STEP: Final = re.compile(r"""(?P<name>[A-Za-z_]\w*)|\[(?P<index>\d+)\]|\[(?P<quote>['"])(?P<text>.*?)(?P=quote)\]""")
_SHOWN_TEXT_MAX_CHARS: Final = 240


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


@lru_cache(maxsize=4_096)
def _steps(path: str) -> tuple[str | int, ...]:
    """`a.b[0]['c d']` as ("a", "b", 0, "c d")."""
    found = _STEP.finditer(path)
    return tuple(int(step["index"]) if step["index"] else step["name"] or step["text"] for step in found)


def look(path: str, variables: Mapping[str, Json]) -> Json:
    """The value at a path, or null where the path leads nowhere. Never for deciding."""
    here: Any = variables
    try:
        for step in _steps(path):
            if type(here) is str:
                return None  # its characters are no values of its own
            here = here[step]
    except (KeyError, IndexError, TypeError):
        return None
    return here  # type: ignore[no-any-return]


def along(path: str, variables: Mapping[str, Json]) -> Iterator[Json]:
    """What stands at each step of a path, as far as it leads."""
    here: Any = variables
    for step in _steps(path):
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return
        yield here


def shown_values(paths: Iterable[str], variables: Mapping[str, Json]) -> tuple[tuple[str, Json], ...]:
    """What a person sees beside an expression. A long text is cut, a large container is named by its size."""
    return tuple([(path, _brief(look(path, variables))) for path in paths])


def _brief(value: Json) -> Json:
    if type(value) is str and len(value) <= _SHOWN_TEXT_MAX_CHARS:
        return value  # as most are
    if isinstance(value, str) and len(value) > _SHOWN_TEXT_MAX_CHARS:
        return value[:_SHOWN_TEXT_MAX_CHARS] + "\N{HORIZONTAL ELLIPSIS}"
    if isinstance(value, (dict, list)) and value:
        return f"({'object' if isinstance(value, dict) else 'list'} of {len(value)})"
    return value
