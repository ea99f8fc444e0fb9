"""What stands before the gateway over HTTP: whose requests it takes, for how long, and of how many sessions."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from click.testing import CliRunner
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCNotification, JSONRPCResponse
from pydantic import Field

from readback.agent_errors import TooManyServersError
from readback.cli.cli import main
from readback.errors import SettingsError
from readback.gateway.serving import http_reader, http_sessions
from readback.gateway.serving.http_guard import HttpGuard
from readback.gateway.serving.http_sessions import RecentEvents
from readback.gateway.serving.serve import serve_http
from readback.host_names import names_of
from readback.mcp import InProcess, Upstream
from tests.gateway.passing import Passing
from tests.gateway.processes import ROUGH, running
from tests.gateway.transcript import SOON_S

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
VERSION = "2025-11-25"
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@asynccontextmanager
async def front(upstream: Upstream, **limits: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway over HTTP that lets everything through, and a client of it."""
    stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()
    served = serve_http(Passing(), [upstream], port=0, stop=stop, on_listening=listening.set_result, **limits)
    serving = asyncio.ensure_future(served)
    try:
        async with asyncio.timeout(SOON_S), httpx.AsyncClient(base_url=await listening, headers=HEADERS) as client:
            yield client
    finally:
        stop.set()
        async with asyncio.timeout(SOON_S):
            await serving
            await upstream.aclose()


async def post(client: httpx.AsyncClient, method: str, params: Any = None, **headers: str) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post("", content=json.dumps(message), headers=named)


async def opened(client: httpx.AsyncClient) -> httpx.Response:
    """A new session of the handshake era."""
    asked = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    return await post(client, "initialize", asked)


def of(response: httpx.Response) -> dict[str, str]:
    return {"mcp_session_id": response.headers["mcp-session-id"], "mcp_protocol_version": VERSION}


def modern(method: str, name: str = "") -> dict[str, str]:
    return {"mcp_protocol_version": MODERN, "mcp_method": method, **({"mcp_name": name} if name else {})}


def said(response: httpx.Response) -> dict[str, Any]:
    """The last message of an answer, whether as JSON or as a stream."""
    if response.headers["content-type"].startswith("application/json"):
        return dict(response.json())
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    return dict(json.loads(lines[-1]))


# --- whose requests ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WIRE-front")
@pytest.mark.parametrize(
    ("listens", "headers", "status"),
    [
        ("127.0.0.1", ["host: 127.0.0.1:8765"], None),
        ("127.0.0.1", ["host: LocalHost"], None),
        ("localhost", ["host: localhost:1"], None),
        ("::1", ["host: [::1]:8765", "origin: http://[::1]:80"], None),
        ("127.0.0.9", ["host: 127.0.0.9:8765"], None),
        ("127.0.0.1", ["host: localhost", "origin: HTTP://LOCALHOST:3000"], None),
        ("127.0.0.1", [], 400),
        ("127.0.0.1", ["host: localhost", "host: localhost"], 400),
        ("127.0.0.1", ["host: localhost", "host: evil.example"], 400),
        ("127.0.0.1", ["host: "], 421),
        ("127.0.0.1", ["host: evil.example"], 421),
        ("127.0.0.1", ["host: localhost.evil.example"], 421),
        ("127.0.0.1", ["host: localhost:80@evil.example"], 421),
        ("127.0.0.1", ["host: localhost:80:90"], 421),
        ("127.0.0.1", ["host: localhost:port"], 421),
        ("127.0.0.1", ["host: 127.0.0.9"], 421),
        ("127.0.0.1", ["host: localhost", "origin: http://localhost:80@evil.example"], 403),
        ("127.0.0.1", ["host: localhost", "origin: http://localhost:80.evil.example"], 403),
        ("127.0.0.1", ["host: localhost", "origin: http://localhost.evil.example"], 403),
        ("127.0.0.1", ["host: localhost", "origin: http://localhost/"], 403),
        ("127.0.0.1", ["host: localhost", "origin: null"], 403),
        ("127.0.0.1", ["host: localhost", "origin: "], 403),
        ("127.0.0.1", ["host: localhost", "origin: http://localhost", "origin: http://evil.example"], 403),
        ("127.0.0.1", ["host: localhost", "origin: https://localhost"], 403),
        ("192.0.2.7", ["host: 192.0.2.7:8765"], None),
        ("192.0.2.7", ["host: 192.0.2.7", "origin: https://192.0.2.7"], None),
        ("192.0.2.7", ["host: localhost"], 421),
        ("192.0.2.7", ["host: evil.example:8765"], 421),
        ("192.0.2.7", ["host: 192.0.2.7", "origin: http://elsewhere.example"], 403),
        ("2001:db8::7", ["host: [2001:db8::7]:8765"], None),
        ("gateway.example", ["host: Gateway.Example:8765", "origin: http://gateway.example"], None),
        ("gateway.example", ["host: gateway.example.evil.example"], 421),
        ("0.0.0.0+one.example,192.0.2.7", ["host: ONE.example:8765", "origin: https://192.0.2.7"], None),
        ("0.0.0.0+one.example", ["host: two.example"], 421),
        ("0.0.0.0+one.example", ["host: 0.0.0.0"], 421),
        ("0.0.0.0+one.example", ["host: one.example", "host: one.example"], 400),
        ("0.0.0.0+one.example", ["host: one.example", "origin: http://two.example"], 403),
        ("::+::1", ["host: [::1]:80"], None),
        ("127.0.0.1+behind.example", ["host: behind.example", "origin: https://behind.example"], None),
        ("127.0.0.1+behind.example", ["host: localhost"], None),
    ],
)
def test_a_request_is_taken_where_it_names_the_gateway_whole_and_once(
    listens: str, headers: list[str], status: int | None
) -> None:
    async def app(*_: object) -> None:
        raise AssertionError

    lines = [tuple(part.encode() for part in each.split(": ", 1)) for each in headers]
    host, _, allowed = listens.partition("+")
    refusal = HttpGuard(app, host, [*filter(None, allowed.split(","))]).refusal(
        [(name, value) for name, value in lines]
    )
    assert (None if refusal is None else refusal[0]) == status
    assert refusal is None or refusal[1].code == "gateway.foreign-request"


@pytest.mark.requirement("WIRE-front")
@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("0.0.0.0", []),
        ("::", []),
        ("0.0.0.0", ["http://one.example"]),
        ("127.0.0.1", ["one.example:80"]),
        ("127.0.0.1", ["*"]),
        ("127.0.0.1", [""]),
        ("127.0.0.1", ["one.example", "caf\xe9"]),
    ],
)
def test_a_gateway_that_does_not_know_its_own_names_does_not_start(host: str, allowed: list[str]) -> None:
    told = CliRunner().invoke(
        main, ["mcp", "--serve", "http", "--host", host, *(f"--allow-host={each}" for each in allowed), "--", "/none"]
    )
    assert told.exit_code != 0
    assert "allow-host" in told.stderr or "not a host name" in told.stderr
    with pytest.raises(SettingsError):
        names_of(host, allowed)


@pytest.mark.requirement("WIRE-front")
def test_a_foreign_request_is_refused_with_a_code_and_blanks_around_a_header_are_no_part_of_it() -> None:
    async def run() -> None:
        async with front(Upstream.command(ROUGH)) as client:
            refused = await post(client, "ping", origin="http://localhost:1@evil.example")
            assert refused.status_code == 403
            assert refused.json()["error"]["data"]["code"] == "gateway.foreign-request"
            params = {"name": "next", "arguments": {}, "_meta": ENVELOPE}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
            named = {**HEADERS, "host": client.base_url.netloc.decode(), "content-length": str(len(body))}
            named["mcp-name"] = "  next\t"
            lines = [*named.items(), *((k.replace("_", "-"), v) for k, v in modern("tools/call").items())]
            reads, writes = await asyncio.open_connection(client.base_url.host, client.base_url.port)
            head = "".join(f"{name}: {value}\r\n" for name, value in lines)
            writes.write(f"POST /mcp HTTP/1.1\r\n{head}connection: close\r\n\r\n{body}".encode())
            answer = await reads.read()
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b'"text": "next"' in answer
            writes.close()

    asyncio.run(run())


@pytest.mark.requirement("WIRE-eras")
@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
)
def test_a_method_that_the_stateless_era_has_no_more_is_not_found(method: str) -> None:
    async def run() -> None:
        async with front(Upstream.command(ROUGH)) as client:
            answer = await post(client, method, {"_meta": ENVELOPE, "uri": "file:///x"}, **modern(method))
            assert (answer.status_code, said(answer)["error"]["code"]) == (404, -32601)

    asyncio.run(run())


@pytest.mark.requirement("WIRE-eras")
@pytest.mark.parametrize(
    ("region", "header", "status"),
    [
        ("eu", "eu", 200),
        ("eu", "us", 400),
        ("eu", None, 400),
        ("eu", "=?base64?ZXU?=", 400),
        ("eu", "=?base64?ZXU=?=", 200),
    ],
)
def test_arguments_that_a_tool_wants_in_headers_are_compared_with_them(
    region: str, header: str | None, status: int
) -> None:
    server = MCPServer("regions")

    @server.tool()
    def place(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        return region

    async def run() -> None:
        async with front(InProcess(server)) as client:
            await post(client, "tools/list", {"_meta": ENVELOPE}, **modern("tools/list"))
            params = {"name": "place", "arguments": {"region": region}, "_meta": ENVELOPE}
            given = {} if header is None else {"mcp_param_region": header}
            answer = await post(client, "tools/call", params, **modern("tools/call", "place"), **given)
            assert answer.status_code == status
            assert status == 200 or said(answer)["error"]["code"] == -32020

    asyncio.run(run())


# --- for how long --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WIRE-front")
@pytest.mark.parametrize("reader", ["httptools", "h11"])
@pytest.mark.parametrize(
    ("part", "said_first"),
    [
        (b"", b"HTTP/1.1 408 "),
        (b"POST /mcp HTTP/1.1\r\nhost: local", b"HTTP/1.1 408 "),
        (b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{", b""),
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_connection_whose_request_is_not_whole_in_time_is_closed(
    monkeypatch: pytest.MonkeyPatch, reader: str, part: bytes, said_first: bytes
) -> None:
    monkeypatch.setattr(http_reader, "_LIMIT_S", {"head": 0.05, "body": 0.05})
    if reader == "h11":
        monkeypatch.setitem(sys.modules, "httptools", None)

    async def run() -> None:
        async with front(Upstream.command(ROUGH)) as client:
            url = client.base_url
            reads, writes = await asyncio.open_connection(url.host, url.port)
            writes.write(part)
            assert (await reads.read()).startswith(said_first)
            writes.close()
            assert (await opened(client)).status_code == 200

    asyncio.run(run())


@pytest.mark.requirement("WIRE-front")
def test_a_session_that_idles_ends_with_its_process_and_is_not_found_any_more(tmp_path: Path) -> None:
    async def run() -> None:
        async with front(Upstream.command(ROUGH, env={"MARK": str(tmp_path)}), session_idle_s=0.3) as client:
            session = of(await opened(client))
            assert len(running(str(tmp_path))) == 1
            while running(str(tmp_path)):
                await asyncio.to_thread(lambda: None)
            assert (await post(client, "ping", **session)).status_code == 404

    asyncio.run(run())


# --- of how many ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WIRE-front")
def test_one_session_too_many_is_refused_with_a_code_until_another_ends() -> None:
    async def run() -> None:
        async with front(Upstream.command(ROUGH), sessions_max=1) as client:
            session = of(await opened(client))
            refused = await opened(client)
            assert refused.status_code == 503
            assert refused.json()["error"]["data"]["code"] == "gateway.too-many-sessions"
            assert said(await post(client, "ping", **session))["result"] == {}
            await client.delete("", headers={"mcp-session-id": session["mcp_session_id"]})
            assert (await opened(client)).status_code == 200

    asyncio.run(run())


@pytest.mark.requirement("WIRE-front")
def test_a_session_that_could_not_begin_takes_no_place() -> None:
    async def run() -> None:
        async with front(Upstream.command([*ROUGH, "gone"]), sessions_max=1) as client:
            for _ in range(2):
                answer = await opened(client)
                assert "could not be started" in said(answer)["error"]["message"]
                assert (await post(client, "ping", **of(answer))).status_code == 404

    asyncio.run(run())


@pytest.mark.requirement("WIRE-front")
def test_processes_of_a_server_are_bounded_and_the_gateway_s_own_is_none_of_them(tmp_path: Path) -> None:
    async def run() -> None:
        upstream = Upstream.command(ROUGH, env={"MARK": str(tmp_path)})
        upstream.server.processes_max = 1
        async with front(upstream) as client:
            session = of(await opened(client))
            refused = await opened(client)
            assert refused.status_code == 503
            assert refused.json()["error"]["data"]["code"] == "gateway.too-many-servers"
            late = upstream.attach()  # a session that was opened before the others' processes were started
            with pytest.raises(TooManyServersError):
                await late.connection()
            assert await upstream.tools() is not None  # over the gateway's own connection
            assert len(running(str(tmp_path))) == 2
            await client.delete("", headers={"mcp-session-id": session["mcp_session_id"]})
            while upstream.server.processes:
                await asyncio.to_thread(lambda: None)
            assert "result" in said(await opened(client))

    asyncio.run(run())


# --- what a client can resume --------------------------------------------------------------------------------------


async def _first_event(client: httpx.AsyncClient, method: str, params: Any, session: Mapping[str, str]) -> list[str]:
    """The first event of the answer; then the connection is cut."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    headers = {name.replace("_", "-"): value for name, value in session.items()}
    lines = []
    async with client.stream("POST", "", content=json.dumps(message), headers=headers) as answer:
        async for line in answer.aiter_lines():
            if not line and lines:
                break
            lines.append(line)
    return lines


@pytest.mark.requirement("WIRE-resume")
def test_a_client_whose_connection_broke_gets_the_answer_by_the_last_event_and_no_other_client_does() -> None:
    async def run() -> None:
        async with front(Upstream.command(ROUGH)) as client:
            one, other = of(await opened(client)), of(await opened(client))
            event = await _first_event(client, "tools/call", {"name": "next", "arguments": {}}, one)
            assert "data: " in event  # it primes the client, and holds nothing
            assert "retry: 1000" in event
            (last,) = [line.removeprefix("id: ") for line in event if line.startswith("id: ")]
            for session, found in ((other, []), (one, ["next"])):
                headers = {name.replace("_", "-"): value for name, value in session.items()}
                texts = []
                async with client.stream("GET", "", headers={**headers, "last-event-id": last}) as answer:
                    async for line in answer.aiter_lines():
                        if line.startswith("data: {") and json.loads(line[6:]).get("id") == 7:
                            texts = [each["text"] for each in json.loads(line[6:])["result"]["content"]]
                            break
                        if line == "data: " and session is other:
                            break
                assert texts == found

    asyncio.run(run())


@pytest.mark.requirement("WIRE-resume")
def test_the_events_that_a_session_keeps_are_bounded_and_one_that_is_gone_resumes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_sessions, "EVENTS_MAX", 3)
    monkeypatch.setattr(http_sessions, "EVENTS_MAX_BYTES", 1_000)

    async def run() -> None:
        events, sent = RecentEvents(), list[EventMessage]()

        async def send(event: EventMessage) -> None:
            sent.append(event)

        def told(text: str) -> JSONRPCNotification:
            return JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"text": text})

        first = await events.store_event("1", None)
        await events.store_event("2", told("of another stream"))
        await events.store_event("1", JSONRPCResponse(jsonrpc="2.0", id=1, result={"x": "y"}))
        assert await events.replay_events_after(first, send) == "1"
        assert [event.event_id for event in sent] == ["3"]
        await events.store_event("1", told("x" * 2_000))  # is not kept by itself
        assert await events.replay_events_after(first, send) == "1"
        assert len(sent) == 2
        await events.store_event("1", told("x" * 900))
        assert await events.replay_events_after(first, send) is None
        assert len(sent) == 2

    asyncio.run(run())
