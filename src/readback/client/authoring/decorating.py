"""Checks of an author's parameters to a decorator, each with an error and a remedy.

Used by `action` alone. Nothing here compiles a contract or calls a function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Final

from readback.contracts.functions.arguments import ArgumentSchema
from readback.contracts.functions.callables import Reader, accepts, argument_names, hand, search_hand
from readback.contracts.functions.key_use import searches_by_its_own_stamp
from readback.contracts.problems import Problems, did_you_mean
from readback.errors import ContractFieldError, UsageError
from readback.ports.handlers import Handler

_READING_VERBS: Final = re.compile(r"^(?:get|read|fetch|load|find|look_up|lookup|select|show)_(?=\w)")


def built_hand(
    what: str, function: Callable[..., object] | None, schema: ArgumentSchema, problems: Problems
) -> Handler | None:
    """Return the handler of an author's function; None without a function. An unusable function becomes a problem."""
    if function is None:
        return None
    why = accepts(function, schema.names)
    if why:
        problems.add(what, ContractFieldError(why))
    return search_hand(function) if what == "find" else hand(function)


def target_of(function: Callable[..., object], readers: Sequence[Reader], named_by: tuple[str, ...]) -> str:
    """Return the target's name: the reader's name with the identifying arguments.

    Example:
        >>> def ship(order_id: str, carrier: str) -> None: ...
        >>> target_of(ship, [], ("order_id",))
        'ship/{order_id}'
    """
    own = argument_names(function)
    reader = readers[0].function if readers else None
    takes = named_by or (argument_names(reader) if reader is not None else own)
    called = str(getattr(reader, "__name__", ""))
    if not called.isidentifier():  # a lambda, or an object
        called = str(getattr(function, "__name__", "record"))
    called = _READING_VERBS.sub("", called) if called.isidentifier() else "record"
    return "/".join([called, *(f"{{{each}}}" for each in (named_by or own) if each in takes)])


def place_of(function: Callable[..., object]) -> str:
    """Return the file and line of a function's definition; "" for a function not written in Python."""
    bare = inspect.unwrap(function)
    code = getattr(getattr(bare, "__func__", bare), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if isinstance(code, CodeType) else ""


def refuse_foreign_stamps(name: str, readers: Sequence[Reader], problems: Problems) -> None:
    """Add a problem for each inherited reader that searches by `ctx.stamp`. There the stamp is the reversal's."""
    for each in readers:
        if each.function is not None and searches_by_its_own_stamp(each.function):
            reason = (
                f"{name!r} inherits this reader, which searches by `ctx.stamp`: in a compensation that is the "
                "reversal's own stamp, which no record bears. Read `ctx.subject_stamp`, which is right in both, or "
                "give the compensation a reader of its own."
            )
            problems.add(f"readers.{each.name}", ContractFieldError(reason))


def refuse_unknown_terms(terms: Mapping[str, object]) -> None:
    """Raises UsageError for an unknown key of `read`."""
    known = ("strong", "source", "consistency", "independence", "timeout", "attributes", "whole_region", "name")
    for key in terms:
        if key not in known:
            raise UsageError(f"`read` takes no {key!r}.{did_you_mean(key, known)}")
    if not isinstance(terms.get("strong", False), bool):
        raise UsageError(f"strong={terms['strong']!r:.40} is not True or False.", remedy="Write strong=True.")


def refuse_any_but(kind: type, what: str, given: object, remedy: str) -> None:
    """Raises UsageError for anything but an action."""
    if not isinstance(given, kind):
        raise UsageError(f"`{what}` takes an action, not a {type(given).__name__}.", remedy=remedy)


def refuse_any_but_functions(given: object, *, again: bool) -> None:
    """Raises ContractFieldError for anything but a function. `again`: the value is an action already."""
    if callable(given) and not again:
        return
    what = "an action already" if again else f"a {type(given).__name__}"
    raise ContractFieldError(
        f"An action needs a function (got {what}).",
        remedy="Decorate a plain function, a static method or a bound method, once.",
    )
