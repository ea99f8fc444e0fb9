"""Tools without a contract: passed on, passed on and marked, or denied; nothing of it is ever called verified."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from readback.canon import Json
from readback.gateway.call import OPERATION_KEY
from readback.gateway.policy.results import UNVERIFIED
from readback.gateway.policy.ungoverned import KEPT_MAX_BYTES, kept
from readback.kit.wording import OUTCOME_KEY
from readback.mcp import Gateway, Upstream
from tests.gateway.desk import Desk, Told, at_a_desk
from tests.gateway.processes import ROUGH


def deep(levels: int) -> Json:
    """A list in a list, so often."""
    found: Json = "in the end"
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.requirement("GATEWAY-ungoverned")
def test_by_default_a_call_is_passed_on_marked_and_recorded(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.enter("rent", 3)
        told = await desk.call("total", name="rent")
        assert not told.failed
        assert told.result.structured_content == {"total": 3}  # as it was, for whoever validates it
        assert told.texts[-1] == UNVERIFIED  # where a model reads it: `_meta` reaches no model
        assert UNVERIFIED not in told.texts[:-1]
        assert told.outcome["verdict"] == "not_checked"
        assert told.outcome["claim"] is None
        assert not told.outcome["pending"]
        status = await desk.call("readback_status", action=told.outcome["action"])
        assert status.outcome == told.outcome
        assert "It cannot be verified" in status.text
        stored = desk.store.projection(told.outcome["action"])
        assert stored is not None
        assert (stored.projection.contract, stored.projection.target) == ("ungoverned-tool", "tool/-/total")

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-ungoverned")
def test_an_error_of_such_a_tool_is_passed_on_as_it_is(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        told = await desk.call("shred", name="nobody")
        assert told.failed
        assert "nobody is not there" in told.text
        assert told.texts[-1] == UNVERIFIED
        assert told.outcome["verdict"] == "not_checked"

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-ungoverned")
def test_passed_on_means_untouched_and_not_recorded(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        told = await desk.call("total", name="rent")
        assert OUTCOME_KEY not in (told.result.meta or {})
        assert UNVERIFIED not in told.texts
        assert told.result.structured_content == {"total": 0}
        assert desk.store.due(2**62, 10) == []
        assert [*desk.store.counts("acme")] == []

    at_a_desk(tmp_path, work, ungoverned="pass")


@pytest.mark.requirement("GATEWAY-ungoverned")
def test_denied_means_not_shown_and_refused_with_a_code(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert (await desk.tools()).keys() == {"enter", "readback_status", "readback_wait", "readback_explain"}
        desk.book.write("rent", 3)
        told = Told(await desk.client.session.call_tool("shred", {"name": "rent"}))
        assert told.failed
        assert told.outcome["code"] == "gateway.tool-denied"
        assert desk.book.rows("rent") == [3]

    at_a_desk(tmp_path, work, ungoverned="deny")


@pytest.mark.requirement("GATEWAY-ungoverned")
@pytest.mark.parametrize("policy", ["pass", "unverified"])
def test_a_protocol_error_of_such_a_tool_goes_on_as_one(tmp_path: Path, policy: str) -> None:
    async def work(desk: Desk) -> None:
        @desk.server.tool()
        def odd() -> str:
            raise MCPError(code=-32042, message="ask elsewhere", data={"where": "there"})

        with pytest.raises(MCPError) as caught:
            await desk.call("odd")
        assert (caught.value.code, caught.value.message) == (-32042, "ask elsewhere")

    at_a_desk(tmp_path, work, ungoverned=policy)


@pytest.mark.requirement("GATEWAY-ungoverned")
def test_the_same_operation_is_not_called_again(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        desk.book.write("rent", 3)
        first = await desk.call("total", "op-1", name="rent")
        desk.book.write("rent", 4)
        again = await desk.call("total", "op-1", name="rent")
        assert again.outcome["replayed"]
        assert again.result.structured_content == first.result.structured_content == {"total": 3}
        other = await desk.call("shred", "op-1", name="rent")
        assert other.outcome["code"] == "input.payload-conflict"
        assert desk.book.rows("rent") == [3, 4]

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-ungoverned")
def test_a_cancellation_goes_on_to_a_server_whose_tool_no_contract_governs(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        ended = asyncio.Event()

        @desk.server.tool()
        async def sit() -> str:
            desk.book.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return ""

        asked = asyncio.create_task(desk.call("sit"))
        await desk.book.begun.wait()
        asked.cancel()
        await ended.wait()

    at_a_desk(tmp_path, work)


def test_what_is_large_is_recorded_by_its_size_and_hash_and_still_passed_on_whole(tmp_path: Path) -> None:
    large = "x" * (2 * KEPT_MAX_BYTES)

    async def work(desk: Desk) -> None:
        @desk.server.tool()
        def echo(text: str) -> str:
            return text

        told = await desk.call("echo", "op-1", text=large)
        assert told.texts == [large, UNVERIFIED]
        assert told.outcome["verdict"] == "not_checked"
        again = await desk.call("echo", "op-1", text=large)
        assert again.failed  # it was not kept whole, and is not called again
        assert large not in again.text

    at_a_desk(tmp_path, work)
    short = kept({"text": large})
    assert short["bytes"] == len('{"text":""}') + len(large)
    assert kept({"n": 1.5, "s": "ü"}) == {"n": 1.5, "s": "ü"}
    assert kept({"n": 2**200, "isError": True})["isError"] is True
    for none in ({"n": float("nan")}, {"t": "\ud800"}, {"k" * 2_000: 1}, {"deep": deep(70)}):
        assert kept(none).keys() == {"bytes", "sha256"}
    assert kept({"deep": deep(40), "ok": True}) == {"deep": deep(40), "ok": True}


@pytest.mark.requirement("GATEWAY-ungoverned")
@pytest.mark.parametrize("policy", ["unverified", "deny"])
def test_what_stands_in_for_such_a_tool_s_answer_says_so_beside_what_its_schema_is_of(
    tmp_path: Path, policy: str
) -> None:
    """A client that holds an error's structured content against the tool's schema would not take it."""

    async def main() -> None:
        gateway = Gateway([Upstream.command(ROUGH)], url=f"sqlite:///{tmp_path}/readback.db", ungoverned=policy)
        async with gateway, Client(gateway.server) as client:

            async def call(tool: str, **arguments: str) -> Told:
                meta: Any = {OPERATION_KEY: "one"} if tool == "echo" else None
                return Told(await client.session.call_tool(tool, arguments, meta=meta))

            if policy == "deny":
                stand_ins = {"gateway.tool-denied": await call("echo", name="a")}
            else:
                assert not (await call("echo", name="a")).failed
                stand_ins = {"input.payload-conflict": await call("echo", name="b")}
                stand_ins[""] = await call("exit")
                assert not stand_ins[""].outcome["may_repeat"]
            for code, told in stand_ins.items():
                assert told.failed
                assert told.outcome.get("code", "") == code
                assert told.result.structured_content is None

    asyncio.run(main())
