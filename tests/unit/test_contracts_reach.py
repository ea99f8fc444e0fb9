"""Whether a function hands the idempotency key on is seen in its code, when the contract is loaded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import pytest

from readback.client.authoring.action import action
from readback.contracts.functions.key_use import why_keyless
from readback.domain.context import Context
from readback.errors import ContractError

SENT: list[Any] = []


def send(*given: Any, **more: Any) -> None:
    SENT.append((given, more))


def by_key(ctx: Context, n: int) -> object:
    return send(n, key=ctx.idempotency_key)


def whole(ctx: Context, n: int) -> object:
    return send(ctx, n)


def in_an_inner_function(ctx: Context, n: int) -> object:
    def inner() -> None:
        send(ctx)

    return inner()


def in_a_list(ctx: Context, n: int) -> object:
    return [send(one.idempotency_key) for one in [ctx]]


def by_name(ctx: Context, n: int) -> object:
    return send(getattr(ctx, "idempotency_key"))  # noqa: B009 - a way in which it may be written


async def later(ctx: Context, n: int) -> object:
    return send(ctx.idempotency_key)


def never(ctx: Context, n: int) -> object:
    return send(n)


def by_stamp(ctx: Context, n: int) -> object:
    return send(n, ctx.stamp, ctx.tenant)


def inner_stamp(ctx: Context, n: int) -> object:
    return [send(ctx.stamp) for _ in range(n)]


async def never_later(ctx: Context, n: int) -> object:
    return send(n)


def wrapped(function: Callable[..., object]) -> Callable[..., object]:
    @wraps(function)
    def outer(*args: object, **named: object) -> object:
        return function(*args, **named)

    return outer


class Holder:
    def keyed(self, ctx: Context, n: int) -> object:
        return send(ctx.idempotency_key)

    def keyless(self, ctx: Context, n: int) -> object:
        return send(self, n)


@pytest.mark.requirement("KEY-reaches-the-tool")
@pytest.mark.parametrize(
    "function",
    [by_key, whole, in_an_inner_function, in_a_list, by_name, later, wrapped(by_key), Holder().keyed, partial(never)],
)
def test_a_function_that_passes_the_key_or_the_context_on_may_declare_it(function: Callable[..., object]) -> None:
    assert why_keyless(function) == ""


@pytest.mark.requirement("KEY-reaches-the-tool")
@pytest.mark.parametrize("function", [never, by_stamp, inner_stamp, never_later, wrapped(never), Holder().keyless])
def test_a_function_that_passes_neither_on_may_not(function: Callable[..., object]) -> None:
    assert "idempotency_key" in why_keyless(function)


@pytest.mark.requirement("KEY-reaches-the-tool")
def test_such_a_contract_is_refused_when_it_is_loaded() -> None:
    options: dict[str, Any] = {
        "kind": "set", "side_effect": "ephemeral_write", "target": "x/{requested.n}",
        "ensure": {"there": "authoritative.n == requested.n"}, "unverifiable": "nobody can read it",
    }  # fmt: skip
    with pytest.raises(ContractError, match="idempotency_key"):
        action(**options, execute={"honours_key": True})(never).load()
    action(**options)(never).load()
    action(**options, execute={"honours_key": True})(by_key).load()
