"""One kit from threads, event loops and run_sync at once; and a crash inside a tool, resumed by another process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from readback.kit import Kit, ShownCall, ToolResult
from tests.architecture.tree import ROOT
from tests.kit.shop import ENTER_SCHEMA, Shop

TICKET = {"queue": "crash", "title": "t"}
ENTRY = {"name": "crash", "amount": 3}
CRASHING = """
import sys
from pathlib import Path
from readback.kit import Kit
from tests.kit.shop import ENTER_SCHEMA, Shop

shop = Shop(Path(sys.argv[1]))
with Kit.open(**shop.opened()) as kit:
    kit.govern("enter", ENTER_SCHEMA, shop.enter)
    name = sys.argv[2]
    arguments = {"queue": "crash", "title": "t"} if name == "open_ticket" else {"name": "crash", "amount": 3}
    operation = kit.operation(name, arguments, shown=[])
    kit.tool(name).run(arguments, operation=operation)
"""


@pytest.mark.requirement("KIT-same-operation")
@pytest.mark.parametrize(("name", "arguments"), [("open_ticket", TICKET), ("enter", ENTRY)])
def test_after_a_crash_inside_the_tool_the_same_call_is_answered_from_the_ledger(
    shop: Shop, name: str, arguments: dict[str, Any]
) -> None:
    died = subprocess.run([sys.executable, "-c", CRASHING, str(shop.home), name], cwd=ROOT, check=False)
    assert (died.returncode, shop.acted(name)) == (9, 1)
    with Kit.open(**shop.opened()) as kit:
        kit.govern("enter", ENTER_SCHEMA, shop.enter)
        again = kit.tool(name).run(arguments, operation=kit.operation(name, arguments, shown=[]))
        assert (again.status, shop.acted(name)) == ("verified", 1)
        shown = [ShownCall(name, arguments, again.text)]
        assert kit.operation(name, arguments, shown=shown) != kit.operation(name, arguments, shown=[])


@pytest.mark.requirement("KIT-everywhere")
def test_threads_loops_and_run_sync_share_one_kit(kit: Kit, shop: Shop) -> None:
    tool, entering = kit.tool("ship_order"), kit.tool("enter")

    def in_thread(number: int) -> list[ToolResult]:
        return [tool.run({"order_id": f"o-{number}"}), entering.run({"name": f"n-{number}", "amount": 1})]

    def in_loop(number: int) -> list[ToolResult]:
        async def both() -> list[ToolResult]:
            return [
                *await asyncio.gather(
                    tool.arun({"order_id": f"o-{number}"}),
                    entering.arun({"name": f"n-{number}", "amount": 1}, call=shop.enter_async),
                )
            ]

        return asyncio.run(both())

    def in_running_loop(number: int) -> list[ToolResult]:
        async def blocking() -> list[ToolResult]:
            return in_thread(number)

        return asyncio.run(blocking())

    ways: list[Callable[[int], list[ToolResult]]] = [in_thread, in_loop, in_running_loop]
    with ThreadPoolExecutor(6) as pool:
        found = [*pool.map(lambda n: ways[n % 3](n), range(18))]
    assert {result.status for results in found for result in results} == {"verified"}
    assert (shop.acted("ship_order"), shop.acted("enter")) == (18, 18)


@pytest.mark.requirement("KIT-everywhere")
def test_a_foreign_async_tool_runs_in_the_callers_loop_and_context(kit: Kit, shop: Shop) -> None:
    seen: list[tuple[bool, str]] = []

    async def main() -> None:
        here = asyncio.get_running_loop()

        async def way(given: dict[str, Any]) -> str:
            seen.append((asyncio.get_running_loop() is here, kit.current_run))
            return shop.enter(given)

        with kit.session("chat-7"):
            assert (await kit.tool("enter").arun({"name": "ann", "amount": 1}, call=way)).ok

    asyncio.run(main())
    assert seen == [(True, "chat-7")]
    assert [each.contract for each in kit.client.list(run="chat-7")] == ["enter"]


@pytest.mark.requirement("KIT-everywhere")
def test_clients_of_ended_loops_are_used_again(kit: Kit, shop: Shop) -> None:
    before = threading.active_count()
    for number in range(12):
        assert asyncio.run(kit.tool("ship_order").arun({"order_id": f"o-{number}"})).ok
    assert threading.active_count() <= before + 6
    assert len(os.listdir("/proc/self/fd")) < 200


@pytest.mark.requirement("KIT-operation")
def test_operations_come_from_the_contract_then_the_caller_then_the_history(kit: Kit, shop: Shop) -> None:
    assert kit.operation("write_off", {"name": "ann"}, shown=[]) is None  # not governed yet: nothing is known of it
    kit.govern("write_off", {"type": "object", "properties": {"name": {"type": "string"}}}, shop.write_off)
    assert kit.operation("write_off", {"name": "ann"}, named="mine", shown=[]) is None  # the contract's own
    given = {"order_id": "o-1"}
    assert kit.operation("ship_order", given, named="mine", shown=[], call_id="c-1") == "mine"
    name = str(kit.operation("ship_order", given, shown=[]))
    run, tool, hashed, count = name.split("/")
    assert (run, tool, len(hashed), count) == ("chat-1", "ship_order", 64, "0")
    assert kit.operation("ship_order", {"order_id": "o-1", "carrier": "ups"}, shown=[]) == name  # a default is the same
    assert kit.operation("ship_order", '{"order_id": "o-1"}', shown=[]) == name
    assert kit.operation("ship_order", {"order_id": "o-2"}, shown=[]) != name
    assert kit.operation("ship_order", given, shown=[], run="chat-2") != name
    assert kit.operation("ship_order", given, shown=[], ordinal=1) != name
    assert kit.operation("ship_order", given) is None
    by_call = str(kit.operation("ship_order", given, call_id="c-1"))
    assert by_call.startswith("chat-1/ship_order/")
    assert by_call.endswith("/c-1")
    assert kit.operation("ship_order", given, call_id="c-1", message_id="m-1") == "chat-1/m-1/c-1"
    long = str(kit.operation("ship_order", given, run="x" * 300, message_id="m\n" * 99, call_id="c" * 200))
    assert len(long) <= 256
    assert long.isprintable()
