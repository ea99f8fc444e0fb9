"""A gateway that ends and starts again loses nothing. Several servers behind one, one's own, and many calls at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from readback import AsyncReadback
from readback.errors import ContractFileError, StoreError
from readback.gateway.upstream.request_context import RawRequest, RawResult
from readback.mcp import Gateway, InProcess, verify_server
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.gateway.desk import Desk, Told, a_desk, at_a_desk, until_asleep, write_contracts
from tests.gateway.servers.book import Book, server_of


@pytest.mark.requirement("GATEWAY-restart")
def test_what_a_gateway_left_in_flight_is_finished_by_the_next_one(tmp_path: Path) -> None:
    async def main() -> None:
        runtime, url = VirtualRuntime(), f"sqlite:///{tmp_path}/readback.db"
        async with a_desk(tmp_path, store=None, url=url, runtime=runtime) as desk:
            desk.book.lie = "hang after"
            asked = asyncio.create_task(desk.enter())
            await desk.book.begun.wait()
            desk.runtime.advance(46)
            pending = await asked
            assert pending.outcome["pending"]
            ending = asyncio.create_task(desk.gateway.gate.close(5))
            await until_asleep()
            desk.runtime.advance(6)
            assert await ending == 1
        async with a_desk(tmp_path, store=None, url=url, runtime=runtime) as desk:
            told = await desk.call("readback_wait", action=pending.outcome["action"])
            assert told.outcome["verdict"] == "verified"
            assert desk.book.calls == 0
        async with AsyncReadback.open(url, tenant="acme", principal="agent:books", runtime=runtime) as ledger:
            assert (await ledger.get(pending.outcome["action"])).verified

    asyncio.run(main())


@pytest.mark.requirement("GATEWAY-restart")
def test_what_was_left_by_a_contract_that_is_gone_is_named_when_the_next_one_begins(tmp_path: Path) -> None:
    slow = {"timeout: 20s": "timeout: 200ms", "within: 2s": "within: 1h\n    polls: [0s, 1m]"}
    renamed = {**slow, "  enter:\n": "  noted:\n", "200ms}": "200ms, tool: {name: enter}}"}

    async def main() -> None:
        terms = {"store": None, "url": f"sqlite:///{tmp_path}/readback.db", "runtime": VirtualRuntime(), "hold": 1}
        async with a_desk(tmp_path, changes=slow, **terms) as desk:
            desk.book.lie = "late"
            assert (await desk.enter()).outcome["pending"]
            desk.runtime.advance(60)
        said = []
        for changes in (renamed, renamed, slow):
            async with a_desk(tmp_path, changes=changes, **terms) as desk:
                await until_asleep()
                said.append([line for line in desk.said if "'enter'" in line])
                desk.runtime.advance(120)
        assert not said[0], "within the minute somebody else may be about to take it up"
        assert len(said[1]) == 1
        assert not said[2], "here it is gone on with"

    asyncio.run(main())


@pytest.mark.requirement("GATEWAY-restart")
def test_what_is_due_is_gone_on_with_while_nobody_asks(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        desk.book.lie = "late"
        pending = await desk.enter()
        assert pending.outcome["pending"]
        desk.book.write("rent", 3)
        while desk.store.projection(pending.outcome["action"]).projection.verdict != "verified":
            await desk.runtime.sleep_async(30)

    changes = {"timeout: 20s": "timeout: 200ms", "within: 2s": "within: 1h\n    polls: [0s, 1m]"}
    at_a_desk(tmp_path, work, changes=changes, hold=30)


@pytest.mark.requirement("GATEWAY-restart")
def test_a_gateway_that_ends_gives_what_is_in_flight_a_while(tmp_path: Path) -> None:
    async def main() -> None:
        async with a_desk(tmp_path) as desk:
            desk.book.lie = "hang before"
            asked = asyncio.create_task(desk.enter())
            await desk.book.begun.wait()
            ending = asyncio.create_task(desk.gateway.gate.close(5))
            desk.book.opened.set()
            assert await ending == 0
            assert (await asked).outcome["verdict"] == "verified"
            late = await desk.enter("food")
            assert late.outcome["code"] == "gateway.busy"
            assert desk.book.rows("food") == []

    asyncio.run(main())


@pytest.mark.requirement("GATEWAY-ended")
def test_a_call_that_an_ending_gateway_answered_early_is_settled_by_the_next_and_nothing_new_is_taken(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        runtime, url = VirtualRuntime(), f"sqlite:///{tmp_path}/readback.db"
        async with a_desk(tmp_path, store=None, url=url, runtime=runtime) as desk:
            desk.book.lie = "hang after"
            asked = asyncio.create_task(desk.enter())
            await desk.book.begun.wait()
            desk.gateway.gate.answer_held()
            told = await asked
            assert told.failed
            assert (told.outcome["state"], told.outcome["may_repeat"]) == ("unknown", False)
            assert told.outcome["code"] == "gateway.ended"
            assert (await desk.enter("food")).outcome["code"] == "gateway.busy"
            ending = asyncio.create_task(desk.gateway.gate.close(5))
            await until_asleep()
            desk.runtime.advance(6)
            assert await ending == 1
        async with a_desk(tmp_path, store=None, url=url, runtime=runtime) as desk:
            again = await desk.call("readback_wait", action=told.outcome["action"])
            assert again.outcome["verdict"] == "verified"
            assert desk.book.calls == 0

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.requirement("GATEWAY-many")
def test_a_thousand_calls_in_flight_are_all_answered_and_none_is_made_twice(tmp_path: Path) -> None:
    many = 1_000

    async def work(desk: Desk) -> None:
        told = await asyncio.gather(*(desk.enter(f"n{number}", number) for number in range(many)))
        assert {each.outcome["verdict"] for each in told} == {"verified"}
        assert len({each.outcome["action"] for each in told}) == many
        assert desk.book.calls == many
        assert all(desk.book.rows(f"n{number}") == [number] for number in range(0, many, 97))

    at_a_desk(tmp_path, work)


class _Gone(MemoryStore):
    """One that takes nothing more by the time that leases are given back."""

    closed = False

    def release(self, owner: str) -> None:
        raise StoreError("It takes nothing any more.")

    def close(self) -> None:
        self.closed = True
        super().close()


def test_a_gateway_that_cannot_give_its_leases_back_closes_its_ledger_all_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        write_contracts(tmp_path, {})
        store = _Gone()
        gateway = Gateway([InProcess(server_of(Book(tmp_path)))], store=store, tenant="acme", principal="agent:a")
        with pytest.raises(StoreError):
            async with gateway:
                pass
        assert store.closed

    asyncio.run(main())


# --- several servers, and one's own --------------------------------------------------------------------------------


@pytest.mark.requirement("GATEWAY-several")
def test_of_several_servers_each_tool_goes_to_its_own_and_the_contract_to_the_one_that_has_it(tmp_path: Path) -> None:
    async def main() -> None:
        for name in ("one", "two"):
            write_contracts(tmp_path / name, {})
        first, second = Book(tmp_path / "one"), Book(tmp_path / "two")
        other = server_of(second)
        other.remove_tool("enter")
        upstreams = [InProcess(server_of(first), key="one"), InProcess(other, key="two")]
        runtime, url = VirtualRuntime(), f"sqlite:///{tmp_path}/readback.db"
        files = [tmp_path / "one" / "book.yaml"]
        gateway = Gateway(upstreams, files, url=url, tenant="acme", principal="agent:books", runtime=runtime)
        async with gateway, Client(gateway.server) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            (enter,) = [name for name in names if name.endswith("enter")]
            told = Told(await client.call_tool(enter, {"name": "rent", "amount": 3}))
            assert told.outcome["verdict"] == "verified"
            second.write("rent", 9)
            totals = sorted(name for name in names if name.endswith("total"))
            found = [Told(await client.call_tool(name, {"name": "rent"})) for name in totals]
            assert [each.result.structured_content for each in found] == [{"total": 3}, {"total": 9}]

    asyncio.run(main())


@pytest.mark.requirement("GATEWAY-several")
def test_a_tool_that_two_servers_have_is_governed_where_the_contract_names_its_server(tmp_path: Path) -> None:
    server = "server: {command: [python, book.py]}"
    naming = {
        server: f"{server}\nservers: {{two: {{command: [python, book.py]}}}}",
        "execute: {timeout: 20s}": "execute: {timeout: 20s, tool: {server: two, name: enter}}\n"
        "    arguments: {name: string, amount: integer}",
    }

    async def main(changes: dict[str, str]) -> None:
        for name in ("one", "two"):
            write_contracts(tmp_path / name, changes)
        books = [Book(tmp_path / name) for name in ("one", "two")]
        upstreams = [InProcess(server_of(book), key=book.folder.name) for book in books]
        runtime, url = VirtualRuntime(), f"sqlite:///{tmp_path}/readback.db"
        files = [tmp_path / "two" / "book.yaml"]
        gateway = Gateway(upstreams, files, url=url, tenant="acme", principal="agent:books", runtime=runtime)
        async with gateway, Client(gateway.server) as client:
            rent = {"name": "rent", "amount": 3}
            told = {
                tool.name: Told(await client.call_tool(tool.name, rent))
                for tool in (await client.list_tools()).tools
                if tool.name.endswith("enter")
            }
            verdicts = {name[:3]: each.outcome["verdict"] for name, each in told.items()}
            assert verdicts == {"one": "not_checked", "two": "verified"}

    asyncio.run(main(naming))
    with pytest.raises(ContractFileError, match="enter"):
        asyncio.run(main({}))


@pytest.mark.requirement("GATEWAY-own-server")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_of_one_s_own_is_verified_in_its_own_process(tmp_path: Path, mode: str) -> None:
    async def main() -> None:
        write_contracts(tmp_path, {})
        book = Book(tmp_path)
        server = server_of(book)
        runtime, url = VirtualRuntime(), f"sqlite:///{tmp_path}/readback.db"
        options = {"url": url, "tenant": "acme", "principal": "agent:books", "runtime": runtime}
        async with verify_server(server, [tmp_path / "book.yaml"], **options), Client(server, mode=mode) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names == {"enter", "total", "shred", "readback_status", "readback_wait", "readback_explain"}
            told = Told(await client.call_tool("enter", {"name": "rent", "amount": 3}))
            assert told.outcome["verdict"] == "verified"
            assert told.result.structured_content is not None
            assert told.result.structured_content["entered"] == "rent"
            book.lie = "drop"
            lied = Told(await client.call_tool("enter", {"name": "food", "amount": 3}))
            assert lied.failed
            assert lied.outcome["verdict"] == "refuted"
            status = Told(await client.call_tool("readback_status", {"action": lied.outcome["action"]}))
            assert status.outcome == lied.outcome
            total = Told(await client.call_tool("total", {"name": "rent"}))
            assert total.outcome["verdict"] == "not_checked"
            send: Any = client.session.send_request
            asked = {"name": "enter", "arguments": {"name": "tea", "amount": 3}, "task": {"ttl": 1000}}
            with pytest.raises(MCPError) as refused:
                await send(RawRequest(asked="tools/call", params=asked), RawResult)
            assert (refused.value.code, refused.value.data) == (METHOD_NOT_FOUND, {"code": "gateway.no-task"})
        async with Client(server) as client:  # it is the bare server again
            assert "readback_wait" not in {tool.name for tool in (await client.list_tools()).tools}

    asyncio.run(main())
