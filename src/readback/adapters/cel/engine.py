"""The engine with compiled predicates and bindings. `bootstrap` makes one shared engine."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from threading import Lock
from typing import Any, Final

from readback.adapters.cel.checker import BOOLEAN, check
from readback.adapters.cel.compiler import VARIABLES, Run, compiled
from readback.adapters.cel.faults import MESSAGE_MAX_CHARS, METER, Fault, Frame, refused, wrong
from readback.adapters.cel.syntax.lexer import end_of
from readback.adapters.cel.syntax.parser import parse
from readback.adapters.cel.syntax.tree import Form, Node, calls, is_presence, mentions, path_of, paths, walk
from readback.adapters.cel.values.kinds import NUMBER, TypeName, kind_of
from readback.adapters.cel.values.moments import Duration, Timestamp
from readback.canon import CanonError, Json, json_value, number
from readback.canon.limits import (
    EXPRESSION_NESTED_LOOPS_MAX,
    EXPRESSION_WORK_MAX,
    INTEGER_WIRE_MAX,
    INTEGER_WIRE_MIN,
)
from readback.errors import InvariantError
from readback.ports.predicates import ROOTS, Binding, Evaluated

# Constructs with another answer under an earlier engine, found once in the tree at compile time.

UNNAMED: Final = ""
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})
_ORDER: Final = frozenset({"<", "<=", ">", ">="})
_TIMES: Final = frozenset({"a timestamp", "a duration"})
_WHOLE: Final = frozenset({"size", "dec_cmp"})
_CONVERTING: Final = frozenset({"int", "double", "string", "uint", "type"})
_SMALL: Final = 2**53


def otherwise(node: Node) -> str:
    """Return the first construct with another answer under the engine of entries without an engine name, or ""."""
    return next(filter(None, map(_of, walk(node))), "")


def _of(node: Node) -> str:
    if node.form is Form.NEGATE:
        return "arithmetic, which is exact now"
    if node.form is Form.CALL:
        assert isinstance(node.value, tuple)
        name = str(node.value[0])
        return f"`{name}`, whose numbers are exact now" if name in _CONVERTING else ""
    if node.form is not Form.BINARY:
        return ""
    sign, kinds = str(node.value), {part.kind for part in node.parts}
    if kinds & _TIMES:
        return "times, which are exact to the nanosecond now"
    if all(map(_is_small, node.parts)) or not kinds & {NUMBER, None}:
        return ""
    if sign in _ARITHMETIC and node.kind in (NUMBER, None):
        return "arithmetic, which is exact now"
    return "the order of numbers, which is exact now" if sign in _ORDER and not any(map(_is_small, node.parts)) else ""


def _is_small(node: Node) -> bool:
    """Return whether the node is always an integer exact in doubles and 64 bits."""
    if node.form is Form.CALL:
        assert isinstance(node.value, tuple)
        return node.value[0] in _WHOLE
    return node.form is Form.LITERAL and type(node.value) is int and abs(node.value) < _SMALL


NAME: Final = "readback-cel"
VERSION: Final = "1"
"""Raised whenever an expression could change its meaning."""
ENGINE: Final = f"{NAME}/{VERSION}"
_CACHED_MAX: Final = 4_096
_TRUE: Final = Evaluated("value", True)
_FALSE: Final = Evaluated("value", False)
_ROOT_SET: Final = frozenset(ROOTS)
_LOOPS: Final = [None] * EXPRESSION_NESTED_LOOPS_MAX


class CelBinding:
    """The six roots as a frame, shared by all expressions of one judgement."""

    __slots__ = ("frame",)

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    @property
    def spent(self) -> int:
        """The steps of the last evaluation, without the steps bounded by the expression's length."""
        return int(EXPRESSION_WORK_MAX - self.frame[METER])


class CelPredicate:
    """One compiled expression, without state of an evaluation."""

    __slots__ = (
        "_boolean",
        "_otherwise",
        "_run",
        "always_boolean",
        "calls",
        "is_presence",
        "mentions",
        "paths",
        "source",
        "whole",
    )

    def __init__(self, source: str, node: Node, boolean: bool, always_boolean: bool) -> None:
        self._run: Run = compiled(node)
        self._boolean = boolean
        self.source = source
        self.always_boolean = always_boolean
        self.paths = paths(node)
        """In the order of the text, without duplicates."""
        self.mentions = mentions(node)
        self.calls = calls(node)
        self.is_presence = is_presence(node)
        self.whole = path_of(node)
        self._otherwise = otherwise(node)

    def otherwise(self, engine: str) -> str:
        """See the port."""
        if engine == ENGINE:
            return ""
        return (
            self._otherwise
            if engine == UNNAMED
            else f"all of it, by the engine {engine!r:.40}, which is not known here"
        )

    def evaluate(self, binding: Binding) -> Evaluated:
        """See the port. Data never makes it raise."""
        if type(binding) is not CelBinding:
            raise InvariantError("A binding of another engine was given.")
        frame = binding.frame
        frame[METER] = EXPRESSION_WORK_MAX
        try:
            value = self._run(frame)
            if value is True:
                return _TRUE
            if value is False:
                return _FALSE
            if self._boolean:
                raise wrong(f"The expression gives {kind_of(value)}, not true or false.")
            return Evaluated("value", _plain(value))
        except Fault as fault:
            return Evaluated(fault.kind, None, fault.reason[:MESSAGE_MAX_CHARS], fault.path)
        except ArithmeticError as error:
            return Evaluated("error", error=f"The numbers cannot be calculated with: {type(error).__name__}.")
        except (RecursionError, MemoryError):
            return Evaluated("limit", error="The values are nested too deeply for what the expression does with them.")


def _plain(value: Any) -> Json:
    """Return a result as JSON. Raises Fault for a result without a JSON form."""
    kind = type(value)
    if kind is str or value is None or (kind is int and INTEGER_WIRE_MIN <= value <= INTEGER_WIRE_MAX):
        return value  # type: ignore[no-any-return]
    try:
        return json_value(_unfolded(value))
    except CanonError as error:
        raise wrong(error.message) from error


def _unfolded(value: Any) -> object:
    """Return timestamps, durations and decimals as text."""
    if isinstance(value, list):
        return [_unfolded(each) for each in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise wrong("an object has a key that is no text")
        return {key: _unfolded(each) for key, each in value.items()}
    if isinstance(value, (Timestamp, Duration)):
        return str(value)
    if isinstance(value, TypeName):
        raise wrong("a type is no value")
    return number(value) if type(value) is Decimal else value


class CelPredicates:
    """The engine. Caches compiled expressions. Compilation holds a lock, evaluation does not."""

    name = ENGINE

    def __init__(self) -> None:
        self._compiled: dict[tuple[str, bool], CelPredicate] = {}
        self._lock = Lock()

    def compile(self, source: str, *, boolean: bool = True) -> CelPredicate:
        """Raises ExpressionError; see the port."""
        key = (source, boolean)
        known = self._compiled.get(key)
        if known is not None:
            return known
        with self._lock:
            predicate = _compile(source, boolean)
            if len(self._compiled) >= _CACHED_MAX:
                self._compiled.clear()
            self._compiled[key] = predicate
            return predicate

    def bind(self, variables: Mapping[str, Json]) -> CelBinding:
        """Nothing is converted or copied."""
        get = variables.get
        frame: Frame = [get(name) for name in ROOTS]
        if len(variables) > len(ROOTS) or not variables.keys() <= _ROOT_SET:
            unknown = sorted(variables.keys() - _ROOT_SET)
            raise InvariantError(f"Not variables of an expression: {', '.join(unknown)}.")
        frame.append(EXPRESSION_WORK_MAX)
        frame += _LOOPS
        return CelBinding(frame)

    def end(self, text: str, at: int) -> int:
        """See the port."""
        return end_of(text, at)


def _compile(source: str, boolean: bool) -> CelPredicate:
    """First the bounded tree, then the static check, then the evaluator."""
    node = parse(source)
    given = check(node, source)
    if boolean and given.kind not in (BOOLEAN, None):
        raise refused("type", f"The expression gives {given.kind}, where true or false is needed.", source)
    return CelPredicate(source, node, boolean, given.kind == BOOLEAN)


assert VARIABLES == METER + 1 == len(ROOTS) + 1
