"""The port to an expression language: the operator's text becomes a judgement over JSON values.

Called by contracts (compile, at load) and by the engine's evaluation (bind, evaluate). Implemented by the expression
adapters. An expression must not read the world: an expression sees its variables and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, Protocol

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.predicate import Path

ROOTS: Final = ("intended", "requested", "observed", "before", "authoritative", "scope")
"""The variables of an expression, each of any JSON type. An unbound root is null."""

EvaluatedKind = Literal["value", "missing", "type", "limit", "error"]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The result of an evaluation. Only `value` may decide; any other kind is undetermined, with a line of reason in
    `error`.

    - `value`: there is a value, possibly null.
    - `missing`: a field, key or index does not exist.
    - `type`: an operation on wrong types, or a boolean expression with another value.
    - `limit`: the evaluation took too much.
    - `error`: anything else.
    """

    kind: EvaluatedKind
    value: Json = None
    error: str | None = None
    path: str = ""
    """The path of the fault, if known."""


class Strength(StrEnum):
    """The relation of a new expression to an old one, by the states in which each is true."""

    UNCHANGED = "unchanged"
    STRICTER = "stricter"
    """True in fewer states, by proof."""
    LOOSER = "looser"
    """True in more states, or not provably in the same or fewer."""
    OTHER = "other"
    """Each is true in a state in which the other is not."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Two expressions compared. `decided` False: no proof was found, so the relation counts as looser.

    `gained`: the roots of a state in which only the new expression is true. `lost`: the same of the old expression.
    None where no such state was found.
    """

    strength: Strength
    decided: bool = True
    gained: Mapping[str, Json] | None = None
    lost: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class ExpressionMutant:
    """An expression with one part changed. `kind`: the operator of the change; `said`: the change, in words."""

    kind: str
    said: str
    source: str


class Binding(Protocol):
    """The variables of one judgement, converted once and shared by all its expressions. Not thread-safe."""


class Predicate(Protocol):
    """A compiled expression. Immutable, and safe to share between threads."""

    @property
    def source(self) -> str:
        """The compiled text."""
        ...

    @property
    def paths(self) -> tuple[Path, ...]:
        """The longest paths under the roots, in order, once each."""
        ...

    @property
    def mentions(self) -> tuple[Path, ...]:
        """As `paths`, with every occurrence and its position."""
        ...

    @property
    def whole(self) -> Path | None:
        """The path, if the expression consists of one path."""
        ...

    @property
    def calls(self) -> frozenset[str]:
        """The functions and macros called, including `in`."""
        ...

    @property
    def is_presence(self) -> bool:
        """Whether the expression only tests for a reading: `authoritative == null`, or `!=`."""
        ...

    @property
    def always_boolean(self) -> bool:
        """Whether the value is true or false for any data."""
        ...

    def otherwise(self, engine: str) -> str:
        """The first construct with a possibly different answer in the named engine, over the same values; empty if
        none. Entries without an engine's name belong to the engine before naming.
        """
        ...

    def evaluate(self, binding: Binding) -> Evaluated:
        """Evaluate in bounded time and memory. Data never raises an error. Same inputs, same answer."""
        ...


class PredicateEngine(Protocol):
    """Compiles expressions. Compiling the same text again is cheap."""

    @property
    def name(self) -> str:
        """The engine's name and version. The version changes with any change of meaning."""
        ...

    def compile(self, source: str, *, boolean: bool = True) -> Predicate:
        """Check everything checkable without data.

        With `boolean`, an expression of any other type is refused. Raises ExpressionError with a code:
        `expression.syntax`, `expression.type`, `expression.limit` (too long, too deep), `expression.unknown-name` (an
        unknown root or function), `expression.forbidden` (a construct excluded on purpose).
        """
        ...

    def bind(self, variables: Mapping[str, Json]) -> Binding:
        """Bind plain JSON values by root name. The values must not change later. Raises InvariantError for unknown
        roots.
        """
        ...

    def end(self, text: str, at: int) -> int:
        """The position of the closing brace of an expression starting at this position of a template's text; -1 if
        missing. Braces inside the expression's texts and objects do not count.
        """
        ...
