"""The contracts in force: tools that change, files that change, and what is refused when a gateway starts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import ToolAnnotations

from readback.agent_errors import OwnToolError, UpstreamLostError
from readback.canon import Json
from readback.contracts.files.tools.listing import raised_class
from readback.domain.side_effect import SideEffect
from readback.errors import ContractFileError, SettingsError, UsageError
from readback.gateway.call import Toolserver
from readback.gateway.policy.catalogue import Catalogue, print_of
from readback.mcp import Gateway, InProcess
from readback.ports.storage.store import Projection
from tests.gateway.desk import Desk, Told, a_desk, at_a_desk, until_asleep, write_contracts
from tests.gateway.servers.book import Book, server_of


def _redescribe(desk: Desk, text: str) -> None:
    """The server's tool is another one from now on."""
    desk.server._tool_manager._tools["enter"].description = text


@pytest.mark.requirement("GATEWAY-changed")
def test_a_tool_that_changed_is_held_until_the_contracts_are_loaded_again(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert not (await desk.enter("rent")).failed
        _redescribe(desk, "Enters an amount, and sends the book to somebody.")
        desk.runtime.advance(31)  # the server is asked again, although it said nothing
        told = await desk.enter("food")
        assert told.failed
        assert told.outcome["code"] == "gateway.tool-changed"
        assert "is held" in told.text
        assert desk.book.rows("food") == []
        desk.gateway.reload()
        assert not (await desk.enter("food")).failed

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-changed")
def test_many_calls_ask_a_server_for_its_tools_once(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        asked: list[str] = []

        async def counting(ctx: Any, call_next: Any) -> Any:
            asked.append(ctx.method)
            return await call_next(ctx)

        await desk.tools()  # else the client itself asks, for the results' schemas
        desk.server.middleware.append(counting)
        desk.runtime.advance(31)
        told = await asyncio.gather(*(desk.enter(f"n{number}", number) for number in range(20)))
        assert not any(each.failed for each in told)
        assert asked.count("tools/list") == 1

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-changed")
def test_a_client_that_lists_a_changed_tool_has_it_held_at_once(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        _redescribe(desk, "Another one.")
        await desk.client.session.list_tools()
        assert (await desk.enter()).outcome["code"] == "gateway.tool-changed"

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-changed")
def test_a_server_that_says_that_its_tools_changed_is_asked_before_the_next_call(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        @desk.server.tool()
        async def turn(ctx: Context) -> str:
            _redescribe(desk, "Another one.")
            await ctx.session.send_tool_list_changed()
            return "turned"

        await desk.call("turn")
        assert (await desk.enter()).outcome["code"] == "gateway.tool-changed"

    at_a_desk(tmp_path, work, mode="legacy")


@pytest.mark.requirement("GATEWAY-changed")
@pytest.mark.parametrize("announced", [True, False])
def test_tools_that_cannot_be_listed_are_held_where_the_server_said_that_they_changed(
    tmp_path: Path, announced: bool
) -> None:
    async def work(desk: Desk) -> None:
        fails = [1]

        async def listing(ctx: Any, call_next: Any) -> Any:
            if ctx.method == "tools/list" and fails:
                fails.pop()
                raise MCPError(code=-32603, message="not now")
            return await call_next(ctx)

        desk.server._lowlevel_server.middleware.insert(0, listing)
        if announced:
            desk.gateway.gate.tools_changed("")
        else:
            desk.runtime.advance(31)
        told = await desk.enter("rent")
        assert told.outcome.get("code") == ("gateway.tool-changed" if announced else None)
        assert desk.book.rows("rent") == ([] if announced else [3])
        assert not fails
        assert not (await desk.enter("food")).failed

    at_a_desk(tmp_path, work)


def test_a_change_that_is_announced_while_the_tools_are_listed_is_looked_for_again() -> None:
    catalogue = Catalogue()
    before = catalogue.announced("")
    catalogue.forget("")
    catalogue.see("", [{"name": "a"}], 0, before)
    assert catalogue.is_due("", 1)
    catalogue.see("", [{"name": "a"}], 0, catalogue.announced(""))
    assert not catalogue.is_due("", 1)


@pytest.mark.requirement("GATEWAY-changed")
def test_a_tool_that_is_gone_is_held(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        desk.server.remove_tool("enter")
        desk.gateway.gate.tools_changed("")
        told = await desk.enter()
        assert told.outcome["code"] == "gateway.tool-changed"
        assert "not listed any more" in told.text

    at_a_desk(tmp_path, work)


@pytest.mark.parametrize(
    ("tool", "same"),
    [
        ({"name": "t", "inputSchema": {"a": 1, "b": 2}, "description": "d"}, True),
        ({"description": "d", "inputSchema": {"b": 2, "a": 1}, "name": "t", "title": "another title"}, True),
        ({"name": "t", "inputSchema": {"a": 1, "b": 3}, "description": "d"}, False),
        ({"name": "t", "inputSchema": {"a": 1, "b": 2}, "description": "d "}, False),
        ({"name": "t", "inputSchema": {"a": 1, "b": 2}, "description": "d", "annotations": {}}, False),
        ({"name": "t", "inputSchema": {"a": 1, "b": 2**80}, "description": "d"}, False),
    ],
)
def test_a_tool_is_known_by_what_a_contract_relies_on(tool: dict[str, object], same: bool) -> None:
    first = {"name": "t", "description": "d", "inputSchema": {"b": 2, "a": 1}}
    assert (print_of(tool) == print_of(first)) is same  # type: ignore[arg-type]


def test_a_page_of_a_list_says_nothing_of_the_tools_that_are_not_on_it() -> None:
    catalogue = Catalogue()
    catalogue.see("", [{"name": "a"}, {"name": "b"}], 0)
    catalogue.agree({("", "a"): "", ("", "b"): ""})
    catalogue.glimpse("", [{"name": "b"}])
    for key in [("", "a"), ("", "b")]:
        catalogue.check(key, catalogue.agreed(key))


@pytest.mark.requirement("GATEWAY-changed")
@pytest.mark.parametrize("pages", [1, 2])
def test_a_page_that_shows_a_tool_as_it_was_does_not_hide_another_one_of_its_name(pages: int) -> None:
    agreed: dict[str, Json] = {"name": "a", "inputSchema": {"additionalProperties": True}}
    another: dict[str, Json] = {"name": "a", "inputSchema": {"additionalProperties": 1}}
    catalogue = Catalogue()
    catalogue.see("", [agreed], 0)
    catalogue.agree({("", "a"): ""})
    catalogue.glimpse("", [agreed])
    assert not catalogue.is_due("", 1)
    for page in [[another, agreed]] if pages == 1 else [[another], [agreed]]:
        catalogue.glimpse("", page)
    assert catalogue.is_due("", 1)  # before the next call the whole list is asked for
    catalogue.see("", [another, agreed], 1, catalogue.announced(""))
    catalogue.glimpse("", [agreed])
    assert catalogue.is_due("", 2)


@pytest.mark.requirement("GATEWAY-changed")
def test_a_call_that_waits_for_the_tools_is_of_the_contract_that_was_loaded_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(desk: Desk) -> None:
        asked, may_go_on = asyncio.Event(), asyncio.Event()
        servers = desk.gateway.gate._servers
        whole = servers.list_tools

        async def list_tools(server: Toolserver) -> list[Mapping[str, Json]]:
            if not asked.is_set():
                asked.set()
                await may_go_on.wait()
            return await whole(server)

        monkeypatch.setattr(servers, "list_tools", list_tools)
        desk.runtime.advance(31)
        first = asyncio.create_task(desk.enter("rent"))
        await asked.wait()
        _redescribe(desk, "Enters an amount twice.")
        write_contracts(desk.folder, {"authoritative.n == 1": "authoritative.n == 2"})
        desk.runtime.advance(2)
        assert (await desk.enter("food")).outcome["verdict"] == "refuted"  # of the new contract
        may_go_on.set()
        told = await first
        assert told.outcome["verdict"] == "refuted"

    at_a_desk(tmp_path, work)


def _projected(desk: Desk, told: Told) -> Projection:
    """What the ledger says of a call."""
    stored = desk.store.projection(told.outcome["action"])
    assert stored is not None
    return stored.projection


# --- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("GATEWAY-reload")
def test_a_contract_file_that_changed_is_taken_over_at_the_next_call(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        write_contracts(desk.folder, {"authoritative.n == 1": "authoritative.n == 2"})
        assert not (await desk.enter("rent")).failed  # files are looked at once a second
        desk.runtime.advance(1)
        assert (await desk.enter("food")).outcome["verdict"] == "refuted"
        assert any("were reloaded" in line for line in desk.said)

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
def test_a_contract_file_of_the_same_time_and_size_is_taken_over_too(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        file = desk.folder / "book.yaml"
        before = file.stat()
        write_contracts(desk.folder, {"authoritative.n == 1": "authoritative.n == 2"})
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a copy that keeps times leaves it
        assert file.stat().st_size == before.st_size
        desk.runtime.advance(2)
        assert (await desk.enter()).outcome["verdict"] == "refuted"

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
def test_a_contract_file_that_changes_is_taken_over_though_the_clock_was_set_back(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        write_contracts(desk.folder, {"authoritative.n == 1": "authoritative.n == 2"})
        desk.runtime._clock.now_us -= 3600 * 1_000_000
        assert (await desk.enter()).outcome["verdict"] == "refuted"

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
def test_contracts_that_could_not_be_held_against_the_tools_are_loaded_again_when_they_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(desk: Desk) -> None:
        servers = desk.gateway.gate._servers

        async def lost() -> None:
            raise UpstreamLostError("It starts again.")

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(servers, "list_front", lost)
            write_contracts(desk.folder, {"authoritative.n == 1": "authoritative.n == 2"})
            for seconds in (2, 3, 11):
                desk.runtime.advance(seconds)
                assert (await desk.enter(f"after {seconds}")).outcome["verdict"] == "verified"
        assert len(desk.said) == 1  # and not once for each time
        desk.runtime.advance(11)
        assert (await desk.enter()).outcome["verdict"] == "refuted"

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
def test_a_client_that_leaves_while_its_call_loads_the_contracts_leaves_them_to_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(desk: Desk) -> None:
        servers, asked = desk.gateway.gate._servers, asyncio.Event()

        async def silent() -> None:
            asked.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(servers, "list_front", silent)
            write_contracts(desk.folder, {"authoritative.n == 1": "authoritative.n == 2"})
            desk.runtime.advance(2)
            leaving = asyncio.create_task(desk.enter("rent"))
            await asked.wait()
            leaving.cancel()
            await asyncio.wait({leaving})
            await until_asleep()
        desk.runtime.advance(2)
        assert (await desk.enter("food")).outcome["verdict"] == "refuted"  # of the new contract

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
@pytest.mark.parametrize("written", [False, True])
def test_a_pipe_in_a_contract_file_s_place_keeps_nobody_waiting(tmp_path: Path, *, written: bool) -> None:
    async def work(desk: Desk) -> None:
        file = desk.folder / "book.yaml"
        file.unlink()
        os.mkfifo(file)
        other = os.open(file, os.O_RDWR) if written else None  # somebody who has it open, and says nothing
        desk.runtime.advance(1)
        async with asyncio.timeout(20):
            assert not (await desk.enter()).failed
        assert any("stay unchanged" in line for line in desk.said)
        if other is not None:
            os.close(other)

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
def test_a_file_with_faults_leaves_the_contracts_as_they_are_and_says_so_once(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        write_contracts(desk.folder, {"kind: set": "kind: nonsense"})
        for name in ("rent", "food"):
            desk.runtime.advance(1)
            assert not (await desk.enter(name)).failed
        assert len([line for line in desk.said if "stay unchanged" in line and "kind" in line]) == 1
        (desk.folder / "book.yaml").unlink()
        desk.runtime.advance(1)
        assert not (await desk.enter("heat")).failed
        write_contracts(desk.folder, {})
        desk.runtime.advance(1)
        assert not (await desk.enter("light")).failed
        assert "were reloaded" in desk.said[-1]

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
def test_an_action_in_flight_keeps_the_contract_that_it_began_with(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        desk.book.lie = "hang before"
        asked = asyncio.create_task(desk.enter("rent", operation="op-1"))
        await desk.book.begun.wait()
        desk.book.lie = ""
        write_contracts(desk.folder, {"version: 1.0.0": "version: 2.0.0"})
        desk.runtime.advance(1)
        loading = asyncio.create_task(desk.enter("food"))
        await until_asleep()
        desk.runtime.advance(1)  # the file stands still, while the call that hangs keeps the clock
        after = await loading
        joined = asyncio.create_task(desk.enter("rent", operation="op-1"))
        desk.book.opened.set()
        before = await asked
        assert [told.outcome["verdict"] for told in (before, await joined, after)] == ["verified"] * 3
        assert [_projected(desk, told).contract_version for told in (before, after)] == ["1.0.0", "2.0.0"]

    at_a_desk(tmp_path, work)


@pytest.mark.requirement("GATEWAY-reload")
def test_a_hangup_loads_the_contracts_again(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        desk.gateway.reload_on_hangup()
        try:
            os.kill(os.getpid(), signal.SIGHUP)
            while not any("were reloaded" in line for line in desk.said):
                assert not (await desk.enter("rent")).failed
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)

    at_a_desk(tmp_path, work)


# --- the start -----------------------------------------------------------------------------------------------------


async def _start(folder: Path, **options: object) -> None:
    async with a_desk(folder, **options):
        pass


@pytest.mark.requirement("GATEWAY-start")
def test_a_contract_of_a_tool_that_no_server_has_is_refused_with_the_name_that_was_meant(tmp_path: Path) -> None:
    with pytest.raises(ContractFileError, match=r"book\.yaml:11:14: .*'entre'.*'enter'"):
        asyncio.run(_start(tmp_path, changes={"  enter:": "  entre:"}))


@pytest.mark.requirement("GATEWAY-start")
def test_every_fault_of_the_files_is_told_when_the_gateway_starts(tmp_path: Path) -> None:
    changes = {"kind: set": "kind: nonsense", "authoritative.n == 1": "authoritative.n =="}
    with pytest.raises(ContractFileError, match="2 faults"):
        asyncio.run(_start(tmp_path, changes=changes))


@pytest.mark.requirement("GATEWAY-start")
def test_a_contract_named_as_what_has_none_is_refused(tmp_path: Path) -> None:
    changes = {"  enter:\n": "  ungoverned-tool:\n", "{timeout: 20s}": "{timeout: 20s, tool: {name: enter}}"}
    with pytest.raises(SettingsError, match="ungoverned-tool"):
        asyncio.run(_start(tmp_path, changes=changes))


@pytest.mark.requirement("GATEWAY-hints")
def test_a_tool_that_says_that_it_acts_twice_is_not_believed_to_honour_a_key(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        action = desk.gateway.gate.contracts.action(("", "enter"))
        assert action is not None
        assert action.contract.execution.honours_key is False

    hints = ToolAnnotations(idempotent_hint=False)
    at_a_desk(tmp_path, work, annotations=hints, changes={"{timeout: 20s}": "{timeout: 20s, honours_key: true}"})


@pytest.mark.requirement("KEY-reaches-the-tool")
def test_a_tool_whose_call_carries_no_key_is_not_declared_to_honour_one(tmp_path: Path) -> None:
    changes = {"{timeout: 20s}": "{timeout: 20s, honours_key: true}"}
    with pytest.raises(ContractFileError, match="does not carry the idempotency key"):
        asyncio.run(_start(tmp_path, changes=changes))


@pytest.mark.requirement("GATEWAY-hints", "L34")
@pytest.mark.parametrize("stated", list(SideEffect))
@pytest.mark.parametrize("reads", [None, True, False])
@pytest.mark.parametrize("destroys", [None, True, False])
def test_a_tools_own_hints_raise_its_class_and_never_lower_it(
    stated: SideEffect, reads: bool | None, destroys: bool | None
) -> None:
    raised, hint = raised_class(stated, {"readOnlyHint": reads, "destructiveHint": destroys})
    writes = reads is False or (destroys is True and reads is not True)
    assert raised.rank >= stated.rank
    assert (raised is not stated) is (writes and stated is SideEffect.READ_ONLY)
    assert bool(hint) is (raised is not stated)


@pytest.mark.requirement("GATEWAY-start")
def test_a_server_with_a_tool_of_a_name_of_ours_is_refused_unless_it_has_a_key(tmp_path: Path) -> None:
    server = server_of(Book(tmp_path))
    server.tool(name="readback_wait")(lambda: "mine")
    with pytest.raises(OwnToolError, match="readback_wait"):
        asyncio.run(_start(tmp_path, server=server))


@pytest.mark.requirement("GATEWAY-start")
@pytest.mark.parametrize("options", [{"hold": -1}, {"hold": "soon"}, {"ungoverned": "maybe"}])
def test_settings_that_are_none_are_refused(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        asyncio.run(_start(tmp_path, **options))


def test_of_several_servers_each_has_a_key_of_its_own(tmp_path: Path) -> None:
    server = server_of(Book(tmp_path))
    for keys in ((), ("", "b"), ("a", "a")):
        with pytest.raises(SettingsError):
            Gateway([InProcess(server, key=key) for key in keys])


@pytest.mark.requirement("GATEWAY-several")
def test_of_a_tool_that_several_servers_have_it_is_said_which_and_not_that_there_is_none(tmp_path: Path) -> None:
    write_contracts(tmp_path, {})
    both = [InProcess(server_of(Book(tmp_path)), key=key) for key in ("one", "two")]

    async def start() -> None:
        async with Gateway(both, [tmp_path / "book.yaml"], url=f"sqlite:///{tmp_path}/readback.db"):
            pass

    with pytest.raises(ContractFileError) as refused:
        asyncio.run(start())
    assert "Several servers have a tool 'enter' ('one', 'two'). Select one with `server`." in str(refused.value)


def test_a_gateway_that_does_not_run_has_no_gate(tmp_path: Path) -> None:
    gateway = Gateway([InProcess(server_of(Book(tmp_path)))])
    with pytest.raises(UsageError):
        _ = gateway.gate
    assert os.listdir(tmp_path) == ["book.db"]
