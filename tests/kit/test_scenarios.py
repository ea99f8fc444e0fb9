"""The scenario list of every framework, with a direct driver: acts are counted, texts are never trusted."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from readback.domain.outcome.reporting import USER_STATUS
from readback.domain.state import ReportKey
from readback.kit import Kit, ShownCall, ToolResult
from tests.kit.shop import ENTER_SCHEMA, Shop, key_of

COMPLETED = USER_STATUS[ReportKey.COMPLETED]
BIG = {"to": "bob", "amount": 500}


@pytest.mark.requirement("KIT-result")
def test_a_verified_call_is_ok_and_acts_once(kit: Kit, shop: Shop) -> None:
    found = kit.tool("ship_order").run({"order_id": "o-1"})
    assert (found.ok, found.status, found.is_error, shop.acted("ship_order")) == (True, "verified", False, 1)
    assert found.message == COMPLETED
    assert found.outcome is not None
    assert found.outcome.cite() in found.text


@pytest.mark.requirement("KIT-result")
def test_a_lie_is_no_success(kit: Kit, shop: Shop) -> None:
    found = kit.tool("ship_order").run({"order_id": "o-1", "carrier": "dhl"})
    assert (found.ok, found.status, found.is_error, shop.acted("ship_order")) == (False, "not_verified", True, 1)
    assert COMPLETED not in found.text
    assert "Successfully" not in found.text


@pytest.mark.requirement("KIT-refused")
@pytest.mark.parametrize(
    "given", [None, 7, "[1]", "{", '"text"', ["o-1"], {}, {"order_id": 7}, {"order_id": "o-1", "more": 1}, {1: "o-1"}]
)
def test_arguments_that_do_not_fit_are_refused_and_nothing_is_executed(kit: Kit, shop: Shop, given: Any) -> None:
    found = kit.tool("ship_order").run(given)
    assert (found.status, found.code, found.data["verdict"]) == ("refused", "input.arguments", "not_checked")
    assert found.message == "The action has not been executed."
    assert asyncio.run(kit.tool("ship_order").arun(given)).status == "refused"
    assert kit.tool("ship_order").begin(given).result.status == "refused"
    assert shop.acted("ship_order") == 0
    assert kit.client.list() == []


@pytest.mark.requirement("KIT-foreign")
def test_a_foreign_tool_is_verified_and_its_own_answer_is_shown(kit: Kit, shop: Shop) -> None:
    found = kit.tool("enter").run('{"name": "ann", "amount": 3}')
    assert (found.status, shop.acted("enter")) == ("verified", 1)
    assert found.content == "Successfully entered 3 under ann"
    assert found.text.endswith("Successfully entered 3 under ann")
    assert "Successfully" not in found.verdict_text


@pytest.mark.requirement("KIT-foreign")
def test_a_lying_foreign_tool_is_not_quoted_as_a_success(kit: Kit, shop: Shop) -> None:
    found = kit.tool("enter").run({"name": "lost", "amount": 3})
    assert (found.ok, found.content, shop.acted("enter")) == (False, None, 1)
    assert "Successfully" not in found.text


@pytest.mark.requirement("KIT-foreign", "L03")
def test_a_tool_that_raises_after_its_write_is_judged_by_the_state(kit: Kit, shop: Shop) -> None:
    own = kit.tool("open_ticket").run({"queue": "boom", "title": "t"})
    foreign = kit.tool("enter").run({"name": "boom", "amount": 3})
    assert (own.status, foreign.status) == ("verified", "verified")
    assert (shop.acted("open_ticket"), shop.acted("enter"), foreign.content) == (1, 1, None)


@pytest.mark.requirement("KIT-foreign")
def test_a_call_may_bring_its_own_way_to_the_foreign_tool(kit: Kit, shop: Shop) -> None:
    kit.govern("enter", ENTER_SCHEMA)
    without = kit.tool("enter").run({"name": "ann", "amount": 1})
    assert (without.ok, shop.acted("enter")) == (False, 0)
    found = kit.tool("enter").run({"name": "bob", "amount": 1}, call=shop.enter_async)
    assert (found.status, shop.acted("enter")) == ("verified", 1)


def test_a_pending_call_is_waited_for_and_never_repeated(kit: Kit, shop: Shop) -> None:
    tool = kit.tool("open_ticket")
    name = kit.operation("open_ticket", {"queue": "slow", "title": "t"}, shown=[])
    first = tool.run({"queue": "slow", "title": "t"}, operation=name, wait=0)
    assert (first.status, first.waits, first.is_error) == ("pending", True, True)
    assert "readback_wait" in first.text
    again = tool.run({"queue": "slow", "title": "t"}, operation=name, wait=0)
    assert (again.status, again.action) == ("pending", first.action)
    shop.slow.set()
    kit.client.signal(first.action)
    waited = kit.tool("readback_wait").run({"action": first.action, "seconds": 5})
    assert (waited.status, waited.action, shop.acted("open_ticket")) == ("verified", first.action, 1)
    assert kit.tool("readback_status").run({"action": first.action}).is_error is False


@pytest.mark.requirement("KIT-doubt-joined")
def test_a_repeated_call_joins_the_first_while_that_is_in_doubt(kit: Kit, shop: Shop) -> None:
    given = {"queue": "slow", "title": "t"}
    first = kit.tool("open_ticket").run(given, operation=kit.operation("open_ticket", given, shown=[]), wait=0)
    for shown in ([ShownCall("open_ticket", given)], [ShownCall("open_ticket", given, first.text)]):
        name = kit.operation("open_ticket", given, shown=shown)
        assert kit.tool("open_ticket").run(given, operation=name, wait=0).action == first.action
    assert shop.acted("open_ticket") == 1


@pytest.mark.requirement("KIT-operation")
def test_the_same_call_again_on_purpose_acts_again(kit: Kit, shop: Shop) -> None:
    given = {"queue": "q", "title": "t"}
    tool, shown = kit.tool("open_ticket"), list[ShownCall]()
    for _ in range(3):
        name = kit.operation("open_ticket", given, shown=shown)
        found = [tool.run(given, operation=name) for _ in range(2)]  # the framework retries each call
        assert [each.status for each in found] == ["verified", "verified"]
        shown.append(ShownCall("open_ticket", given, found[0].text))
    assert shop.acted("open_ticket") == 3


@pytest.mark.requirement("KIT-parked", "KIT-waits-for")
def test_a_parked_call_is_signed_and_continued(kit: Kit, shop: Shop) -> None:
    tool = kit.tool("pay")
    assert tool.waits_for(BIG, operation="p-1")
    assert not tool.waits_for({**BIG, "amount": 5}, operation="p-2")
    assert kit.client.list() == []
    parked = tool.run(BIG, operation="p-1")
    assert (parked.status, parked.waits, parked.is_error, shop.acted("pay")) == ("parked", True, True, 0)
    assert parked.packet is not None
    assert (parked.packet["action"], parked.packet["requested"]) == (parked.action, BIG)
    assert tool.waits_for(BIG, operation="p-1")
    for unsigned in (True, None, "yes", {"approved": True}, {"token": None}, 1):
        assert kit.decide(parked.action, unsigned).status == "parked"
    assert shop.acted("pay") == 0
    held = tool.held(BIG, operation="p-1")
    assert held is not None
    assert (held.action, held.status, held.packet) == (parked.action, "parked", parked.packet)
    assert tool.held(BIG, operation="p-2") is None
    token = key_of(shop.home).approve(kit.client.approval(parked.action), "alice")
    kit.approve(parked.action, token)
    signed = tool.held(BIG, operation="p-1")
    assert signed is not None
    assert (signed.action, signed.status, shop.acted("pay")) == (parked.action, "parked", 0)
    done = kit.decide(parked.action, {"token": token.as_json()})
    assert (done.status, done.action, shop.acted("pay")) == ("verified", parked.action, 1)
    assert not tool.waits_for(BIG, operation="p-1")
    assert asyncio.run(tool.aheld(BIG, operation="p-1")) is None
    assert tool.run(BIG, operation="p-1").action == parked.action
    assert shop.acted("pay") == 1


@pytest.mark.requirement("KIT-parked")
def test_a_forged_signature_counts_for_nothing(kit: Kit, shop: Shop) -> None:
    parked = kit.tool("pay").run(BIG, operation="p-1")
    token = key_of(shop.home).approve(kit.client.approval(parked.action), "alice").as_json()
    for bad in ({**token, "signature": "AAAA"}, {"signature": "x"}, b"x", '{"approver": "alice"}'):
        found = kit.decide(parked.action, bad)
        assert (found.status, found.code.partition(".")[0]) == ("parked", "approval")
    assert shop.acted("pay") == 0


@pytest.mark.requirement("KIT-rejected")
@pytest.mark.parametrize("answer", [False, {"approve": False, "reason": "too much"}, {"rejected": "no"}])
def test_a_rejected_call_never_acts_also_with_a_signature_and_a_worker(kit: Kit, shop: Shop, answer: Any) -> None:
    parked = kit.tool("pay").run(BIG, operation="p-1")
    token = key_of(shop.home).approve(kit.client.approval(parked.action), "alice")
    kit.approve(parked.action, token)  # approved in the ledger, and rejected in the framework
    rejected = kit.decide(parked.action, answer)
    assert (rejected.status, rejected.waits) == ("refused", False)
    late = kit.approve(parked.action, token)
    assert (late.status, late.code) == ("refused", "approval.replayed")
    kit.client.work(until_idle=True, poll=0.05)
    assert kit.decide(parked.action, None).status == "refused"
    assert shop.acted("pay") == 0


@pytest.mark.requirement("KIT-rejected")
def test_a_rejection_after_the_act_reverses_nothing(kit: Kit, shop: Shop) -> None:
    done = kit.tool("pay").run({"to": "ann", "amount": 5}, operation="p-1")
    assert done.status == "verified"
    assert kit.reject(done.action, "too late").status == "verified"
    assert shop.sql("select id from payments") == [{"id": "ann"}]


@pytest.mark.requirement("KIT-handed-out")
@pytest.mark.parametrize("name", ["ann", "lost", "boom"])
def test_a_host_makes_the_call_between_begin_and_end(kit: Kit, shop: Shop, name: str) -> None:
    tool, given = kit.tool("enter"), {"name": name, "amount": 3}
    attempt = tool.begin(given, operation="e-1")
    assert (attempt.allowed, attempt.result.status) == (True, "pending")
    assert not tool.begin(given, operation="e-1").allowed
    try:
        value, error = shop.enter(given), None
    except ConnectionError as raised:
        value, error = None, raised
    found = tool.end(attempt.action, value, error=error)
    assert found.ok is (name != "lost")
    assert found.content == (value if name == "ann" else None)
    again = tool.end(attempt.action, value, error=error)
    assert (again.status, shop.acted("enter")) == (found.status, 1)


@pytest.mark.requirement("KIT-handed-out")
def test_a_report_that_fails_is_never_told_as_not_executed(kit: Kit, shop: Shop) -> None:
    for action in ("no-such-action", "", kit.tool("ship_order").run({"order_id": "o-1"}).action):
        found = kit.tool("enter").end(action, "done")
        assert found.status != "refused"
        assert "Not executed" not in found.text


@pytest.mark.requirement("KIT-parked")
def test_a_parked_hand_out_is_not_allowed(kit: Kit, shop: Shop) -> None:
    attempt = kit.tool("pay").begin(BIG, operation="p-1")
    assert (attempt.allowed, attempt.result.status) == (False, "parked")
    token = key_of(shop.home).approve(kit.client.approval(attempt.action), "alice")
    assert kit.approve(attempt.action, token).status == "parked"
    assert kit.tool("pay").begin(BIG, operation="p-1").allowed
    assert shop.acted("pay") == 0


@pytest.mark.requirement("KIT-everywhere")
def test_five_calls_in_parallel_act_once_each(kit: Kit, shop: Shop) -> None:
    async def five() -> list[ToolResult]:
        tool = kit.tool("ship_order")
        return await asyncio.gather(*(tool.arun({"order_id": f"o-{n}"}) for n in range(5)))

    assert [each.status for each in asyncio.run(five())] == ["verified"] * 5
    with ThreadPoolExecutor(5) as pool:
        found = [*pool.map(lambda n: kit.tool("ship_order").run({"order_id": f"o-{n}"}), range(5, 10))]
    assert [each.status for each in found] == ["verified"] * 5
    assert shop.acted("ship_order") == 10


@pytest.mark.requirement("KIT-same-operation")
def test_five_equal_calls_at_once_act_once(kit: Kit, shop: Shop) -> None:
    async def five() -> list[ToolResult]:
        tool = kit.tool("open_ticket")
        return await asyncio.gather(*(tool.arun({"queue": "q", "title": "t"}, operation="t-1") for _ in range(5)))

    found = asyncio.run(five())
    assert {each.status for each in found} == {"verified"}
    assert (len({each.action for each in found}), shop.acted("open_ticket")) == (1, 1)
