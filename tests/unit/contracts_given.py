"""Contracts as tests give them: one that is sound, and what changes make of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from readback.adapters.cel import CelPredicates
from readback.contracts.compile import compile_contract
from readback.contracts.functions.callables import ContractParts, Reader, argument_schema, hand, reader_of
from readback.contracts.problems import Problems
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.engine.compiled_contract import CompiledContract
from readback.errors import ContractError
from readback.ports.handlers import Handler

ENGINE = CelPredicates()
LEFT_OUT = object()
CONTEXT = Context("a-1", "acme", "agent:ops", "ship", "order/o-17", "key", "stamp")

SOUND: dict[str, object] = {
    "name": "ship_order",
    "kind": "set",
    "side_effect": "low_risk_internal",
    "target": "order/{requested.order_id}",
    "identity": {"target": "authoritative.id", "tenant": "authoritative.tenant"},
    "ensure": {
        "shipped": "authoritative.status == 'shipped'",
        "carrier": "authoritative.carrier == requested.carrier",
    },
}


def ship_order(ctx: Context, order_id: str, carrier: str) -> object:
    return {"ok": True}


def order_row(ctx: Context, order_id: str, carrier: str) -> Reading:
    return Reading.of({"id": order_id, "status": "shipped", "carrier": carrier, "tenant": "acme"})


def reading(
    consistency: str = "strong",
    independence: str = "other_client",
    name: str = "",
    *,
    attributes: bool = False,
    timeout: object = None,
    source: str = "",
) -> Reader:
    return reader_of(
        order_row,
        source=source or (f"{name}-db" if name else "orders-db"),
        consistency=consistency,
        independence=independence,
        attributes=attributes,
        timeout=timeout,
        name=name,
    )


def options(**changes: object) -> dict[str, object]:
    """The sound contract's keys, with changes; LEFT_OUT takes a key away."""
    return {key: value for key, value in {**SOUND, **changes}.items() if value is not LEFT_OUT}


def compiled(
    read_by: tuple[Reader, ...] | None = None,
    function: Callable[..., object] = ship_order,
    find: Handler | None = None,
    lookup: Handler | None = None,
    **changes: object,
) -> CompiledContract:
    """The plan of the sound contract with these changes."""
    problems = Problems()
    schema = argument_schema(function, problems)
    used = (reading(),) if read_by is None else read_by
    parts = ContractParts(hand(function), schema, used, find, lookup)
    return compile_contract(options(**changes), parts, ENGINE, problems)


def refused(
    error_type: type[ContractError],
    read_by: tuple[Reader, ...] | None = None,
    function: Callable[..., object] = ship_order,
    **changes: object,
) -> dict[str, str]:
    """Compiles, expects this very error, and returns its problems: reasons by key."""
    with pytest.raises(ContractError) as caught:
        compiled(read_by, function, **changes)
    assert type(caught.value) is error_type, caught.value
    assert caught.value.exit_code == 5
    found = caught.value.details["problems"]
    assert isinstance(found, list)
    assert all(each["reason"] and each["code"] for each in found)
    return {str(each["key"]): str(each["reason"]) for each in found}
