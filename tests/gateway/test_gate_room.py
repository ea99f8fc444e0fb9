"""Calls to a server that takes so many at a time: one more is begun when there is room, with its time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from readback.gateway.wire.http_client import CALLS_MAX, OPEN_MAX
from readback.mcp import InProcess, Upstream
from tests.gateway.desk import Desk, at_a_desk, until_asleep


def narrow(desk: Desk) -> asyncio.Semaphore:
    """From now on the server takes one call at a time."""
    [upstream] = desk.gateway._upstreams
    assert isinstance(upstream, InProcess)
    upstream.own.room = room = asyncio.Semaphore(1)
    return room


@pytest.mark.requirement("GATEWAY-many")
@pytest.mark.parametrize("tool", ["enter", "shred"])
def test_a_call_is_put_on_record_when_its_server_has_room_for_it(tmp_path: Path, tool: str) -> None:
    async def work(desk: Desk) -> None:
        if tool == "shred":
            desk.book.write("food", 4)
        narrow(desk)
        desk.book.lie = "hang before"
        first = asyncio.create_task(desk.enter("rent", 3))
        await desk.book.begun.wait()
        desk.book.lie = ""
        more = {"amount": 4} if tool == "enter" else {}
        second = asyncio.create_task(desk.call(tool, name="food", **more))
        await until_asleep()
        assert len([*desk.store.projections()]) == 1
        desk.runtime.advance(40)  # longer than the tool may take
        desk.book.opened.set()
        assert (await first).outcome["pending"] is False
        told = await second
        assert told.outcome["verdict"] == ("verified" if tool == "enter" else "not_checked")

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-many")
def test_a_call_that_finds_no_room_within_the_hold_is_refused_and_was_never_sent(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        narrow(desk)
        desk.book.lie = "hang before"
        first = asyncio.create_task(desk.enter("rent", 3))
        await desk.book.begun.wait()
        second = asyncio.create_task(desk.enter("food", 4))
        await until_asleep()
        desk.runtime.advance(46)
        told = await second
        assert told.outcome["code"] == "gateway.busy"
        assert "nothing was sent" in told.text
        assert (await first).outcome["pending"]
        assert len([*desk.store.projections()]) == 1
        desk.book.lie = ""
        desk.book.opened.set()
        assert (await desk.call("readback_wait", action=(await first).outcome["action"])).outcome["verdict"]
        assert (await desk.enter("food", 4)).outcome["verdict"] == "verified"
        assert desk.book.rows("food") == [4]

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-changed")
@pytest.mark.parametrize("how", ["listed", "announced", "as it was"])
def test_a_call_that_waited_for_room_is_held_where_its_tool_changed_meanwhile(tmp_path: Path, how: str) -> None:
    async def work(desk: Desk) -> None:
        await desk.tools()
        room = narrow(desk)
        await room.acquire()
        asked = asyncio.create_task(desk.enter())
        await until_asleep()
        if how != "as it was":
            desk.server._tool_manager._tools["enter"].description = "Sends the book to somebody."
        if how == "listed":
            await desk.client.session.list_tools()
        else:
            desk.gateway.gate.tools_changed("")
        room.release()
        told = await asked
        if how == "as it was":
            assert told.outcome["verdict"] == "verified"
        else:
            assert told.outcome["code"] == "gateway.tool-changed"
            assert desk.book.rows("rent") == []
            assert [*desk.store.projections()] == []

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
@pytest.mark.parametrize("policy", ["unverified", "pass"])
def test_a_call_that_waited_for_room_is_not_made_without_the_contract_that_came_meanwhile(
    tmp_path: Path, policy: str
) -> None:
    async def work(desk: Desk) -> None:
        desk.book.write("rent", 3)
        room = narrow(desk)
        await room.acquire()
        asked = asyncio.create_task(desk.call("shred", name="rent"))
        await until_asleep()
        file = desk.folder / "book.yaml"
        contract = file.read_text(encoding="utf-8").partition("  enter:\n")[2]
        added = contract.replace("requested.amount}", "requested.name}").replace("requested.amount", "3")
        file.write_text(f"{file.read_text(encoding='utf-8')}\n  shred:\n{added}", encoding="utf-8")
        desk.runtime.advance(2)
        other = asyncio.create_task(desk.enter("food"))
        await until_asleep()
        desk.runtime.advance(1)  # the file stands still
        await until_asleep()
        assert [each for each in desk.said if "2 in force" in each]
        room.release()
        told = await asked
        assert (told.failed, told.outcome["code"]) == (True, "gateway.tool-denied")
        assert desk.book.rows("rent") == [3]
        assert not (await other).failed

    at_a_desk(tmp_path, work, ungoverned=policy)


def test_only_a_server_over_http_has_such_a_bound_and_readings_go_beside_it() -> None:
    assert Upstream.command(["true"]).room is None
    assert Upstream.url("http://localhost/mcp").attach().room is not None
    assert OPEN_MAX > CALLS_MAX
