"""Calls of frameworks that pause for a person, and answers that a model corrects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from readback.kit import Kit, ToolResult
from tests.kit.shop import Shop, key_of

BIG = {"to": "s1", "amount": 900}
LIE = "I have shipped order o-2."


class Pause(Exception):
    """The exception by which a framework leaves a call."""


def leave(parked: ToolResult) -> object:
    raise Pause(parked.action)


async def aleave(parked: ToolResult) -> object:
    return leave(parked)


def settled(kit: Kit, ask: Any, *, on_loop: bool, named: str = "p-1") -> ToolResult:
    tool = kit.tool("pay")
    if on_loop:
        return asyncio.run(kit.asettle(tool, BIG, ask, named=named))
    return kit.settle(tool, BIG, ask, named=named)


def signed(kit: Kit, shop: Shop, action: str) -> None:
    kit.approve(action, key_of(shop.home).approve(kit.client.approval(action), "alice"))


@pytest.mark.requirement("KIT-parked")
@pytest.mark.parametrize("on_loop", [False, True])
def test_the_exception_of_a_framework_passes_and_the_answer_of_the_second_call_decides(
    kit: Kit, shop: Shop, on_loop: bool
) -> None:
    with pytest.raises(Pause) as first:
        settled(kit, aleave if on_loop else leave, on_loop=on_loop)
    token = key_of(shop.home).approve(kit.client.approval(str(first.value)), "alice").as_json()
    assert settled(kit, lambda _: True, on_loop=on_loop).status == "parked"
    assert shop.acted("pay") == 0
    done = settled(kit, lambda parked: {"token": token, "action": parked.action}, on_loop=on_loop)
    assert (done.action, done.status, shop.acted("pay")) == (str(first.value), "verified", 1)
    assert settled(kit, leave, on_loop=on_loop).ok
    assert shop.acted("pay") == 1


@pytest.mark.requirement("KIT-parked")
@pytest.mark.parametrize("on_loop", [False, True])
def test_a_signed_call_waits_for_the_answer_of_the_framework_and_a_rejection_wins(
    kit: Kit, shop: Shop, on_loop: bool
) -> None:
    with pytest.raises(Pause) as first:
        settled(kit, leave, on_loop=on_loop)
    signed(kit, shop, str(first.value))
    with pytest.raises(Pause):
        settled(kit, leave, on_loop=on_loop)
    assert settled(kit, lambda _: False, on_loop=on_loop).status == "refused"
    kit.client.resume()
    assert shop.acted("pay") == 0


@pytest.mark.requirement("KIT-parked")
def test_a_question_before_the_call_parks_it_and_never_executes_it(kit: Kit, shop: Shop) -> None:
    tool = kit.tool("pay")
    assert asyncio.run(tool.apark({"to": "s2", "amount": 5}, operation="small")) is None
    assert asyncio.run(kit.tool("ship_order").apark({"order_id": "o-1"})) is None
    parked = asyncio.run(tool.apark(BIG, operation="p-1"))
    assert parked is not None
    assert (parked.status, shop.acted("pay"), shop.acted("ship_order")) == ("parked", 0, 0)
    assert asyncio.run(tool.arun_unless_held(BIG, operation="p-1")).action == parked.action


@pytest.mark.requirement("KIT-parked")
def test_the_rejection_of_a_call_cancels_its_parked_action_alone(kit: Kit, shop: Shop) -> None:
    first, second = (kit.tool("pay").run(BIG, operation=name).action for name in ("p-1", "p-2"))
    asyncio.run(kit.areject_held(kit.tool("pay"), BIG, "not now", operation="p-1"))
    asyncio.run(kit.areject_held(kit.tool("pay"), BIG, "not now", operation="unknown"))
    assert kit.client.get(first).settled
    assert kit.resume(second).status == "parked"


@pytest.mark.requirement("KIT-final")
@pytest.mark.parametrize("most", [0, 1, 2])
def test_an_answer_is_corrected_as_often_as_allowed_and_then_replaced(kit: Kit, shop: Shop, most: int) -> None:
    kit.tool("ship_order").run({"order_id": "o-2", "carrier": "dhl"})
    checks, other = kit.corrections(most), kit.corrections(most, run="elsewhere")
    found = [checks.check(LIE) if number % 2 else asyncio.run(checks.acheck(LIE)) for number in range(most + 1)]
    assert [bool(each.correction) for each in found] == [True] * most + [False]
    assert [each.ok for each in found] == [False] * (most + 1)
    assert all("shipped order" not in each.text for each in found)
    assert other.check(LIE).ok


@pytest.mark.requirement("KIT-tools")
def test_the_own_tools_are_all_but_those_of_the_host(kit: Kit) -> None:
    assert {*kit.tools} - {each.name for each in kit.own_tools} == {"enter"}
