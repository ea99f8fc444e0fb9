"""User functions made into handlers, and their signatures into argument schemas. Called when a contract is loaded.

Functions are inspected and never called.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Concatenate, TypeVar, cast, get_type_hints

from readback.canon.frozen import dataclass
from readback.contracts.functions.arguments import ArgumentSchema, Parameter, parameter_of
from readback.contracts.functions.calling import Calling, Look, calling_of, reading_from, readings_from
from readback.contracts.problems import Problems
from readback.domain.context import Context
from readback.domain.side_effect import Consistency, Independence
from readback.domain.verification.reading import Reading
from readback.engine.compiled_contract import CompiledContract
from readback.errors import ContractFieldError
from readback.ports.handlers import Glance, Handler, Place

ReadResult = TypeVar("ReadResult", bound="Reading | Awaitable[Reading]")


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of a system of record, with the declared properties.

    Made by an action's `.read`, or by `reader` for a function shared by several actions.

    Attributes:
        parameters: The arguments of the reader, a subset of the action's; None means all.
        attributes: Readings name the author of the state (`stamp=`).
        timeout: The time limit; None means ten seconds.
        function: The author's own function.

    Example:
        >>> from readback import reader
        >>> @reader(source="orders-db", consistency="strong", independence="other_client")
        ... def order(order_id: str) -> dict[str, str] | None: ...
        >>> order.name, order.source
        ('order', 'orders-db')
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
    """The same look for an event loop; see `Handler`."""
    whole_region: bool = False
    """A reading shows every part that the call may change."""
    place: Place | None = None
    """The system behind the reader; see `Handler`."""
    declared: bool = True
    """The author declared consistency and independence. Otherwise nothing is assumed."""

    def seeing(self, look: Look) -> Reader:
        """Return a reader with another look. The old glance is dropped, because it reads as the old look did."""
        return replace(self, look=look, glance=None)


@dataclass(frozen=True, slots=True)
class ContractParts:
    """The parts of a contract beside the options: the handlers, the arguments, and the compensation's plan."""

    execute: Handler
    arguments: ArgumentSchema
    readers: tuple[Reader, ...] = ()
    find: Handler | None = None
    lookup: Handler | None = None
    rollback: Handler | None = None
    compensation: CompiledContract | None = None
    find_as: Reader | None = None
    """The declaration of `find`, if any; by default `find` counts as the first reader does."""
    keyless: str = ""
    """Why the idempotency key does not reach the tool; "" where the key does, or for an unknown case."""
    find_complete: bool = False
    """The search shows every effect, in every place writable by the tool."""
    lookup_as: Reader | None = None
    """The declaration of `lookup`, if any."""
    assumed: tuple[str, ...] = ()
    """The assumptions of the contract, one line each."""
    verifiers: str = ""
    """The digest of the scripts and hooks used inside a reading; part of the contract's hash."""


Around = Callable[[Look, str, bool], Look]
"""Wraps a call, with the name of the function and whether the function is async."""


def hand(function: Callable[..., object], around: Around | None = None) -> Handler:
    """Return a handler that passes the named arguments to the function."""
    look, name, asks = _calling(function).passing(function), _name(function), is_async(function)
    return Handler(name, look if around is None else around(look, name, asks), asks)


def search_hand(function: Callable[..., object]) -> Handler:
    """Return a handler for a search: each element of the answer's list becomes a reading."""
    return hand(function, _searching)


def _searching(look: Look, _name: str, asks: bool) -> Look:
    async def look_async(ctx: Context, arguments: Mapping[str, object]) -> object:
        return readings_from(await cast("Awaitable[object]", look(ctx, arguments)))

    def look_sync(ctx: Context, arguments: Mapping[str, object]) -> object:
        return readings_from(look(ctx, arguments))

    return look_async if asks else look_sync


def _calling(function: Callable[..., object]) -> Calling:
    """Return how to call the function; without a signature, with everything. `argument_schema` reports that fault."""
    try:
        return calling_of(function)
    except (TypeError, ValueError):
        return Calling((inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD),), "context", first=True)


def argument_names(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the function's argument names without the context."""
    return _calling(function).names


def reader_of(
    function: Callable[..., object],
    *,
    source: str = "",
    consistency: object = None,
    independence: object = None,
    timeout: object = None,
    attributes: bool = False,
    whole_region: bool = False,
    name: str = "",
    shared: bool = False,
    strong: bool = False,
) -> Reader:
    """Return a reader from a function with any subset of the action's arguments.

    `strong` declares that the function reads the system of record itself, past caches, by another path than the
    action's. Without a declaration nothing is assumed: such a reading informs and verifies nothing. `shared`: the
    reader stands in several contracts, each with all of the reader's arguments.
    """
    calling = _calling(function)
    called = name or _name(function)
    asks = is_async(function)
    declared = strong or (consistency is not None and independence is not None)
    short = consistency is None or independence is None
    look = _answering(calling.passing(function), asks, none_is_absence=short or _may_be_none(function))
    return Reader(
        called,
        look,
        asks,
        source or called,
        consistency or (Consistency.STRONG if strong else Consistency.CACHED),
        independence or (Independence.OTHER_CLIENT if strong else Independence.SAME_CALL),
        timeout,
        attributes,
        calling.names if shared else None,
        function,
        whole_region=whole_region,
        declared=declared,
    )


def _answering(look: Look, asks: bool, *, none_is_absence: bool) -> Look:
    awaitable = cast("Callable[[Context, Mapping[str, object]], Awaitable[object]]", look)

    async def look_async(ctx: Context, arguments: Mapping[str, object]) -> object:
        found = await awaitable(ctx, arguments)
        return found if type(found) is Reading else reading_from(found, none_is_absence=none_is_absence)

    def look_sync(ctx: Context, arguments: Mapping[str, object]) -> object:
        found = look(ctx, arguments)
        return found if type(found) is Reading else reading_from(found, none_is_absence=none_is_absence)

    return look_async if asks else look_sync


def _may_be_none(function: Callable[..., object]) -> bool:
    """Return whether the annotation allows None; without one, None may come from a forgotten `return`."""
    bare: Any = inspect.unwrap(function)
    said = getattr(bare, "__annotations__", {}).get("return")
    return ("None" in str(said) and said not in (None, "None")) or "Optional" in str(said)


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
    """Declare a reader for several contracts, named under `readers=[...]`.

    The function takes the context and any of the action's arguments, by name, and returns a Reading. `whole_region`: a
    reading shows every part that a call may change, so that an equal reading proves that the call changed nothing.

    Example:
        >>> from readback import Reading, reader
        >>> @reader(source="orders-db", consistency="strong", independence="other_client")
        ... def order(order_id: str) -> Reading:
        ...     return Reading({"status": "shipped"})
        >>> order.source
        'orders-db'
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
    """Return whether a call of the function gives an awaitable."""
    call = getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(call)


def argument_schema(function: Callable[..., object], problems: Problems) -> ArgumentSchema:
    """Return the schema of a function's parameters without the context. Faults go into `problems`."""
    if _yields(function):
        problems.add("execute", ContractFieldError(_YIELDS))
    try:
        calling = calling_of(function)
    except (TypeError, ValueError) as error:
        problems.add("arguments", ContractFieldError(f"Python knows no signature of {function!r:.60}: {error}."))
        return ArgumentSchema(())
    hints = _hints(function, [p.name for p in calling.parameters], problems)
    found: list[Parameter] = []
    for place, parameter in enumerate(calling.parameters):
        key = f"arguments.{parameter.name}"
        if parameter.kind not in _NAMED:
            reason = f"{str(parameter)!r} cannot be passed by name. Name each argument."
            problems.add(key, ContractFieldError(reason))
            continue
        if place == 0 and parameter.name in ("self", "cls") and not inspect.ismethod(function):
            problems.add(key, ContractFieldError(_METHOD))
            continue
        rest = () if parameter.default is parameter.empty else (parameter.default,)
        try:
            found.append(parameter_of(parameter.name, hints.get(parameter.name, Any), *rest))
        except ContractFieldError as error:
            problems.add(key, error)
    return ArgumentSchema(found)


def accepts(function: Callable[..., object], names: tuple[str, ...]) -> str:
    """Return why a function cannot take these arguments by name; empty if callable."""
    if _yields(function):
        return _YIELDS
    try:
        return calling_of(function).misfit(names)
    except (TypeError, ValueError) as error:
        return f"Python knows no signature of {function!r:.60}: {error}."


def _yields(function: Callable[..., object]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


_YIELDS = "A generator does nothing when called. Use return instead of yield."
_METHOD = (
    "A method has its object as its first parameter, which no proposal can give: decorate a static method, or the "
    "bound one."
)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Annotated:
    """Carries a part of a function's annotations, so that the context's own need not be resolvable at run time."""

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
