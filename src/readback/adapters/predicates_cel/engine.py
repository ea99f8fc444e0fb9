"""The engine, its compiled predicates and its bindings. `bootstrap` makes one and shares it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Final

from readback.adapters.predicates_cel.editing import edited
from readback.adapters.predicates_cel.functions import (
    contains_all,
    contains_any,
    dec_cmp,
    dec_eq,
    differ,
    kind_name,
    same,
    sha256,
    within,
)
from readback.adapters.predicates_cel.messages import failure, refusal, refused
from readback.adapters.predicates_cel.plain import holds_nul, plainly
from readback.adapters.predicates_cel.text import Scan, Size, bounded, measure, work
from readback.canon import Json, UnsupportedValueError, json_value
from readback.canon.frozen import dataclass
from readback.canon.limits import EXPRESSION_WORK_MAX
from readback.domain.errors import InvariantError
from readback.domain.predicate import look
from readback.ports.predicates import ROOTS, Binding, Evaluated

if TYPE_CHECKING:
    from cel_expr_python import cel

_CACHED_MAX: Final = 4_096
_TRUE: Final = Evaluated("value", True)
_FALSE: Final = Evaluated("value", False)
_CUT: Final = Evaluated("type", error="A text holds a NUL character, which no expression can look behind.")
_TOO_MUCH: Final = Evaluated("limit", error="The values are too large for what the expression does with them.")


class CelBinding:
    """The six roots, converted once, and only if a program is run on them."""

    __slots__ = ("_activation", "_cut", "sizes", "variables")

    def __init__(self, variables: Mapping[str, Json]) -> None:
        self._activation: cel.Activation | None = None
        self._cut: dict[str, bool] = {}
        self.variables = variables
        self.sizes: dict[str, Size] = {}

    @property
    def activation(self) -> cel.Activation:
        """The library's own form of them."""
        if self._activation is None:
            self._activation = _environments().evaluating.Activation(self.variables)
        return self._activation

    def cut(self, path: str) -> bool:
        """Whether a text at a path would reach the library shortened: it ends each at its first NUL."""
        if path not in self._cut:
            self._cut[path] = holds_nul(look(path, self.variables))
        return self._cut[path]

    def size(self, path: str) -> Size:
        """How much lies at a path; counted once."""
        if path not in self.sizes:
            self.sizes[path] = measure(look(path, self.variables))
        return self.sizes[path]


class CelPredicate:
    """One compiled expression; it holds no state of an evaluation."""

    __slots__ = ("_boolean", "_error_type", "_plain", "_program", "_scan", "paths", "source")

    def __init__(self, program: cel.Expression, scan: Scan, boolean: bool, error_type: cel.Type) -> None:
        self._program = program
        self._scan = scan
        self._boolean = boolean
        self._error_type = error_type
        self.source = scan.source
        self.paths = tuple(scan.paths)
        """In the order of the text, once each."""
        self._plain = plainly(scan.source, boolean)

    def evaluate(self, binding: Binding) -> Evaluated:
        """See the port. The library raises for its budgets; all else that goes wrong is an error value."""
        if not isinstance(binding, CelBinding):
            raise InvariantError("A binding of another engine was given.")
        if self._plain is not None:
            answer = self._plain(binding.variables)
            if answer is not None:
                return answer
        if any(map(binding.cut, self.paths)):
            return _CUT
        if self._scan.costly and work(self._scan, binding.size) > EXPRESSION_WORK_MAX:
            return _TOO_MUCH
        try:
            result = self._program.eval(binding.activation)
            value = result.value()
            if value is True:
                return _TRUE
            if value is False:
                return _FALSE
            if result.type() == self._error_type:
                return failure(str(value))
            plain = None if self._boolean else result.plain_value()
        except RuntimeError as error:
            return failure(str(error))
        if self._boolean:
            return Evaluated("type", error=f"The expression gives {kind_name(value)}, not true or false.")
        try:
            return Evaluated("value", json_value(plain))
        except UnsupportedValueError as error:
            return Evaluated("type", error=error.message)


class CelPredicates:
    """The engine. Compiled expressions are kept; compiling is under a lock, evaluating is not."""

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
        """Converts lazily: what no expression touches costs nothing."""
        if not variables.keys() <= _ROOT_SET:
            unknown = sorted(variables.keys() - _ROOT_SET)
            raise InvariantError(f"Not variables of an expression: {', '.join(unknown)}.")
        complete = {**_NULL_ROOTS, **variables}
        return CelBinding(complete)


_ROOT_SET: Final = frozenset(ROOTS)
_NULL_ROOTS: Final[Mapping[str, Json]] = dict.fromkeys(ROOTS)


def _compile(source: str, boolean: bool) -> CelPredicate:
    """1: bounds. 2: the library's static check, with its own types of `==`. 3: the program that is run."""
    scan = bounded(source)
    environments = _environments()
    try:
        checked = environments.checking.compile(source)
        program = environments.evaluating.compile(source)
    except RuntimeError as error:
        raise refusal(source, str(error)) from error
    if scan.memberships:
        program = _strict(program, scan)
    given = checked.return_type()
    if boolean and given not in (environments.boolean, environments.dynamic):
        name = given.name().lower()
        raise refused("type", f"The expression gives {name}, where true or false is needed.", source)
    return CelPredicate(program, scan, boolean, environments.error)


_IN: Final = b"\x12\x03@in"
_STRICT_IN: Final = b"\x12\x03_in"
"""A call of `in` in a compiled expression (a protobuf message), and of the function that stands in its place: the
library lets nobody register another `in`. The names are equally long, so that no length around them changes.
"""


def _strict(program: cel.Expression, scan: Scan) -> cel.Expression:
    """The program with `within` in place of each `in`."""
    written = program.serialize()
    if written.count(_IN) != scan.memberships:
        raise refused("forbidden", "`in` stands where it cannot be held to kinds.", scan.source)
    return _environments().evaluating.deserialize(written.replace(_IN, _STRICT_IN))


_CHECKING_YAML: Final = """
stdlib:
  exclude_functions:
    - name: "_+_"
      overloads:
        - id: add_string
        - id: add_bytes
"""
_EVALUATING_YAML: Final = """
stdlib:
  exclude_functions:
    - name: "_==_"
    - name: "_!=_"
"""


@dataclass(frozen=True, slots=True)
class _Environments:
    """One to check with (typed equality), one to run with (strict equality), and the library's constants."""

    checking: cel.Env
    evaluating: cel.Env
    boolean: cel.Type
    dynamic: cel.Type
    error: cel.Type


@cache
def _environments() -> _Environments:
    from cel_expr_python import cel

    kinds = cel.Type
    two = [kinds.DYN, kinds.DYN]
    added = [
        _function("sha256", kinds.STRING, sha256, [kinds.STRING], [kinds.BYTES], [kinds.Map(kinds.DYN, kinds.DYN)]),
        _function("dec_eq", kinds.BOOL, dec_eq, two),
        _function("dec_cmp", kinds.INT, dec_cmp, two),
        _function("contains_all", kinds.BOOL, contains_all, two),
        _function("contains_any", kinds.BOOL, contains_any, two),
        _function("edited", kinds.DYN, edited, two),
    ]
    equality = [
        _function("_==_", kinds.BOOL, same, two),
        _function("_!=_", kinds.BOOL, differ, two),
        _function("_in", kinds.BOOL, within, two),
    ]
    return _Environments(
        checking=_environment(_CHECKING_YAML, added),
        evaluating=_environment(_EVALUATING_YAML, added + equality),
        boolean=kinds.BOOL,
        dynamic=kinds.DYN,
        error=kinds.ERROR,
    )


def _environment(yaml: str, functions: list[cel.FunctionDecl]) -> cel.Env:
    from cel_expr_python import cel

    # An extension, not `functions=`: there an overload that takes DYN is never found at run time.
    extension = cel.CelExtension("readback", functions)
    roots = dict.fromkeys(ROOTS, cel.Type.DYN)
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(yaml), variables=roots, extensions=[extension])


def _function(
    name: str, gives: cel.Type, impl: Callable[..., object], *overloads: Sequence[cel.Type]
) -> cel.FunctionDecl:
    from cel_expr_python import cel

    declared = [
        cel.Overload(
            f"readback_{name.strip('_')}_{number}",
            return_type=gives,
            parameters=takes,
            is_member=False,
            impl=impl,
        )
        for number, takes in enumerate(overloads)
    ]
    return cel.FunctionDecl(name, declared)
