"""A server that speaks the stateless era alone stands behind the gateway, however it turns a handshake down."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp import Client

from readback.gateway.serving.serve import sdk_server
from readback.gateway.upstream import handshake
from readback.gateway.upstream.upstream import Upstream
from tests.gateway.passing import Passing
from tests.gateway.servers.stateless import answer
from tests.gateway.transcript import SOON_S

STATELESS = (sys.executable, "-S", str(Path(__file__).parent / "servers" / "stateless.py"))
pytestmark = pytest.mark.requirement("WIRE-eras")


async def greeted(upstream: Upstream, mode: str) -> None:
    """A client of either era lists the tools, and calls one; so does the gateway itself."""
    try:
        async with asyncio.timeout(SOON_S):
            assert [tool["name"] for tool in await upstream.tools()] == ["hello"]
            async with Client(sdk_server(Passing(), [upstream]), mode=mode) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["hello"]
                (block,) = (await client.call_tool("hello", {})).content
                assert block.text == "hello"  # type: ignore[union-attr]
    finally:
        await upstream.aclose()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("how", ["-32601", "-32602", "-32600", "-32603", "-32000", "-32022", "exit", "silent"])
def test_over_stdio_it_is_greeted_in_its_own_era_whatever_it_says_to_a_handshake(
    monkeypatch: pytest.MonkeyPatch, how: str, mode: str
) -> None:
    if how == "silent":
        monkeypatch.setattr(handshake, "INITIALIZE_S", 0.2)
    asyncio.run(greeted(Upstream.command([*STATELESS, how]), mode))


@asynccontextmanager
async def over_http(status: int, body: bytes) -> AsyncIterator[str]:
    """The same server over HTTP. What is no request of its era it answers with a status and a body."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        request = (await receive()).get("body", b"")
        message = json.loads(request) if request else {}
        found = answer(message, "0") if "id" in message else None
        if found is None or (found.get("error") or {}).get("code") == 0:
            head, said = status, body
        else:
            head, said = 200, json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}).encode()
        kind = b"application/json" if said.startswith(b"{") else b"text/plain"
        await send({"type": "http.response.start", "status": head, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": said})

    running = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
    serving = asyncio.ensure_future(running.serve())
    while not running.started:
        await asyncio.to_thread(lambda: None)
    try:
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        running.should_exit = True
        await serving


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b"no"),
        (400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no envelope"}}'),
        (404, b""),
        (405, b""),
        (500, b"no"),
    ],
)
def test_over_http_it_is_greeted_in_its_own_era_whatever_it_says_to_a_handshake(
    status: int, body: bytes, mode: str
) -> None:
    async def run() -> None:
        async with over_http(status, body) as url:
            await greeted(Upstream.url(url), mode)

    asyncio.run(run())
