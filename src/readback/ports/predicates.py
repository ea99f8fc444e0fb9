"""The port to an expression language: text that the operator wrote becomes a judgement over JSON values.

Who calls it: contracts (compile, at load), lifecycle.verify (bind, evaluate). Who implements it:
`predicates_*` adapters. It must not offer anything that reads the world: an expression sees its variables
and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Protocol

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.predicate import Path

ROOTS: Final = ("intended", "requested", "observed", "before", "authoritative", "scope")
"""The variables that an expression may name, all of any JSON type; a root that was not bound is null."""

EvaluatedKind = Literal["value", "missing", "type", "limit", "error"]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What came of evaluating an expression.

    `value`: there is one (null is a value). `missing`: a field, key or index that is not there. `type`: an
    operation on values of the wrong types, or a boolean expression whose value is not a boolean. `limit`:
    it took too much. `error`: anything else. Only `value` may decide; the rest is undetermined, and `error`
    says why in one line.
    """

    kind: EvaluatedKind
    value: Json = None
    error: str | None = None
    path: str = ""
    """The path at which it was seen, where it was at one."""


class Binding(Protocol):
    """The variables of one judgement, converted once and shared by all its expressions. Not safe across
    threads.
    """


class Predicate(Protocol):
    """A compiled expression. Immutable, and safe to share between threads."""

    @property
    def source(self) -> str:
        """The text it was compiled from."""
        ...

    @property
    def paths(self) -> tuple[Path, ...]:
        """The longest paths under the roots that it mentions, in order, once each."""
        ...

    @property
    def mentions(self) -> tuple[Path, ...]:
        """As `paths`, each as often as it stands there, with its place."""
        ...

    @property
    def whole(self) -> Path | None:
        """The path, where the expression is one and nothing else."""
        ...

    @property
    def calls(self) -> frozenset[str]:
        """The functions and macros that it calls; `in` is one of them."""
        ...

    @property
    def is_presence(self) -> bool:
        """Whether it asks for nothing but whether there is a reading: `authoritative == null`, or `!=`."""
        ...

    @property
    def always_boolean(self) -> bool:
        """Whether it can only be true or false, whatever the data holds."""
        ...

    def otherwise(self, engine: str) -> str:
        """The first construct in it that the engine of this name could have answered otherwise over the same values;
        empty where there is none. Entries that name no engine are those of the one before engines were named.
        """
        ...

    def evaluate(self, binding: Binding) -> Evaluated:
        """Judges. Never raises for what the data holds; takes bounded time and memory. Same inputs, same
        answer.
        """
        ...


class PredicateEngine(Protocol):
    """Compiles expressions. Compiling the same text again is cheap."""

    @property
    def name(self) -> str:
        """The engine's name and its version, which changes whenever an expression could mean anything else."""
        ...

    def compile(self, source: str, *, boolean: bool = True) -> Predicate:
        """Checks everything that can be checked without data.

        With `boolean`, an expression that can only give another type is refused. Raises ExpressionError
        with a code: `expression.syntax`, `expression.type`, `expression.limit` (too long, too deep),
        `expression.unknown-name` (a root or function that does not exist), `expression.forbidden` (a
        construct that is left out on purpose).
        """
        ...

    def bind(self, variables: Mapping[str, Json]) -> Binding:
        """Takes plain JSON values by root name. Unknown roots raise InvariantError; the values must not
        change later.
        """
        ...

    def end(self, text: str, at: int) -> int:
        """Where the closing brace stands that ends an expression which begins at a place of a template's text; -1 where
        there is none. A brace in a text of the expression, or that of an object in it, is not the one.
        """
        ...
