"""Clients that cancel or go, and gateways that are told to end: the rest goes on, and no process is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from readback.agent_errors import UpstreamLostError
from readback.gateway.call import Call, Toolserver
from readback.gateway.serving import serve
from readback.gateway.serving.serve import sdk_server, serve_http
from readback.gateway.upstream.upstream import Upstream
from tests.architecture.tree import ROOT
from tests.gateway.loops import LOOPS
from tests.gateway.passing import Passing
from tests.gateway.processes import END_S, EVERYTHING, ROUGH, gateway, none_left, running, stdio
from tests.gateway.transcript import SOON_S
from tests.workers import forks
from tests.workers.limit import killed_after

pytestmark = [pytest.mark.slow, pytest.mark.requirement("WIRE-ends")]

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


@contextmanager
def _talking(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A gateway with a client at its pipes; afterwards it is gone, however it ended."""
    process = forks.start(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


async def _written(path: Path) -> str:
    """What stands there once something does; nothing, where nothing comes. The loop's end waits for this thread."""

    def look() -> str:
        pause = threading.Event()
        for _ in range(int(SOON_S * 50)):
            if path.exists() and path.read_text():
                return path.read_text()
            pause.wait(0.02)
        return ""

    return await asyncio.to_thread(look)


@pytest.mark.parametrize(("mode", "loop"), [("legacy", "asyncio"), ("auto", "asyncio"), ("auto", "uvloop")])
def test_a_client_s_cancellation_reaches_the_server_and_the_session_goes_on(
    tmp_path: Path, mode: str, loop: str
) -> None:
    seen = tmp_path / "seen"

    async def run() -> None:
        through = stdio(gateway([{"command": EVERYTHING}], loop=loop))
        async with asyncio.timeout(2 * SOON_S), Client(through, mode=mode) as client:
            begun = asyncio.Event()

            async def step(progress: float, total: float | None, message: str | None) -> None:
                begun.set()

            call = client.call_tool("wait", {"file": str(seen)}, progress_callback=step)
            waiting = asyncio.ensure_future(call)
            await begun.wait()
            waiting.cancel()
            assert await _written(seen) == "cancelled"
            said = await client.call_tool("echo", {})
            assert not said.is_error

    asyncio.run(run())


class _GoingOn(Passing):
    """A gate whose calls go on when nobody waits for them any more, as the real one's do."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[asyncio.Task[dict[str, Any]]] = []

    async def call(self, call: Call, server: Toolserver) -> dict[str, Any]:
        self.calls.append(asyncio.ensure_future(super().call(call, server)))
        return await asyncio.shield(self.calls[-1])


def begun(gate: Passing, upstream: Upstream) -> tuple[asyncio.Future[None], asyncio.Event, asyncio.Future[str]]:
    """A gateway over HTTP: until it has ended, what ends it, and its address once it listens."""
    stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = serve_http(gate, [upstream], port=0, stop=stop, on_listening=listening.set_result)
    return asyncio.ensure_future(serving), stop, listening


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_client_that_goes_in_the_middle_of_a_call_ends_neither_the_call_nor_the_gateway(mode: str) -> None:
    gate = _GoingOn()

    async def run() -> None:
        upstream = Upstream.command(ROUGH)
        serving, stop, listening = begun(gate, upstream)
        try:
            url = await asyncio.wait_for(listening, SOON_S)
            async with asyncio.timeout(SOON_S), Client(url, mode=mode) as client:
                waiting = asyncio.ensure_future(client.call_tool("silent", {}))
                while not gate.calls:
                    await asyncio.to_thread(lambda: None)
                waiting.cancel()
            async with asyncio.timeout(SOON_S), Client(url, mode=mode) as another:
                assert (await another.call_tool("next", {})).content
            assert not gate.calls[0].done()
        finally:
            stop.set()
            async with asyncio.timeout(SOON_S):
                await serving
                await upstream.aclose()
            with pytest.raises(UpstreamLostError):
                await gate.calls[0]  # it ended with its server

    asyncio.run(run())


@pytest.mark.parametrize("under_way", [False, True])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_gateway_that_ends_lets_go_who_only_listens_and_cuts_off_the_others_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: str, under_way: bool
) -> None:
    """A client of the handshake era keeps a stream open: each ordinary end waited for it, and ended in a traceback."""
    monkeypatch.setattr(serve, "SHUTDOWN_S", 0 if under_way else 10 * SOON_S)
    gate = _GoingOn()

    async def run() -> None:
        upstream = Upstream.command(ROUGH)
        serving, stop, listening = begun(gate, upstream)
        url = await asyncio.wait_for(listening, SOON_S)
        async with asyncio.timeout(2 * SOON_S), Client(url, mode=mode) as client:
            waiting = asyncio.ensure_future(client.call_tool("silent" if under_way else "next", {}))
            while under_way and not gate.calls:
                await asyncio.to_thread(lambda: None)
            if not under_way:
                assert (await waiting).content
            stop.set()
            await serving
            if under_way:
                with pytest.raises(MCPError):
                    await waiting
        await upstream.aclose()
        await asyncio.gather(*gate.calls, return_exceptions=True)

    asyncio.run(run())
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert under_way or not said


def test_each_session_over_http_has_its_own_connection_and_leaves_none_behind(tmp_path: Path) -> None:
    mark = str(tmp_path)

    async def run() -> None:
        upstream = Upstream.command(ROUGH, env={"MARK": mark})
        serving, stop, listening = begun(Passing(), upstream)
        url = await asyncio.wait_for(listening, SOON_S)
        async with asyncio.timeout(SOON_S):
            async with Client(url, mode="legacy") as one, Client(url, mode="legacy") as other:
                whose = [(await each.call_tool("who", {})).content for each in (one, other)]
                assert whose[0] != whose[1]
                assert len(running(mark)) == 2
            async with Client(url, mode="auto") as one, Client(url, mode="auto") as other:
                whose = [(await each.call_tool("who", {})).content for each in (one, other)]
                assert whose[0] == whose[1]  # stateless clients have no session that could be theirs
            while len(running(mark)) > 1:
                await asyncio.to_thread(lambda: None)
            stop.set()
            await serving
            await upstream.aclose()
        assert none_left(mark)

    asyncio.run(run())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("how", ["eof", signal.SIGTERM, signal.SIGINT])
def test_a_gateway_ends_in_bounded_time_and_leaves_no_process(tmp_path: Path, how: object, loop: str) -> None:
    mark = str(tmp_path)
    told = {"command": ROUGH, "env": {"MARK": mark}}
    serving = gateway([told], loop=loop, patience_s=0.2)
    with _talking(serving) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        _greet(process)
        _say(process, {"id": 2, "method": "tools/call", "params": {"name": "silent"}})
        _say(process, {"id": 3, "method": "tools/call", "params": {"name": "next"}})
        assert _answer(process)["id"] == 3
        assert len(running(mark)) == 1
        if isinstance(how, signal.Signals):
            process.send_signal(how)
        else:
            process.stdin.close()
        assert process.wait(END_S) == 0
        assert none_left(mark)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("how", ["nobody reads", signal.SIGTERM])
def test_nobody_is_waited_for_who_has_said_everything_and_goes(tmp_path: Path, how: object, loop: str) -> None:
    """A call that is under way is ended then, not waited for."""
    os.mkfifo(tmp_path / "pipe")
    serving = gateway([{"command": ROUGH}], loop=loop, patience_s=2 * END_S)
    with _talking(serving) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        _greet(process)
        waits = {"name": "waits", "arguments": {"for": str(tmp_path / "pipe")}}
        _say(process, {"id": 3, "method": "tools/call", "params": waits})
        with killed_after(process), open(tmp_path / "pipe", "w"):  # the server has the call by now
            process.stdin.close()
            if isinstance(how, signal.Signals):
                process.send_signal(how)
            else:
                process.stdout.close()
            assert process.wait(END_S) == 0


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("way", ["pipe", "file"])
def test_all_that_was_asked_before_stdin_ended_is_answered(tmp_path: Path, way: str, loop: str) -> None:
    """Who pipes requests into a gateway has said everything before the first of them is answered."""
    os.mkfifo(tmp_path / "pipe")
    asked = [
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": {"name": "refuse"}},
        {"id": 4, "method": "tools/call", "params": {"name": "silent"}},
        {"method": "notifications/cancelled", "params": {"requestId": 4}},
        {"id": 5, "method": "tools/call", "params": {"name": "waits", "arguments": {"for": str(tmp_path / "pipe")}}},
    ]
    said = b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in asked)
    (tmp_path / "asked").write_bytes(said)
    serving = gateway([{"command": ROUGH}], loop=loop, patience_s=2 * END_S)
    with open(tmp_path / "asked") as file:
        stdin = subprocess.PIPE if way == "pipe" else file
        process = forks.start(serving, cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE)
    with process, killed_after(process):
        if process.stdin is not None:
            process.stdin.write(said)
            process.stdin.close()
        assert process.stdout is not None
        with open(tmp_path / "pipe", "w"):  # the server has the last call by now, and stdin has ended
            pass
        answers = {answer["id"]: answer for answer in map(json.loads, process.stdout)}
    assert sorted(answers) == [1, 2, 3, 5]
    assert [number for number, answer in sorted(answers.items()) if "result" in answer] == [1, 2, 5]
    assert answers[3]["error"] == {"code": -32050, "message": "no", "data": {"why": 1}}
    assert process.returncode == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("first", [True, False])
def test_a_call_that_is_under_way_when_the_gateway_is_told_to_end_is_answered(
    tmp_path: Path, how: signal.Signals, first: bool
) -> None:
    """Its client is still there: it was told that the connection is closed, of a call that was carried out."""
    os.mkfifo(tmp_path / "pipe")
    with _talking(gateway([{"command": ROUGH}])) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        _greet(process)
        if not first:
            _say(process, {"id": 2, "method": "tools/call", "params": {"name": "next"}})
            assert _answer(process)["id"] == 2
        waits = {"name": "waits", "arguments": {"for": str(tmp_path / "pipe")}}
        _say(process, {"id": 3, "method": "tools/call", "params": waits})
        with killed_after(process), open(tmp_path / "pipe", "w"):  # the server has the call by now
            process.send_signal(how)
        answer = _answer(process)
        assert (answer["id"], answer["result"]["content"]) == (3, [{"type": "text", "text": "done"}])
        assert process.wait(END_S) == 0


@pytest.mark.parametrize("loop", LOOPS)
def test_a_request_that_is_too_long_is_refused_by_its_id_and_the_session_goes_on(loop: str) -> None:
    process = forks.start(
        gateway([{"command": ROUGH}], loop=loop), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _say(process, {"id": 1, "method": "initialize", "params": HELLO})
        assert _answer(process)["id"] == 1
        call = {"name": "next", "arguments": {"x": "y" * 1024 * 1024 * 65}}
        _say(process, {"id": 2, "method": "tools/call", "params": call})
        refused = _answer(process)
        assert (refused["id"], refused["error"]["code"]) == (2, -32600)
        process.stdin.write(b"no message at all\n")
        _say(process, {"id": 3, "method": "tools/call", "params": {"name": "next"}})
        assert _answer(process)["id"] == 3
    finally:
        process.stdin.close()
        process.wait(END_S)
        process.stdout.close()


def _say(process: subprocess.Popen[bytes], message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def _greet(process: subprocess.Popen[bytes]) -> None:
    _say(process, {"id": 1, "method": "initialize", "params": HELLO})
    assert _answer(process)["id"] == 1
    _say(process, {"method": "notifications/initialized"})


def _answer(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    with killed_after(process):
        return json.loads(process.stdout.readline())


def test_the_wire_in_memory_ends_with_its_client() -> None:
    async def run() -> None:
        upstream = Upstream.command(ROUGH)
        async with asyncio.timeout(SOON_S):
            async with Client(sdk_server(Passing(), [upstream]), mode="legacy") as client:
                assert (await client.call_tool("next", {})).content
            await upstream.aclose()

    asyncio.run(run())
