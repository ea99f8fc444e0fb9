"""User functions made into hands, and their signatures into argument schemas. Called when a contract is loaded.

It looks at functions and never calls one.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Concatenate, TypeVar, get_type_hints

from readback.canon.frozen import dataclass
from readback.contracts.arguments import ArgumentSchema, Parameter, parameter_of
from readback.contracts.problems import Problems
from readback.domain.context import Context
from readback.domain.errors import ContractFieldError
from readback.domain.reading import Reading
from readback.lifecycle.plan import Plan
from readback.ports.acting import Glance, Hand, Place

Look = Callable[[Context, Mapping[str, object]], object]
ReadResult = TypeVar("ReadResult", bound="Reading | Awaitable[Reading]")


@dataclass(frozen=True, slots=True)
class Reader:
    """A way to look at a system of record, with what it declares of itself.

    Made by an action's `.read`, or by `reader` for a function that several actions share. `parameters` are the
    arguments it takes, a part of the action's own; None means all. `attributes`: its readings say whose doing they
    are (`stamp=`). `timeout` None means ten seconds. `function` is its author's own.
    """

    name: str
    look: Look
    is_async: bool
    source: str
    consistency: object
    independence: object
    timeout: object = None
    attributes: bool = False
    parameters: tuple[str, ...] | None = None
    function: Callable[..., object] | None = None
    glance: Glance | None = None
    """The very same look for an event loop; see `Hand`."""
    whole_region: bool = False
    """Its readings show everything that the call may change."""
    place: Place | None = None
    """Which system it asks; see `Hand`."""

    def seeing(self, look: Look) -> Reader:
        """A reader that looks in another way. A glance sees what the old one saw, and is not asked any more."""
        return replace(self, look=look, glance=None)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a contract is made of beside its options: the hands, the arguments, and the compensation's plan."""

    execute: Hand
    arguments: ArgumentSchema
    readers: tuple[Reader, ...] = ()
    find: Hand | None = None
    lookup: Hand | None = None
    rollback: Hand | None = None
    compensation: Plan | None = None
    find_as: Reader | None = None
    """What is declared of `find`, where something is; else it counts as the first reader does."""
    keyless: str = ""
    """Why the idempotency key does not reach the tool; "" where it does, or where that cannot be told."""
    find_complete: bool = False
    """The search shows every effect, in every place that the tool can write."""
    lookup_as: Reader | None = None
    """The same of `lookup`."""
    verifiers: str = ""
    """The digest of the scripts and hooks that judge inside a reading; part of the contract's hash."""


def hand(function: Callable[..., object], name: str = "") -> Hand:
    """A hand that passes all arguments by name."""
    return Hand(name or _name(function), _passing_all(function), is_async(function))


def reader_of(
    function: Callable[..., object],
    *,
    source: str,
    consistency: object,
    independence: object,
    timeout: object = None,
    attributes: bool = False,
    whole_region: bool = False,
    name: str = "",
    shared: bool = False,
) -> Reader:
    """A reader from a function. `shared`: it takes only the arguments it names, so that several actions may use it."""
    names = tuple(inspect.signature(function).parameters)[1:] if shared else None
    look = _passing_all(function) if names is None else _passing(function, names)
    called = name or _name(function)
    asks = is_async(function)
    return Reader(
        called,
        look,
        asks,
        source,
        consistency,
        independence,
        timeout,
        attributes,
        names,
        function,
        whole_region=whole_region,
    )


def _passing_all(function: Callable[..., object]) -> Look:
    def look(ctx: Context, arguments: Mapping[str, object]) -> object:
        return function(ctx, **arguments)

    return look


def _passing(function: Callable[..., object], names: tuple[str, ...]) -> Look:
    def look(ctx: Context, arguments: Mapping[str, object]) -> object:
        return function(ctx, **{each: arguments[each] for each in names})

    return look


def reader(
    *,
    source: str,
    consistency: object,
    independence: object,
    timeout: object = None,
    attributes: bool = False,
    whole_region: bool = False,
    name: str = "",
) -> Callable[[Callable[Concatenate[Context, ...], ReadResult]], Reader]:
    """Decorator: a reader that every contract may name under `readers=[...]`.

    The function takes the context and those of the action's arguments that it needs, by name, and returns a Reading.
    `whole_region`: a reading shows everything that a call may change, so that an equal reading proves that the call
    changed nothing.
    """

    def make(function: Callable[Concatenate[Context, ...], ReadResult]) -> Reader:
        return reader_of(
            function,
            source=source,
            consistency=consistency,
            independence=independence,
            timeout=timeout,
            attributes=attributes,
            whole_region=whole_region,
            name=name,
            shared=True,
        )

    return make


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it gives an awaitable."""
    call = getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(call)


def argument_schema(function: Callable[..., object], problems: Problems) -> ArgumentSchema:
    """The schema of a function's parameters less the context. Faults go into `problems`."""
    if _yields(function):
        problems.add("execute", ContractFieldError(_YIELDS))
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in _POSITIONAL:
        problems.add("arguments", ContractFieldError("The function takes no context as its first parameter."))
        return ArgumentSchema(())
    hints = _hints(function, [p.name for p in parameters[1:]], problems)
    found: list[Parameter] = []
    for parameter in parameters[1:]:
        key = f"arguments.{parameter.name}"
        if parameter.kind not in _NAMED:
            reason = f"{str(parameter)!r} has no name that a proposal could give; name each argument."
            problems.add(key, ContractFieldError(reason))
            continue
        if hints.get(parameter.name) is Context:
            problems.add(key, ContractFieldError(_CONTEXT_SECOND))
            continue
        rest = () if parameter.default is parameter.empty else (parameter.default,)
        try:
            found.append(parameter_of(parameter.name, hints.get(parameter.name, Any), *rest))
        except ContractFieldError as error:
            problems.add(key, error)
    return ArgumentSchema(found)


def accepts(function: Callable[..., object], names: tuple[str, ...]) -> str:
    """Why a function cannot be called with a context and these arguments by name; empty where it can."""
    if _yields(function):
        return _YIELDS
    try:
        inspect.signature(function).bind(None, **dict.fromkeys(names))
    except TypeError as error:
        return f"It does not take the context and the action's arguments ({', '.join(names)}): {error}."
    return ""


def _yields(function: Callable[..., object]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


_YIELDS = "A generator does nothing when it is called: return, and do not yield."
_CONTEXT_SECOND = (
    "The context is the first parameter. A method has its object there: decorate a static method, or the bound one."
)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Annotated:
    """Carries some of a function's annotations, so that the context's own need not be resolvable at run time."""

    def __init__(self, annotations: dict[str, object]) -> None:
        self.__annotations__ = annotations


def _hints(function: Callable[..., object], names: list[str], problems: Problems) -> dict[str, Any]:
    bare = inspect.unwrap(function)
    written = inspect.get_annotations(bare)
    hints: dict[str, Any] = {}
    for name in names:
        if name not in written:
            continue
        carrier: Any = _Annotated({name: written[name]})
        try:
            hints |= get_type_hints(carrier, getattr(bare, "__globals__", {}), include_extras=True)
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            reason = f"Its annotation {written[name]!r} cannot be resolved when the contract is loaded: {error}."
            problems.add(f"arguments.{name}", ContractFieldError(reason))
    return hints


def _name(function: Callable[..., object]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
