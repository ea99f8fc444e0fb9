"""Servers that die, hang, answer garbage or too much: what is known of a call then, and that the next one is served."""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from readback.agent_errors import ToolRefusedError, UpstreamLostError
from readback.canon import Json
from readback.errors import NotDispatchedError, UsageError
from readback.gateway.serving.serve import sdk_server
from readback.gateway.session.lists import Names
from readback.gateway.upstream import attachment
from readback.gateway.upstream.attachment import STARTS_FREE
from readback.gateway.upstream.request_context import RawRequest, RawResult
from readback.gateway.upstream.upstream import Upstream
from readback.gateway.wire.line_dispatch import LineDispatcher
from readback.gateway.wire.pipes import Outgoing
from tests.gateway.desk import until_asleep
from tests.gateway.passing import Passing
from tests.gateway.processes import EVERYTHING, ROUGH, none_left, running
from tests.gateway.transcript import SOON_S
from tests.workers.forks import launched

LONG_S = 30.0
pytestmark = pytest.mark.requirement("WIRE-upstream")


def with_server(work: Callable[[Upstream], Awaitable[None]], *command: str, **env: str) -> None:
    """A server, and the work; afterwards it is ended."""

    async def run() -> None:
        upstream = Upstream.command(command or ROUGH, env=env)
        try:
            async with asyncio.timeout(2 * LONG_S):
                await work(upstream)
        finally:
            await upstream.aclose()

    asyncio.run(run())


async def called(upstream: Upstream, name: str, *, timeout_s: float = LONG_S, **arguments: Json) -> str:
    found = await upstream.call({"name": name, "arguments": arguments}, timeout_s=timeout_s)
    content = found["content"]
    assert isinstance(content, list)
    assert isinstance(content[0], dict)
    return str(content[0]["text"])


@pytest.mark.parametrize("how", ["exit", "garbage", "closed", "timeout"])
def test_of_a_call_whose_answer_is_none_nothing_is_known_and_the_next_is_answered(how: str) -> None:
    async def work(upstream: Upstream) -> None:
        with pytest.raises(UpstreamLostError):
            await called(upstream, how)
        assert await called(upstream, "next") == "next"

    with_server(work)


def test_a_call_that_hangs_is_given_up_and_a_server_without_a_sign_of_life_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attachment, "PROBE_S", 0.2)

    async def work(upstream: Upstream) -> None:
        before = await called(upstream, "who")
        with pytest.raises(UpstreamLostError):
            await called(upstream, "silent", timeout_s=0.1)
        assert await called(upstream, "who") == before  # it only did not answer this one
        connection = await upstream.own.connection()
        with pytest.raises(UpstreamLostError):
            await called(upstream, "hang", timeout_s=0.1)
        await connection.ended.wait()
        assert await called(upstream, "who") != before

    with_server(work)


def test_a_line_that_is_no_message_is_passed_over() -> None:
    async def work(upstream: Upstream) -> None:
        assert await called(upstream, "chatty") == "said"

    with_server(work)


def test_the_first_of_two_answers_counts() -> None:
    async def work(upstream: Upstream) -> None:
        assert await called(upstream, "twice") == "first"
        assert await called(upstream, "next") == "next"

    with_server(work)


def test_a_server_s_own_error_is_handed_on_as_it_is() -> None:
    async def work(upstream: Upstream) -> None:
        with pytest.raises(ToolRefusedError) as raised:
            await called(upstream, "refuse")
        assert raised.value.details == {"code": -32050, "message": "no", "data": {"why": 1}}

    with_server(work)


@pytest.mark.parametrize("mebibytes", [50, 70])
def test_a_large_answer_is_read_and_a_larger_one_ends_its_own_call_alone(mebibytes: int) -> None:
    async def work(upstream: Upstream) -> None:
        waiting = asyncio.ensure_future(called(upstream, "silent", timeout_s=LONG_S))
        before = await called(upstream, "who")
        call = upstream.call({"name": "large", "arguments": {"mebibytes": mebibytes}}, timeout_s=LONG_S)
        if mebibytes == 50:
            assert len(str((await call)["content"])) == 50 * 1024 * 1024
        else:
            with pytest.raises(UpstreamLostError, match="larger than"):
                await call
        assert await called(upstream, "who") == before
        assert not waiting.done()
        waiting.cancel()

    with_server(work)


def test_what_cannot_be_started_was_never_called_and_is_not_tried_without_end() -> None:
    async def work(upstream: Upstream) -> None:
        for attempt in range(STARTS_FREE + 2):
            with pytest.raises(NotDispatchedError) as raised:
                await called(upstream, "next")
            assert ("keeps ending" in raised.value.message) is (attempt > STARTS_FREE)

    with_server(work, *ROUGH, "gone")
    with_server(work, "/nowhere/to/be/found")


def test_tools_of_a_server_that_cannot_be_reached_are_not_none() -> None:
    async def work(upstream: Upstream) -> None:
        with pytest.raises(UpstreamLostError):
            await upstream.tools()

    async def none(upstream: Upstream) -> None:
        assert await upstream.tools() == []

    with_server(work, *ROUGH, "unlisted")
    with_server(none, *ROUGH, "toolless")  # it never said that it has any


@pytest.mark.parametrize(
    ("mode", "names"), [("empty cursor", ["write", "two"]), ("same ", ["write"]), ("same page", ["write"])]
)
def test_a_list_goes_on_behind_an_empty_cursor_and_ends_with_one_that_comes_again(mode: str, names: list[str]) -> None:
    async def work(upstream: Upstream) -> None:
        assert [tool["name"] for tool in await upstream.tools()] == names

    with_server(work, *ROUGH, mode)


def test_what_is_being_started_while_all_is_closed_is_ended_too(tmp_path: Path) -> None:
    async def work(upstream: Upstream) -> None:
        opening = asyncio.ensure_future(called(upstream, "next"))
        while not running(str(tmp_path)):
            await asyncio.to_thread(lambda: None)
        await upstream.aclose()
        with pytest.raises((NotDispatchedError, UpstreamLostError)):
            await opening

    with_server(work, *ROUGH, MARK=str(tmp_path))
    assert none_left(str(tmp_path))


@pytest.mark.requirement("WIRE-upstream")
def test_an_address_where_nobody_listens_was_never_called() -> None:
    async def run() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound, and not listening
            upstream = Upstream.url(f"http://127.0.0.1:{taken.getsockname()[1]}/mcp")
            with pytest.raises(NotDispatchedError):
                await called(upstream, "next")
            await upstream.aclose()

    asyncio.run(run())


def test_what_a_server_started_ends_with_it(tmp_path: Path) -> None:
    """Also what outlives a server that was killed, and a server that does not want to end."""
    mark = str(tmp_path)

    async def die(upstream: Upstream) -> None:
        with pytest.raises(UpstreamLostError):
            await called(upstream, "die")
        await upstream.own.settled()

    async def stubborn(upstream: Upstream) -> None:
        assert await called(upstream, "next") == "next"

    with_server(die, *EVERYTHING, MARK=mark)
    assert none_left(mark)
    with_server(stubborn, *ROUGH, "stubborn", MARK=mark)
    assert none_left(mark)


def test_a_server_is_given_the_environment_without_what_is_readback_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READBACK_URL", "sqlite:///secret.db")

    async def work(upstream: Upstream) -> None:
        assert (await called(upstream, "environment")).split()[1:] == ["None", "1"]

    with_server(work, *launched(EVERYTHING), ADDED="1")


@pytest.mark.requirement("WIRE-several")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_several_servers_are_one_and_their_names_say_whose_they_are(mode: str) -> None:
    async def run() -> None:
        upstreams = [
            Upstream.command(launched(EVERYTHING), key="left", env={"WHO": "left"}),
            Upstream.command(launched(EVERYTHING), key="right", env={"WHO": "right", "ERA": "handshake"}),
            Upstream.command([*ROUGH, "gone"], key="dead"),
        ]
        try:
            async with asyncio.timeout(3 * SOON_S):
                async with Client(sdk_server(Passing("mine"), upstreams, one_client=True), mode=mode) as client:
                    await _several(client)
        finally:
            await asyncio.gather(*(each.aclose() for each in upstreams))

    asyncio.run(run())


async def _several(client: Client) -> None:
    first = await client.list_tools()
    rest = await client.list_tools(cursor=first.next_cursor)
    names = [tool.name for tool in (*first.tools, *rest.tools)]
    assert {"left__echo", "right__echo", "left__calls", "right__calls", "mine"} <= set(names)
    assert len(names) == len(set(names)) == 2 * 18 + 1
    assert rest.next_cursor is None
    assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["left__greet", "right__greet"]
    said = await client.call_tool("right__count", {})
    again = await client.call_tool("left__count", {})
    assert said.content == again.content  # each counted its own first
    own = await client.call_tool("mine", {})
    assert getattr(own.content[0], "text", "") == "own mine"
    for who in ("left", "right"):
        prompt = await client.get_prompt(f"{who}__greet", {"who": "Bo"})
        assert getattr(prompt.messages[0].content, "text", "") == f"hello Bo {who}"
    read = await client.read_resource("file:///one")
    assert getattr(read.contents[0], "text", "") == "text of file:///one left"  # the first that listed it
    for wrong in ("echo", "dead__echo", "other__echo"):
        with pytest.raises(MCPError, match=r"again and again|Unknown tool|could not be started"):
            await client.call_tool(wrong, {})


@pytest.mark.requirement("WIRE-several")
@pytest.mark.parametrize("begun", [True, False])
def test_a_task_is_asked_of_the_server_that_began_it(begun: bool) -> None:
    """Of several servers only it knows the task; one that answers for every id is not asked for another's."""

    async def run() -> None:
        plain = Upstream.command(ROUGH, key="plain")
        upstreams = [plain, *(Upstream.command([*ROUGH, "tasks", key], key=key) for key in ("left", "right"))]
        try:
            async with (
                asyncio.timeout(3 * SOON_S),
                Client(sdk_server(Passing(), upstreams, one_client=True), mode="legacy") as client,
            ):
                if begun:
                    params = {"name": "right__write", "arguments": {}, "task": {}}
                    assert (await _raw(client, "tools/call", params))["task"]["taskId"] == "of right"
                for method in ("tasks/get", "tasks/result", "tasks/cancel"):
                    for key in ("right", "left"):
                        told = await _raw(client, method, {"taskId": f"of {key}"})
                        assert (told["asked"], told["of"]) == (method, key)
                    with pytest.raises(MCPError, match="left has no such task"):
                        await _raw(client, method, {"taskId": "of nobody"})
                listed = await _raw(client, "tasks/list", {})
                assert [each["taskId"] for each in listed["tasks"]] == ["of left", "of right"]
        finally:
            await asyncio.gather(*(each.aclose() for each in upstreams))

    asyncio.run(run())


async def _raw(client: Client, method: str, params: dict[str, Any]) -> dict[str, Any]:
    send: Any = client.session.send_request
    found: RawResult = await send(RawRequest(asked=method, params=params), RawResult)
    return found.root


@pytest.mark.requirement("WIRE-several")
@pytest.mark.parametrize("inside", ['[[Infinity,"x"]]', "[" * 5000, '[[2,"x"]]', "[]", "{}", "no"])
def test_a_cursor_that_was_not_given_out_is_none_whatever_is_in_it(inside: str) -> None:
    names = Names(["one", "two"])
    assert names.pages(base64.urlsafe_b64encode(inside.encode()).decode()) is None
    assert names.pages(names.cursor({1: "x"})) == {1: "x"}


@pytest.mark.requirement("WIRE-several")
@pytest.mark.parametrize("keys", [("a", "a"), ("a", ""), ("a", "b__c"), ("a", "b c")])
def test_servers_whose_names_would_not_tell_them_apart_are_refused(keys: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        sdk_server(Passing(), [Upstream.url("http://127.0.0.1:9/mcp", key=key) for key in keys])


def test_a_server_that_reads_no_more_holds_nobody_up_beyond_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachment, "PROBE_S", 0.2)

    async def work(upstream: Upstream) -> None:
        large = "x" * 1_000_000  # more than a pipe holds
        more = [called(upstream, "y", timeout_s=0.4, x=large) for _ in "ab"]
        deaf = called(upstream, "deaf", timeout_s=0.4)
        async with asyncio.timeout(SOON_S):
            lost = await asyncio.gather(deaf, *more, return_exceptions=True)
        assert [type(each) for each in lost] == [UpstreamLostError] * 3
        async with asyncio.timeout(SOON_S):
            while True:  # it gives no sign of life, and is ended
                try:
                    assert await called(upstream, "next", timeout_s=0.4) == "next"
                    break
                except (UpstreamLostError, NotDispatchedError):
                    continue

    with_server(work)


def test_a_server_that_goes_in_the_middle_of_a_request_leaves_no_error_that_nobody_has_seen() -> None:
    read, write = os.pipe()
    unseen: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unseen.append(told))
        writer = Outgoing()
        await writer.begin(write)
        dispatcher = LineDispatcher(writer)
        call = asyncio.create_task(dispatcher.send_raw_request("tools/call", {"x": "x" * 1_000_000}))
        await until_asleep()
        os.close(read)
        with pytest.raises(MCPError, match="Connection closed"):
            await call
        del call
        gc.collect()

    asyncio.run(main())
    assert unseen == []


@pytest.mark.parametrize("depth", [150, 240, 260, 900, 100_000])
def test_an_answer_that_is_nested_deep_ends_neither_the_connection_nor_the_gateway(depth: int) -> None:
    async def work(upstream: Upstream) -> None:
        async with Client(sdk_server(Passing(), [upstream], one_client=True)) as client:
            result = asyncio.ensure_future(client.session.call_tool("deep", {"levels": depth}))
            await asyncio.wait({result})
            if depth < 200:
                assert result.exception() is None
            assert not (await client.session.call_tool("next", {})).is_error

    with_server(work)


def test_what_is_secret_in_an_address_is_in_no_message() -> None:
    async def run() -> None:
        upstream = Upstream.url("http://me:hunter2@127.0.0.1:9/s/hunter2/mcp?token=hunter2#hunter2")
        try:
            with pytest.raises(NotDispatchedError, match=r"http://127\.0\.0\.1:9'") as caught:
                await called(upstream, "x")
        finally:
            await upstream.aclose()
        assert "hunter2" not in f"{caught.value} {caught.value.details}"

    asyncio.run(run())
