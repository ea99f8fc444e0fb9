"""The servers that contracts read from, and the tools that they pin, while the files and the servers change."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ToolListChangedNotification

from readback.agent_errors import UpstreamLostError
from readback.gateway.policy.catalogue import print_of
from readback.gateway.upstream.target import Command
from readback.mcp import Gateway, InProcess, Upstream
from readback.ports.system_factory import ServerTerms
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.gateway.desk import CONTRACTS, Desk, Told, at_a_desk, gateway_over, until_asleep, write_contracts
from tests.gateway.servers.book import Book, server_of

PINNED = "    kind: set\n    tool_sha256: "
BY_A_TOOL = """
      - tool: {{{server}name: total, arguments: {{name: "{{requested.name}}"}}}}
        consistency: strong
    ensure:
      as asked: authoritative.total == requested.amount
    within: 200ms
"""


# --- what a contract pins ------------------------------------------------------------------------------------------


@pytest.mark.requirement("GATEWAY-changed")
def test_a_tool_that_is_not_the_one_that_its_contract_pins_is_held_from_the_start(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        told = await desk.enter()
        assert told.outcome["code"] == "gateway.tool-changed"
        assert desk.book.rows("rent") == []
        assert any("differs from the pin of 'enter'; calls are rejected" in line for line in desk.said)
        assert not (await desk.call("total", name="rent")).failed  # of no contract, and of no pin
        desk.gateway.reload()
        assert (await desk.enter()).outcome["code"] == "gateway.tool-changed"

    at_a_desk(tmp_path, work, changes={"    kind: set\n": f"{PINNED}{'0' * 64}\n"})


@pytest.mark.requirement("GATEWAY-changed")
def test_a_pinned_tool_is_called_while_it_is_the_pinned_one_whatever_the_contracts_are_loaded_with(
    tmp_path: Path,
) -> None:
    async def work(desk: Desk) -> None:
        tools = desk.server._tool_manager._tools
        pinned = print_of(desk.gateway.gate._catalogue.tools("")["enter"])
        write_contracts(desk.folder, {"    kind: set\n": f"{PINNED}{pinned}\n"})
        desk.runtime.advance(2)
        assert not (await desk.enter("rent")).failed
        was, tools["enter"].description = tools["enter"].description, "Another one."
        desk.gateway.reload()
        assert (await desk.enter("food")).outcome["code"] == "gateway.tool-changed"
        tools["enter"].description = was
        desk.runtime.advance(31)
        assert not (await desk.enter("heat")).failed
        assert [desk.book.rows(name) for name in ("rent", "food", "heat")] == [[3], [], [3]]

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-changed")
def test_a_tool_that_is_another_one_since_its_server_was_started_again_is_held_at_once(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert not (await desk.enter("rent")).failed
        desk.server._tool_manager._tools["enter"].description = "Another one."
        (upstream,) = desk.gateway._upstreams
        current = upstream.own._current
        assert current is not None
        await current.close()  # it has ended, and the next call starts it again
        assert (await desk.enter("food")).outcome["code"] == "gateway.tool-changed"
        assert desk.book.rows("food") == []

    at_a_desk(tmp_path, work)


# --- servers that only contracts know ------------------------------------------------------------------------------


def _read_by_a_tool(folder: Path, sections: str, server: str = "") -> None:
    """The contract file, with a reading by a tool in place of the SQL's."""
    head, _, _ = CONTRACTS.read_text(encoding="utf-8").partition("\n      - sql:")
    named = BY_A_TOOL.format(server=f"server: {server}, " if server else "")
    folder.mkdir(exist_ok=True)
    (folder / "book.yaml").write_text(head.replace("\ncontracts:", f"{sections}\ncontracts:") + named, encoding="utf-8")


def _reading(name: str) -> str:
    return f"\nservers: {{reading: {{command: [{name}]}}}}"


class Shelf:
    """Servers in this process, reached by the commands of a file's `servers`. `dead`: those that list no tools."""

    def __init__(self, books: Mapping[str, Book]) -> None:
        self.books, self.dead, self.made = books, set[str](), list[Upstream]()

    def reach(self, key: str, terms: ServerTerms) -> Upstream:
        (name,) = terms.command
        server = server_of(self.books[name])

        async def listing(ctx: Any, call_next: Any) -> Any:
            if ctx.method == "tools/list" and name in self.dead:
                raise MCPError(code=-32603, message="not now")
            return await call_next(ctx)

        server._lowlevel_server.middleware.insert(0, listing)
        made = InProcess(server, key=key)
        made.target = Command((name,))
        self.made.append(made)
        return made


def _at_a_shelf(folder: Path, monkeypatch: pytest.MonkeyPatch, work: Any, begins: str) -> None:
    """The book's own server writes; `first` reads the same book, and `second` an empty one."""
    _read_by_a_tool(folder, _reading(begins), "reading")
    (folder / "other").mkdir()
    book = Book(folder)
    shelf = Shelf({"first": book, "second": Book(folder / "other")})
    monkeypatch.setattr("readback.gateway.gateway.upstream_of", shelf.reach)
    runtime, said = VirtualRuntime(), list[str]()

    async def main() -> None:
        given: dict[str, Any] = {"store": MemoryStore(), "runtime": runtime, "say": said.append}
        server = server_of(book)
        async with gateway_over(book, server, **given) as (gateway, client):
            await work(Desk(gateway, client, book, runtime, given["store"], folder, server, said), shelf)
        assert all(each.own._closed for each in shelf.made)

    asyncio.run(main())


@pytest.mark.requirement("GATEWAY-reload")
def test_a_server_that_a_contract_reads_from_is_the_one_that_its_file_names_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(desk: Desk, shelf: Shelf) -> None:
        assert (await desk.enter("rent")).outcome["verdict"] == "verified"
        _read_by_a_tool(desk.folder, _reading("second"), "reading")
        desk.runtime.advance(2)
        told = await desk.enter("food")
        assert told.outcome["verdict"] != "verified"  # the book that it reads now has nothing of it
        assert desk.book.rows("food") == [3]
        _read_by_a_tool(desk.folder, _reading("first"), "reading")
        desk.runtime.advance(2)
        assert (await desk.enter("heat")).outcome["verdict"] == "verified"

    _at_a_shelf(tmp_path, monkeypatch, work, "first")


@pytest.mark.requirement("GATEWAY-reload")
def test_contracts_that_name_a_server_which_cannot_be_reached_are_loaded_once_another_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(desk: Desk, shelf: Shelf) -> None:
        shelf.dead.add("second")
        _read_by_a_tool(desk.folder, _reading("second"), "reading")
        desk.runtime.advance(2)
        assert (await desk.enter("rent")).outcome["verdict"] == "verified"  # of the contracts before
        assert "stay unchanged" in desk.said[-1]
        write_contracts(desk.folder, {"authoritative.n == 1": "authoritative.n == 2"})  # and no other server at all
        desk.runtime.advance(2)
        assert (await desk.enter("food")).outcome["verdict"] == "refuted"
        assert "were reloaded" in desk.said[-1]

    _at_a_shelf(tmp_path, monkeypatch, work, "first")


@pytest.mark.requirement("GATEWAY-reload")
def test_a_server_that_no_contract_names_any_more_keeps_no_contracts_from_being_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(desk: Desk, shelf: Shelf) -> None:
        assert (await desk.enter("rent")).outcome["verdict"] == "verified"
        shelf.dead.add("first")
        for number in (2, 3):
            write_contracts(desk.folder, {"authoritative.n == 1": f"authoritative.n == {number}"})
            desk.runtime.advance(2)
            assert (await desk.enter(f"food {number}")).outcome["verdict"] == "refuted"

    _at_a_shelf(tmp_path, monkeypatch, work, "first")


# --- several servers in front --------------------------------------------------------------------------------------


@pytest.mark.requirement("GATEWAY-several")
def test_a_reading_is_of_the_server_that_the_contract_was_loaded_with_though_another_one_has_its_tool_by_now(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        _read_by_a_tool(tmp_path / "one", "")
        write_contracts(tmp_path / "two", {})
        one, two = Book(tmp_path / "one"), Book(tmp_path / "two")
        first, second = server_of(one), server_of(two)
        second.remove_tool("total")
        second.remove_tool("enter")
        upstreams, runtime = [InProcess(first, key="one"), InProcess(second, key="two")], VirtualRuntime()
        gateway = Gateway(
            upstreams, [tmp_path / "one" / "book.yaml"], tenant="acme", principal="agent:books",
            store=MemoryStore(), runtime=runtime, say=lambda _: None,
        )  # fmt: skip
        async with gateway, Client(gateway.server) as client:
            told = Told(await client.call_tool("one__enter", {"name": "rent", "amount": 3}))
            assert told.outcome["verdict"] == "verified"
            first.remove_tool("total")
            second.tool(name="total")(_whatever_is_asked)
            await client.list_tools()
            runtime.advance(31)  # the first server is asked again, and has none
            one.lie = "drop"
            lied = Told(await client.call_tool("one__enter", {"name": "food", "amount": 3}))
            assert lied.outcome["verdict"] != "verified"

    asyncio.run(main())


def _whatever_is_asked(name: str) -> dict[str, int]:
    return {"total": 3}


# --- operations ----------------------------------------------------------------------------------------------------

_RENAMED = {"  enter:\n": "  entering:\n", "{timeout: 20s}": "{timeout: 20s, tool: {name: enter}}"}
_FOR_ANOTHER = {
    "  enter:\n": "  shred:\n",
    " {requested.amount}\n": "\n",
    "      as asked: authoritative.amount == requested.amount\n": "",
}
"""No contract for the tool that enters."""


@pytest.mark.requirement("GATEWAY-operation")
@pytest.mark.parametrize(
    ("first", "then"), [({}, _RENAMED), ({}, _FOR_ANOTHER), (_FOR_ANOTHER, {}), (_FOR_ANOTHER, _RENAMED)]
)
def test_an_operation_of_a_tool_acts_once_whatever_contract_the_tool_has_meanwhile(
    tmp_path: Path, first: Mapping[str, str], then: Mapping[str, str]
) -> None:
    async def work(desk: Desk) -> None:
        before = await desk.enter("rent", operation="op-1")
        write_contracts(desk.folder, then)
        desk.runtime.advance(2)
        await desk.tools()  # what its results hold now
        again = await desk.enter("rent", operation="op-1")
        assert any("were reloaded" in line for line in desk.said)
        assert again.outcome["code"] == "input.payload-conflict"
        assert before.outcome["action"] in again.text
        assert desk.book.rows("rent") == [3]
        assert (await desk.enter("food", operation="op-2")).outcome["verdict"] in ("verified", "not_checked")
        assert desk.book.rows("food") == [3]

    at_a_desk(tmp_path, work, changes=first)


@pytest.mark.requirement("GATEWAY-operation")
def test_an_operation_is_not_passed_on_once_more_where_its_contract_was_taken_away(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.enter("rent", operation="op-1")
        write_contracts(desk.folder, _FOR_ANOTHER)
        desk.runtime.advance(2)
        await desk.tools()
        assert (await desk.enter("rent", operation="op-1")).outcome["code"] == "input.payload-conflict"
        assert desk.book.rows("rent") == [3]
        await desk.call("enter", name="food", amount=3)  # of no operation
        await desk.call("enter", "op-2", name="food", amount=3)
        assert desk.book.rows("food") == [3, 3]

    at_a_desk(tmp_path, work, ungoverned="pass")


@pytest.mark.requirement("GATEWAY-operation")
def test_what_no_contract_governed_under_an_operation_keeps_no_other_tool_from_it(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.call("total", "op-1", name="rent")
        assert (await desk.enter("rent", operation="op-1")).outcome["verdict"] == "verified"

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-operation")
def test_an_operation_that_was_never_sent_under_one_contract_may_be_run_under_another(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert (await desk.enter("rent", operation="op-1")).outcome["may_repeat"] is True
        assert desk.book.rows("rent") == []
        write_contracts(desk.folder, _RENAMED)
        desk.runtime.advance(2)
        assert (await desk.enter("rent", operation="op-1")).outcome["verdict"] == "verified"

    unmet = "    require: {closed: 'requested.amount > 100'}\n    execute: {timeout: 20s}\n"
    at_a_desk(tmp_path, work, changes={"    execute: {timeout: 20s}\n": unmet})


# --- who is told ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("GATEWAY-reload")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_is_told_that_its_tools_changed_when_others_are_governed_and_not_before(
    tmp_path: Path, mode: str
) -> None:
    async def work(desk: Desk) -> None:
        told: asyncio.Queue[str] = asyncio.Queue()

        async def hears(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                told.put_nowait(message.method)

        async with AsyncExitStack() as held:
            client = await held.enter_async_context(Client(desk.gateway.server, mode=mode, message_handler=hears))
            tools = client.server_capabilities.tools
            assert tools is not None
            assert tools.list_changed is True
            if mode == "auto":
                changes = await held.enter_async_context(client.listen(tools_list_changed=True))
                listening = asyncio.create_task(_each(changes, told))
            write_contracts(desk.folder, {"authoritative.n == 1": "authoritative.n == 2"})
            desk.runtime.advance(2)
            await desk.enter("rent")
            await until_asleep()
            assert told.empty()  # a tool's contract is another one; it is shown as it was
            write_contracts(desk.folder, _FOR_ANOTHER)
            desk.runtime.advance(2)
            await desk.call("total", name="rent")
            async with asyncio.timeout(20):
                await told.get()
            if mode == "auto":
                listening.cancel()
        assert len(desk.gateway.gate.listeners) == 1  # who has gone is told nothing any more

    at_a_desk(tmp_path, work)


async def _each(changes: Any, told: asyncio.Queue[str]) -> None:
    async for each in changes:
        told.put_nowait(repr(each))


# --- a server that hangs -------------------------------------------------------------------------------------------


@pytest.mark.requirement("GATEWAY-reload")
def test_a_call_is_not_kept_by_a_server_that_is_slow_to_list_the_tools_that_changed_contracts_are_held_against(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(desk: Desk) -> None:
        servers, may_go_on = desk.gateway.gate._servers, asyncio.Event()
        whole = servers.list_front

        async def slow() -> None:
            await may_go_on.wait()
            await whole()

        monkeypatch.setattr(servers, "list_front", slow)
        write_contracts(desk.folder, {"authoritative.n == 1": "authoritative.n == 2"})
        desk.runtime.advance(2)
        kept = asyncio.create_task(desk.enter("rent"))
        await until_asleep()
        assert not kept.done()
        desk.runtime.advance(6)
        async with asyncio.timeout(20):
            assert (await kept).outcome["verdict"] == "verified"  # of the contracts before
        may_go_on.set()
        await until_asleep()
        assert (await desk.enter("food")).outcome["verdict"] == "refuted"
        assert "were reloaded" in desk.said[-1]

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
def test_what_nobody_foresaw_while_contracts_are_loaded_leaves_them_as_they_were_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(desk: Desk) -> None:
        async def broken() -> None:
            raise RecursionError("too deep")

        monkeypatch.setattr(desk.gateway.gate._servers, "list_front", broken)
        desk.gateway.reload()
        assert (await desk.enter("rent")).outcome["verdict"] == "verified"
        assert desk.said == ["The contracts stay unchanged: RecursionError: too deep"]

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("WIRE-several")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_that_does_not_list_is_left_out_of_the_list_of_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr("readback.gateway.session.lists.LEFT_OUT_S", 0.2)

    async def main() -> None:
        servers = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            servers.append(server_of(Book(tmp_path / name)))
        silent = False

        async def listing(ctx: Any, call_next: Any) -> Any:
            if ctx.method == "tools/list" and silent:
                await asyncio.Event().wait()
            return await call_next(ctx)

        servers[1]._lowlevel_server.middleware.insert(0, listing)
        upstreams = [InProcess(server, key=key) for key, server in zip(("one", "two"), servers, strict=True)]
        gateway = Gateway(upstreams, store=MemoryStore(), runtime=VirtualRuntime(), tenant="acme", principal="agent:a")
        async with gateway, Client(gateway.server, mode=mode) as client:
            silent = True
            async with asyncio.timeout(20):
                found = {tool.name for tool in (await client.list_tools()).tools}
            assert "one__enter" in found
            assert not any(name.startswith("two__") for name in found)

    asyncio.run(main())


def test_a_list_that_never_ends_is_given_up_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("readback.gateway.upstream.attachment.LIST_ALL_S", 0.2)

    async def main() -> None:
        server, pages = server_of(Book(tmp_path)), itertools.count()

        async def listing(ctx: Any, call_next: Any) -> Any:
            if ctx.method != "tools/list":
                return await call_next(ctx)
            number = next(pages)
            if number > 2:
                await asyncio.Event().wait()  # each page takes longer than the last
            return {"tools": [], "nextCursor": f"page {number}"}

        server._lowlevel_server.middleware.insert(0, listing)
        upstream = InProcess(server)
        with pytest.raises(UpstreamLostError, match=r"within 0\.2 s"):
            async with asyncio.timeout(20):
                await upstream.tools()
        await upstream.aclose()

    asyncio.run(main())


# --- a file that is being written ----------------------------------------------------------------------------------


@pytest.mark.requirement("GATEWAY-reload")
def test_half_of_a_contract_file_is_not_taken_over_though_it_is_sound(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        file = desk.folder / "book.yaml"
        before, contracts, enter = file.read_text(encoding="utf-8").partition("contracts:\n")
        shred = enter.replace("  enter:\n", "  shred:\n").replace(" {requested.amount}", "")
        shred = shred.replace("      as asked: authoritative.amount == requested.amount\n", "")
        file.write_text(f"{before}{contracts}{shred}", encoding="utf-8")
        desk.runtime.advance(2)
        asked = asyncio.create_task(desk.enter())
        await desk.runtime.sleep_async(0.05)
        file.write_text(f"{before}{contracts}{shred}{enter}", encoding="utf-8")  # the rest of it
        assert (await asked).outcome["verdict"] == "verified"
        assert "2 in force" in desk.said[-1]

    at_a_desk(tmp_path, work)


# --- a client that goes --------------------------------------------------------------------------------------------


@pytest.mark.requirement("WIRE-ends")
def test_what_was_begun_for_a_client_that_has_gone_has_its_own_time_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("readback.gateway.upstream.attachment.RETIRE_S", 0)

    async def main() -> None:
        book = Book(tmp_path)
        upstream = InProcess(server_of(book))
        session = upstream.attach()
        book.lie = "hang before"
        call = {"name": "enter", "arguments": {"name": "rent", "amount": 3}}
        called = asyncio.create_task(session.call(call, timeout_s=None))
        await book.begun.wait()
        upstream.detach(session)
        await until_asleep()
        book.opened.set()
        assert not (await called).get("isError")
        assert book.rows("rent") == [3]
        await upstream.aclose()

    asyncio.run(main())


@pytest.mark.requirement("WEAK-says-so")
def test_a_result_that_is_verified_by_the_acting_server_alone_says_so(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        _read_by_a_tool(desk.folder, "")
        desk.gateway.reload()
        told = await desk.enter()
        assert not told.failed
        said = "a reading by the client that acted"
        assert said in told.text
        assert said in told.outcome["message"]

    at_a_desk(tmp_path, work)
