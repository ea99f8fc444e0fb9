"""`readback mcp --header`: credentials for a server, from a file and shown nowhere; and a server that wants others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer

from readback.agent_errors import ToolRefusedError, UpstreamDeniedError, UpstreamLostError
from readback.cli.agents.mcp import _upstreams, server_headers
from readback.config import Settings
from readback.errors import ReadbackError, SettingsError, UsageError
from readback.mcp import Upstream
from tests.gateway.transcript import SOON_S

SECRET = "Bearer s3cr3t-of-the-book"
pytestmark = pytest.mark.requirement("WIRE-credentials")


def test_a_header_is_read_by_reference_and_goes_to_the_server_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").write_text(f"{SECRET}\n")
    (tmp_path / "two").write_text("abc")
    one, two = f"Authorization=@{tmp_path}/one", f"X-Key=@{tmp_path}/two"
    assert server_headers([one, two], [""]) == {"": {"Authorization": SECRET, "X-Key": "abc"}}
    monkeypatch.setenv("THE_TOKEN", SECRET)
    for same in (f"Authorization=file:{tmp_path}/one", "Authorization=env:THE_TOKEN"):
        assert server_headers([same], [""]) == {"": {"Authorization": SECRET}}
    assert server_headers([f"a:{one}", f"b:{two}"], ["a", "b"]) == {
        "a": {"Authorization": SECRET},
        "b": {"X-Key": "abc"},
    }
    (upstream,) = _upstreams([], ["http://127.0.0.1:1/mcp"], [], Settings(), [one])
    assert upstream.target.headers == {"Authorization": SECRET}  # type: ignore[union-attr]
    assert "s3cr3t" not in upstream.secrets.text(f"the server said {SECRET}")


@pytest.mark.parametrize(
    ("given", "keys", "kind"),
    [
        ("Authorization=Bearer s3cr3t", [""], UsageError),
        ("Authorization", [""], UsageError),
        ("=@FILE", [""], UsageError),
        ("Authorization=@", [""], UsageError),
        ("Authorization=env:", [""], UsageError),
        ("Authorization=env:NO_SUCH_VARIABLE", [""], SettingsError),
        ("Auth orization=@FILE", [""], UsageError),
        ("Host=@FILE", [""], UsageError),
        ("Content-Length=@FILE", [""], UsageError),
        ("Mcp-Session-Id=@FILE", [""], UsageError),
        ("c:Authorization=@FILE", ["a", "b"], UsageError),
        ("Authorization=@FILE", ["a", "b"], UsageError),
        ("Authorization=@NOTHING", [""], SettingsError),
        ("Authorization=@LINES", [""], SettingsError),
        ("Authorization=@EMPTY", [""], SettingsError),
        ("Authorization=@BYTES", [""], SettingsError),
    ],
)
def test_what_is_no_header_is_refused_and_its_value_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, keys: list[str], kind: type[ReadbackError]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in {"FILE": b"s3cr3t", "LINES": b"s3cr3t\r\nX: y", "EMPTY": b"", "BYTES": b"s3cr3t\xff"}.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(kind) as raised:
        server_headers([given], keys)
    assert "s3cr3t" not in f"{raised.value} {raised.value.remedy}"


def test_a_header_given_twice_or_without_a_url_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(SECRET)
    one = f"Authorization=@{tmp_path}/one"
    with pytest.raises(UsageError, match="twice"):
        server_headers([one, one.replace("A", "a", 1)], [""])
    with pytest.raises(UsageError, match="needs a --url"):
        _upstreams(["server"], [], [], Settings(), [one])


@asynccontextmanager
async def guarded() -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The address of a server over HTTP that wants credentials; which it accepts, and its status for others."""
    server, accepts = MCPServer("guarded"), {"status": 401, "credentials": SECRET}

    @server.tool()
    def echo(text: str) -> str:
        return text

    app = server.streamable_http_app()

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != accepts["credentials"].encode():
            await send({"type": "http.response.start", "status": accepts["status"], "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
        else:
            await app(scope, receive, send)

    config = uvicorn.Config(checked, port=0, log_level="critical", timeout_graceful_shutdown=1)
    running = uvicorn.Server(config)
    serving = asyncio.ensure_future(running.serve())
    while not running.started:
        await asyncio.to_thread(lambda: None)
    port = running.servers[0].sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(SOON_S):
            yield f"http://127.0.0.1:{port}/mcp", accepts
    finally:
        running.should_exit = True
        await serving


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_other_credentials_is_told_as_that_with_a_next_step(status: int) -> None:
    async def run() -> None:
        async with guarded() as (url, accepts):
            accepts["status"] = status
            upstream = Upstream.url(url)
            with pytest.raises(UpstreamDeniedError, match=f"HTTP {status}") as raised:
                await upstream.own.connection()
            assert "--header NAME=@FILE" in raised.value.remedy
            with pytest.raises(UpstreamLostError, match=f"HTTP {status}") as lost:
                await upstream.tools()
            assert "--header NAME=@FILE" in lost.value.remedy
            await upstream.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("modern", [False, True])
def test_a_call_whose_credentials_are_no_more_accepted_is_told_as_refused_for_that(modern: bool) -> None:
    async def run() -> None:
        async with guarded() as (url, accepts):
            upstream = Upstream.url(url, headers={"authorization": SECRET})
            upstream.server.modern = modern
            params: dict[str, Any] = {"name": "echo", "arguments": {"text": "hello"}}
            assert (await upstream.call(params, timeout_s=SOON_S))["isError"] is not True
            assert upstream.own.modern is modern
            accepts["credentials"] = "another"
            with pytest.raises(ToolRefusedError, match="HTTP 401"):
                await upstream.call(params, timeout_s=SOON_S)
            await upstream.aclose()

    asyncio.run(run())
