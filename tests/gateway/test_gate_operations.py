"""An operation of a tool acts once, whichever of the contracts that the tool has had it is called under."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from readback.testing.store_memory import MemoryStore
from tests.gateway.desk import Desk, at_a_desk, until_asleep, write_contracts

pytestmark = pytest.mark.requirement("GATEWAY-operation")
RENAMED = {"  enter:\n": "  entering:\n", "{timeout: 20s}": "{timeout: 20s, tool: {name: enter}}"}
RENAMED_AGAIN = {"  enter:\n": "  entered:\n", "{timeout: 20s}": "{timeout: 20s, tool: {name: enter}}"}
FOR_ANOTHER = {
    "  enter:\n": "  shred:\n",
    " {requested.amount}\n": "\n",
    "      as asked: authoritative.amount == requested.amount\n": "",
}
"""No contract for the tool that enters."""


@pytest.mark.parametrize("changes", [RENAMED, FOR_ANOTHER], ids=["renamed", "taken away"])
def test_a_contract_that_was_replaced_before_this_gateway_took_a_call_keeps_its_operations(
    tmp_path: Path, changes: Mapping[str, str]
) -> None:
    store = MemoryStore()

    async def before(desk: Desk) -> None:
        assert (await desk.enter("rent", operation="op-1")).outcome["verdict"] == "verified"

    async def work(desk: Desk) -> None:
        write_contracts(desk.folder, changes)
        desk.gateway.reload()
        again = await desk.enter("rent", operation="op-1")  # the first call that it takes
        assert any("were reloaded" in line for line in desk.said)
        assert again.outcome["code"] == "input.payload-conflict"
        assert desk.book.rows("rent") == [3]

    at_a_desk(tmp_path, before, store=store.reopened())
    at_a_desk(tmp_path, work, store=store.reopened())


def test_a_contract_that_was_in_force_between_two_calls_keeps_the_operations_of_others(tmp_path: Path) -> None:
    store = MemoryStore()

    async def before(desk: Desk) -> None:
        assert (await desk.enter("rent", operation="op-1")).outcome["verdict"] == "verified"

    async def work(desk: Desk) -> None:
        for changes in (RENAMED, RENAMED_AGAIN):
            write_contracts(desk.folder, changes)
            desk.gateway.reload()
            await desk.client.session.list_tools()
        assert (await desk.enter("rent", operation="op-1")).outcome["code"] == "input.payload-conflict"
        assert desk.book.rows("rent") == [3]

    at_a_desk(tmp_path, before, store=store.reopened(), changes=RENAMED)
    at_a_desk(tmp_path, work, store=store.reopened())


@pytest.mark.parametrize(
    ("first", "then"),
    [({}, RENAMED), ({}, FOR_ANOTHER), (FOR_ANOTHER, {})],
    ids=["renamed", "taken away", "given one"],
)
def test_an_operation_that_waits_for_room_is_not_called_under_another_contract_meanwhile(
    tmp_path: Path, first: Mapping[str, str], then: Mapping[str, str]
) -> None:
    async def work(desk: Desk) -> None:
        (attachment,) = {upstream.own for upstream in desk.gateway._upstreams}
        attachment.room = asyncio.Semaphore(1)
        await attachment.room.acquire()
        asked = asyncio.create_task(desk.enter("rent", operation="op-1"))
        await until_asleep()
        assert desk.store.next_due_us("acme") is None  # nothing of it is on record
        write_contracts(desk.folder, then)
        desk.gateway.reload()
        again = asyncio.create_task(desk.enter("rent", operation="op-1"))
        await until_asleep()
        attachment.room.release()
        told = [await asked, await again]
        assert any("were reloaded" in line for line in desk.said)
        assert len(desk.book.rows("rent")) <= 1
        assert told[1].outcome["code"] == "input.payload-conflict"
        assert "is being called under" in told[1].text
        assert told[0].outcome["action"] or told[0].outcome["code"] == "gateway.tool-denied"
        attachment.room = None
        assert (await desk.enter("food", operation="op-2")).outcome["verdict"] in ("verified", "not_checked")

    at_a_desk(tmp_path, work, changes=first)
