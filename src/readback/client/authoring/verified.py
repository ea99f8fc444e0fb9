"""`verified`: a contract for an existing function, as a wrapper or as a decorator.

The result is the same action as from `@action`, with fewer words: a reader, and the expected fields of the record.
Calling the result proposes; `Readback.run` acts.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Concatenate, Final, overload

from readback.canon import Json, json_value
from readback.canon.frozen import dataclass
from readback.client.authoring.action import ActionDecorator, ActionDefinition, P
from readback.client.authoring.contract_keys import Condition, Duration, KindName, SideEffectName
from readback.contracts.functions.callables import Reader
from readback.domain.context import Context
from readback.domain.kind import Kind
from readback.domain.side_effect import SideEffect
from readback.errors import CanonError, ContractFieldError

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class _NotGiven:
    """Stands for a missing parameter where None has a meaning."""

    def __repr__(self) -> str:
        return "<not given>"


_NOT_GIVEN: Final = _NotGiven()


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument's value within `expect`. Made by `arg`."""

    name: str


def arg(name: str) -> Argument:
    """Stand for an argument of the action in `expect`.

    Raises:
        ContractFieldError: `name` cannot be an argument's name.

    Example:
        >>> from readback import arg
        >>> arg("carrier").name
        'carrier'
    """
    if not _is_name(name):
        raise ContractFieldError(f"arg({name!r:.40}) is not an argument's name.", remedy='Write arg("carrier").')
    return Argument(name)


@overload
def verified(
    function: Callable[Concatenate[Context, P], object],
    /,
    *,
    expect: object = ...,
    read: Callable[..., object] | Reader | None = ...,
    find: Callable[..., object] | None = ...,
    undo: Callable[..., object] | ActionDefinition[Any] | None = ...,
    id: str | Mapping[str, str] = ...,
    kind: KindName | Kind | None = ...,
    risk: SideEffectName | SideEffect | None = ...,
    target: str = ...,
    within: Duration | None = ...,
    late: Duration | None = ...,
    operation: str = ...,
    strong: bool = ...,
    name: str = ...,
) -> ActionDefinition[P]: ...


@overload
def verified(
    function: Callable[P, object],
    /,
    *,
    expect: object = ...,
    read: Callable[..., object] | Reader | None = ...,
    find: Callable[..., object] | None = ...,
    undo: Callable[..., object] | ActionDefinition[Any] | None = ...,
    id: str | Mapping[str, str] = ...,
    kind: KindName | Kind | None = ...,
    risk: SideEffectName | SideEffect | None = ...,
    target: str = ...,
    within: Duration | None = ...,
    late: Duration | None = ...,
    operation: str = ...,
    strong: bool = ...,
    name: str = ...,
) -> ActionDefinition[P]: ...


@overload
def verified(
    *,
    expect: object = ...,
    read: Callable[..., object] | Reader | None = ...,
    find: Callable[..., object] | None = ...,
    undo: Callable[..., object] | ActionDefinition[Any] | None = ...,
    id: str | Mapping[str, str] = ...,
    kind: KindName | Kind | None = ...,
    risk: SideEffectName | SideEffect | None = ...,
    target: str = ...,
    within: Duration | None = ...,
    late: Duration | None = ...,
    operation: str = ...,
    strong: bool = ...,
    name: str = ...,
) -> ActionDecorator: ...


def verified(
    function: Any = None,
    /,
    *,
    expect: object = _NOT_GIVEN,
    read: Callable[..., object] | Reader | None = None,
    find: Callable[..., object] | None = None,
    undo: Callable[..., object] | ActionDefinition[Any] | None = None,
    id: str | Mapping[str, str] = "",  # noqa: A002 - the word that an author looks for
    kind: KindName | Kind | None = None,
    risk: SideEffectName | SideEffect | None = None,
    target: str = "",
    within: Duration | None = None,
    late: Duration | None = None,
    operation: str = "",
    strong: bool = False,
    name: str = "",
) -> Any:
    """Make a verified action of a function, sync or async, as a wrapper or as a decorator.

    Args:
        function: The acting function. Left out, `verified(...)` is a decorator.
        expect: The expected record: fields with their values, `arg("carrier")` for the value of an argument,
            an expression, or None where the record must be gone.
        read: Reads the record, with any subset of the arguments, and returns a mapping, a dataclass, a pydantic
            model, a row, None (absent) or a Reading. `@ship.read` adds a reader later.
        find: Finds every effect with `ctx.stamp`, as a list.
        undo: Reverses the action: `verified(cancel_order, expect={"status": "open"})`, or a function where `kind` is
            "create".
        id: The argument that names the record, or `{"order_id": "number"}` with the record's field.
        kind: "set" where left out. A create, a send or a charge names `kind`, `risk` and `operation`.
        risk: The side-effect class, "low_risk_internal" where left out.
        target: The template of the target. Left out, the target is made of `id`, or of the arguments of `read`.
        within: The time for the effect to become visible ("10s").
        late: The time after `within` during which the effect may still land ("1h").
        operation: A template for the intent's name: "ship {order_id}".
        strong: Declares that `read` reads the system of record itself, past caches, by another path than the action.
        name: The contract's name; the function's name where left out.

    Returns:
        The action. Calling the action proposes, and `Readback.run` acts.

    Raises:
        ContractFieldError: a parameter has a wrong type. The first proposal raises other faults.

    Example:
        >>> from readback import Readback, arg, verified
        >>> orders = {"o-17": {"status": "open"}}
        >>> def ship_function(order_id: str, carrier: str) -> None:
        ...     orders[order_id] = {"status": "shipped", "carrier": carrier}
        >>> ship = verified(ship_function, read=lambda order_id: orders.get(order_id), strong=True,
        ...     target="order/{order_id}", expect={"status": "shipped", "carrier": arg("carrier")})
        >>> with Readback.open("memory:") as rb:
        ...     rb.run(ship("o-17", carrier="dhl")).verified
        True
    """
    _refuse_wrong_kinds(read, find, undo, strong)
    wanted: Mapping[str, object] = {"kind": kind, "side_effect": risk, "within": within, "late_window": late}
    options = {key: value for key, value in wanted.items() if value is not None}
    options |= {key: value for key, value in (("operation", operation), ("name", name)) if value != ""}
    options["ensure"] = expectation(expect)
    identity = _identity(id)
    if identity:
        options["identity"] = identity
    make = partial(_made, options=options, read=read, find=find, undo=undo, named_by=id, target=target, strong=strong)
    return make if function is None else make(function)


def _made(
    function: Callable[..., object],
    options: Mapping[str, object],
    read: Callable[..., object] | Reader | None,
    find: Callable[..., object] | None,
    undo: Callable[..., object] | ActionDefinition[Any] | None,
    named_by: str | Mapping[str, str],
    target: str,
    strong: bool,
) -> ActionDefinition[Any]:
    given = dict(options)
    if isinstance(read, Reader):
        given["readers"] = [read]
    if target:
        given["target"] = target
    by = () if not named_by else (named_by,) if isinstance(named_by, str) else tuple(named_by)
    made: ActionDefinition[Any] = ActionDefinition(function, given, short=True, named_by=by)
    if read is not None and not isinstance(read, Reader):
        made.read(strong=strong)(read)
    if find is not None:
        finding: Any = find
        made.find(finding)
    if undo is not None:
        _undone(made, undo, given)
    return made


def _undone(made: ActionDefinition[Any], undo: Any, options: Mapping[str, object]) -> None:
    if isinstance(undo, ActionDefinition):
        made.compensate(undo)
        return
    if options.get("kind") != "create":
        raise ContractFieldError(
            "The state after `undo` is unknown: only for a create it defaults to the record's absence.",
            remedy='Write undo=verified(cancel_order, expect={"status": "open"}).',
        )
    made.compensate(kind="delete", ensure={"gone": "authoritative == null"})(undo)


def _identity(given: object) -> dict[str, str]:
    """`{"order_id": "number"}`: the record's field "number" identifies the record; another number is another record."""
    if isinstance(given, str) and (not given or _is_name(given)):
        return {}
    if not isinstance(given, Mapping) or not all(_is_name(k) and _is_name(v) for k, v in given.items()):
        raise ContractFieldError(
            f"id={given!r:.60} is not an argument's name.", remedy='Write id="order_id", or id={"order_id": "number"}.'
        )
    pairs = [f"authoritative.{field} == requested.{name}" for name, field in given.items()]
    return {"target": " && ".join(pairs)} if pairs else {}


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _refuse_wrong_kinds(read: object, find: object, undo: object, strong: object) -> None:
    for key, given in (("read", read), ("find", find), ("undo", undo)):
        if given is not None and not callable(given) and not isinstance(given, Reader):
            raise ContractFieldError(
                f"{key}= takes a function, not {given!r:.40}.", remedy="Pass the function itself, without a call."
            )
        if inspect.isclass(given):
            raise ContractFieldError(f"{key}= takes a function, not the class {given.__name__}.")
    if not isinstance(strong, bool):
        raise ContractFieldError(f"strong={strong!r:.40} is not True or False.", remedy="Write strong=True.")


# --- what is expected of the record --------------------------------------------------------------------------------


def expectation(expect: object) -> Condition | dict[str, Condition]:
    """Return `expect` as named postconditions of a contract.

    Raises:
        ContractFieldError: `expect` is empty, a field has no name, or a value has no exact JSON form.

    Example:
        >>> expectation({"status": "shipped", "carrier": arg("carrier")})
        {'status': "authoritative.status == 'shipped'", 'carrier': 'authoritative.carrier == requested.carrier'}
    """
    if expect is None:
        return {"gone": "authoritative == null"}
    if isinstance(expect, str) or (callable(expect) and not inspect.isclass(expect)):
        return expect
    if not isinstance(expect, Mapping) or not expect:
        raise ContractFieldError(
            f"expect={expect!r:.60} states nothing about the record.",
            remedy='Write expect={"status": "shipped"}, an expression, or None where the record must be gone.',
        )
    return {_label(field): _condition(field, value) for field, value in expect.items()}


def _label(field: object) -> str:
    if not isinstance(field, str) or not all(_is_name(part) for part in field.split(".")):
        raise ContractFieldError(
            f"expect names no field with {field!r:.60}.",
            remedy='Name a field, such as "status" or "address.city"; write an expression for others.',
        )
    return field


def _condition(field: str, value: object) -> Condition:
    if callable(value) and not isinstance(value, Argument):
        raise ContractFieldError(
            f"expect of {field!r} is a function.", remedy="Write a value, arg(...), or expect= as one expression."
        )
    left = f"authoritative.{field}"
    if isinstance(value, Argument):
        return f"{left} == requested.{value.name}"
    if isinstance(value, Decimal):
        raise ContractFieldError(
            f"expect of {field!r} is a Decimal, but a record holds text or a number.",
            remedy=f"Write an expression: expect=\"dec_eq({left}, '{value}')\".",
        )
    try:
        return f"{left} == {_literal(json_value(value))}"
    except CanonError as error:
        raise ContractFieldError(f"expect of {field!r} has no exact JSON form: {error.message}") from None


def _literal(value: Json) -> str:
    """Return a JSON value in expression syntax."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)}: {_literal(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return repr(value)


def _text(value: str) -> str:
    parts = [c if c.isprintable() and c not in "'\\" else _escaped(c) for c in value]
    return "'" + "".join(parts) + "'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return "\\" + character
    point = ord(character)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
