"""How a user's function is called: the place of the context, the named arguments, and the meaning of the answer.

Used by `callables` when a contract is loaded. A function receives the context only where a parameter is annotated with
`Context`, and takes any subset of the action's arguments. A reader may answer with plain Python, converted to a
`Reading` here. Nothing in this module calls a function while a contract is loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, Final, get_args, get_type_hints

from readback.canon.frozen import dataclass
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.errors import ReaderTypeError

Look = Callable[[Context, Mapping[str, object]], object]

CONTEXT_NAMES: Final = frozenset({"ctx", "_ctx", "context", "_context", "_"})
"""A first parameter of such a name receives the context without an annotation, for lambdas."""
_EMPTY: Final = inspect.Parameter.empty
_UNSAID: Final = (_EMPTY, Any, object, "Any", "object")
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
ANSWERS: Final = "a mapping, a dataclass, a pydantic model, a database row with column names, None or a Reading"


@dataclass(frozen=True, slots=True)
class Calling:
    """The parameters of one function, as a call of an action fills them."""

    parameters: tuple[inspect.Parameter, ...]
    """All parameters but the context."""
    context: str
    """The parameter for the context; "" for none."""
    first: bool
    """The context is the first positional parameter."""

    @property
    def takes_all(self) -> bool:
        """Every argument is accepted by name (`**arguments`)."""
        return any(each.kind is each.VAR_KEYWORD for each in self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """The named arguments."""
        return tuple(each.name for each in self.parameters if each.kind in _NAMED)

    def misfit(self, arguments: tuple[str, ...]) -> str:
        """Return why the function cannot take these arguments by name; "" if callable."""
        for each in self.parameters:
            if each.kind is each.POSITIONAL_ONLY and each.default is _EMPTY:
                return f"The parameter {each.name!r} is positional-only, but arguments are passed by name."
            if each.kind in _NAMED and each.default is _EMPTY and each.name not in arguments:
                return (
                    f"It does not take the context and the action's arguments ({', '.join(arguments)}): the action "
                    f"has no argument {each.name!r}. Rename it, or annotate it with Context if that is meant."
                )
        return ""

    def passing(self, function: Callable[..., object]) -> Look:
        """Return a call of the function with the context in place, and with the named arguments."""
        names = None if self.takes_all else frozenset(self.names)
        first, context = self.first, self.context

        def look(ctx: Context, arguments: Mapping[str, object]) -> object:
            if names is None or arguments.keys() <= names:  # as most are
                named = arguments
            else:
                named = {name: arguments[name] for name in arguments if name in names}
            if first:
                return function(ctx, **named)
            return function(**named, **{context: ctx}) if context else function(**named)

        def look_with_all(ctx: Context, arguments: Mapping[str, object]) -> object:
            return function(ctx, **arguments)

        return look_with_all if first and names is None else look


def calling_of(function: Callable[..., object]) -> Calling:
    """Return how to call a function. Raises TypeError or ValueError for a signature unknown to Python."""
    parameters = list(inspect.signature(function).parameters.values())
    raw = inspect.get_annotations(inspect.unwrap(function)) if hasattr(function, "__annotations__") else {}
    at = next(
        (n for n, each in enumerate(parameters) if _is_context(function, raw.get(each.name, each.annotation))), -1
    )
    if at < 0 and parameters and _looks_like_context(parameters[0]):
        at = 0
    if at < 0:
        return Calling(tuple(parameters), "", first=False)
    taken = parameters.pop(at)
    return Calling(tuple(parameters), taken.name, first=at == 0 and taken.kind in _POSITIONAL)


def _looks_like_context(parameter: inspect.Parameter) -> bool:
    return (
        parameter.kind in _POSITIONAL
        and parameter.name in CONTEXT_NAMES
        and any(parameter.annotation is each or parameter.annotation == each for each in _UNSAID)
    )


def _is_context(function: Callable[..., object], annotation: object) -> bool:
    """Return whether an annotation is `Context`, also for text not resolvable at load."""
    if annotation is Context or Context in get_args(annotation):
        return True
    if not isinstance(annotation, str) or "Context" not in annotation:
        return False
    carrier: Any = _Annotated({"it": annotation})
    try:
        hints = get_type_hints(carrier, getattr(inspect.unwrap(function), "__globals__", {}))
    except (NameError, AttributeError, TypeError, SyntaxError):
        return annotation.strip("'\" ").rpartition(".")[2] == "Context"
    return hints["it"] is Context or Context in get_args(hints["it"])


class _Annotated:
    """Carries one annotation, so that the others need not be resolvable."""

    def __init__(self, annotations: dict[str, object]) -> None:
        self.__annotations__ = annotations


# --- what a reader answers -----------------------------------------------------------------------------------------


def reading_from(value: object, *, none_is_absence: bool = True) -> object:
    """Return a reader's answer as a Reading. None stays None where the reader does not declare None as absence.

    Raises:
        ReaderTypeError: the answer has no named fields, such as a list, a tuple or a number.
        UnsupportedValueError: a field has no exact JSON form, such as NaN.

    Example:
        >>> reading_from({"status": "shipped"}).value
        {'status': 'shipped'}
        >>> reading_from(None).presence.value
        'absent'
    """
    if isinstance(value, Reading):
        return value
    if value is None:
        return Reading.absent() if none_is_absence else None
    named = _named(value)
    if named is not None:
        return Reading.of(named)
    _put_away(value)
    raise ReaderTypeError(
        f"The reader returned {_kind(value)}. A reader returns {ANSWERS}.",
        remedy=_remedy(value),
    )


def readings_from(value: object) -> object:
    """Return a search's answer as a list of Readings; anything but a list is returned unchanged, and refused later."""
    if not isinstance(value, list | tuple) or hasattr(value, "_asdict"):
        _put_away(value)
        return value
    return [each if each is None else reading_from(each) for each in value]


def _named(value: object) -> Mapping[Any, object] | None:
    """Return the fields of a value by name; None for a value without names."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    dump = getattr(value, "model_dump", None)  # a pydantic model
    if callable(dump):
        dumped = dump()
        return dumped if isinstance(dumped, Mapping) else None
    mapping = getattr(value, "_mapping", None)  # a row of SQLAlchemy
    if isinstance(mapping, Mapping):
        return mapping
    as_dict = getattr(value, "_asdict", None)  # a named tuple
    if callable(as_dict):
        return as_dict() if isinstance(value, tuple) else None
    keys = getattr(value, "keys", None)  # a row of sqlite3
    if callable(keys) and hasattr(value, "__getitem__"):
        row: Any = value
        return {key: row[key] for key in row.keys()}  # noqa: SIM118 - a row's iterator gives its values
    return None


def _kind(value: object) -> str:
    if inspect.isgenerator(value):
        return "a generator"
    if inspect.isawaitable(value):
        return "a coroutine that was not awaited"
    return f"{'an' if type(value).__name__[:1] in 'aeiou' else 'a'} {type(value).__name__}"


def _remedy(value: object) -> str:
    if inspect.isawaitable(value):
        return "Define the reader with `async def`, and await the call in it."
    if isinstance(value, list):
        return "Return the one record: `return rows[0] if rows else None`."
    if isinstance(value, tuple):
        return "Return a row with column names, as with `connection.row_factory = sqlite3.Row`."
    if isinstance(value, bool):
        return "Return the record itself; `expect` or `ensure` says what must hold of it."
    return f"Return {ANSWERS}."


def _put_away(value: object) -> None:
    """Close a coroutine: an unawaited one would warn later, far from its cause."""
    if inspect.iscoroutine(value):
        value.close()
