"""Templates of contract files: texts with expressions in braces, in the language of the postconditions.

Compiled when a contract is loaded, rendered for each call. A value never merges into the surrounding text: callers that
bind, encode or list values receive them separately, as `pieces`. The purpose of a template is unknown here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from readback.canon import ExactNumber, Json
from readback.canon.frozen import dataclass
from readback.contracts.conditions_compiler import column_of, fields_of, roots_of
from readback.contracts.problems import did_you_mean
from readback.errors import ExpressionError, TemplateError
from readback.ports.predicates import Binding, Predicate, PredicateEngine
from readback.ports.system_factory import TemplateParts

TEMPLATE_MAX_CHARS: Final = 65_536
ROOTS: Final = ("requested", "observed", "before", "scope")
"""The values of a call. `scope`: the call's tenant, principal, operation, target, stamp and so on."""
ASKS_OBSERVED: Final = "asks_observed"
"""In the details of a template's error: the missing value is a part of the tool's answer."""
_MISSING: Final = object()


def _asks(predicate: Predicate) -> dict[str, Json]:
    return {ASKS_OBSERVED: "observed" in roots_of(predicate)}


class Values:
    """The values of one call: by dotted path, or bound for an expression's evaluation."""

    __slots__ = ("_binding", "_engine", "roots")

    def __init__(self, engine: PredicateEngine, roots: Mapping[str, Json]) -> None:
        self._engine = engine
        self._binding: Binding | None = None
        self.roots = roots

    def at(self, path: tuple[str, ...]) -> object:
        """Return the value at a path; `_MISSING` for none."""
        here: Json = self.roots.get(path[0])
        for step in path[1:]:
            if not isinstance(here, dict) or step not in here:
                return _MISSING
            here = here[step]
        return here

    def of(self, predicate: Predicate) -> Json:
        """Raises TemplateError for a missing value."""
        if self._binding is None:
            self._binding = self._engine.bind(self.roots)
        found = predicate.evaluate(self._binding)
        if found.kind != "value":
            raise TemplateError(
                f"{{{predicate.source:.80}}} has no value here: {found.error or found.kind}", details=_asks(predicate)
            )
        return found.value


@dataclass(frozen=True, slots=True)
class Hole:
    """One expression in a template. `path`: the dotted path, if the expression is one."""

    predicate: Predicate
    path: tuple[str, ...] = ()

    def value(self, values: Values) -> Json:
        """Raises TemplateError."""
        if not self.path:
            return values.of(self.predicate)
        found = values.at(self.path)
        if found is _MISSING:
            raise TemplateError(f"{{{self.predicate.source:.80}}} has no value here.", details=_asks(self.predicate))
        return found  # type: ignore[return-value]  # JSON, as all that is below a root


@dataclass(frozen=True, slots=True)
class CompiledTemplate:
    """A compiled template: texts and expressions, in turn."""

    source: str
    parts: tuple[str | Hole, ...]

    @property
    def holes(self) -> tuple[Hole, ...]:
        return tuple(part for part in self.parts if isinstance(part, Hole))

    @property
    def fixed(self) -> str | None:
        """The text of a template without values."""
        return None if self.holes else "".join(str(part) for part in self.parts)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts around the expressions: one text more than expressions."""
        found = [""]
        for part in self.parts:
            if isinstance(part, str):
                found[-1] += part
            else:
                found.append("")
        return tuple(found)

    def text(self, values: Values) -> str:
        """Render as text. Raises TemplateError for a value besides text, whole numbers and truth values."""
        return "".join([part if isinstance(part, str) else as_text(part, part.value(values)) for part in self.parts])

    def value(self, values: Values) -> Json:
        """Return the value: a single expression keeps its type; anything else is a text."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Hole):
            return self.parts[0].value(values)
        return self.text(values)

    def pieces(self, values: Values) -> TemplateParts:
        """Return the texts, and the values between them. Raises TemplateError for a list or mapping."""
        found: list[object] = []
        for hole in self.holes:
            value = hole.value(values)
            if isinstance(value, dict | list):
                raise TemplateError(f"{{{hole.predicate.source:.80}}} has parts, and stands for one value.")
            found.append(value)
        return TemplateParts(self.texts, tuple(found))


def compile_fill(
    source: str, engine: PredicateEngine, arguments: Collection[str] | None, roots: Collection[str] = ROOTS
) -> CompiledTemplate:
    """Compile a template, with every check that needs no values. `arguments`: the names below `requested`.

    Raises TemplateError, or ExpressionError with the column of the expression's first character in `source`.
    """
    if len(source) > TEMPLATE_MAX_CHARS:
        raise TemplateError(f"The template has {len(source)} characters, more than {TEMPLATE_MAX_CHARS}.")
    parts: list[str | Hole] = []
    for text, at in _split(source, engine):
        if at is None:
            if parts and isinstance(parts[-1], str):
                parts[-1] += text
            elif text:
                parts.append(text)
        else:
            parts.append(_hole(text, at, engine, arguments, roots))
    return CompiledTemplate(source, tuple(parts))


def _hole(
    text: str, at: int, engine: PredicateEngine, arguments: Collection[str] | None, roots: Collection[str]
) -> Hole:
    try:
        predicate = engine.compile(text, boolean=False)
    except ExpressionError as error:
        column = at + (error.column or 1)
        raise ExpressionError(
            f"{{{text:.80}}}: {error.message}", source=error.source, column=column, code=error.code
        ) from error
    for root in sorted(roots_of(predicate) - set(roots)):
        reason = f"{root!r} is unknown at call time.{did_you_mean(root, roots)}"
        column = at + (column_of(predicate, root) or 1)
        raise ExpressionError(reason, source=text, column=column, code="expression.unknown-name")
    if arguments is not None:
        for name in sorted(fields_of(predicate, "requested") - set(arguments)):
            reason = f"The action has no argument {name!r}.{did_you_mean(name, arguments)}"
            column = at + (column_of(predicate, "requested", name) or 1)
            raise ExpressionError(reason, source=text, column=column, code="expression.unknown-name")
    whole = predicate.whole
    named = () if whole is None else tuple(step for step in whole.steps if isinstance(step, str))
    plain = whole is not None and 1 < len(named) == len(whole.steps)
    return Hole(predicate, named if plain else ())


def _split(source: str, engine: PredicateEngine) -> Iterator[tuple[str, int | None]]:
    """Split into texts (without a column) and expressions (with a column from 0). Raises TemplateError."""
    at, begun = 0, 0
    while at < len(source):
        two, one = source[at : at + 2], source[at]
        if two in ("{{", "}}"):
            yield source[begun:at] + one, None
            at = begun = at + 2
        elif one == "{":
            end = engine.end(source, at + 1)
            if end < 0:
                raise TemplateError(f"A single '{{' at column {at + 1}; write '{{{{' for the character.")
            inside = source[at + 1 : end]
            if not inside.strip():
                raise TemplateError(f"The braces at column {at + 1} are empty.")
            yield source[begun:at], None
            yield inside, at + 1
            at = begun = end + 1
        elif one == "}":
            raise TemplateError(f"A single '}}' at column {at + 1}; write '}}}}' for the character.")
        else:
            at += 1
    yield source[begun:], None


def as_text(hole: Hole, value: Json) -> str:
    """Render a value within a text. Raises TemplateError."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    kind = (
        "nothing"
        if value is None
        else "a fraction"
        if isinstance(value, float | ExactNumber)
        else "a list or a mapping"
    )
    raise TemplateError(f"{{{hole.predicate.source:.80}}} is {kind}; a text takes text, whole numbers, true and false.")
