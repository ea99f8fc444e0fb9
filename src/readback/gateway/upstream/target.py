"""How a server is reached, and what all connections to it know of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import MCP_DEFAULT_SSE_READ_TIMEOUT, MCP_DEFAULT_TIMEOUT, create_mcp_http_client
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map

from readback.agent_errors import TooManyServersError
from readback.canon.frozen import dataclass
from readback.gateway.upstream.process import process_lines
from readback.gateway.wire.http_client import DENIED, Posts
from readback.gateway.wire.jsonl import MESSAGE_MAX_BYTES
from readback.gateway.wire.text_marks import HttpStreams
from readback.gateway.wire.texts_from_servers import from_server, to_server
from readback.systems.configured.settings import Credentials

CALL_TIMEOUT_S: Final = 600.0
"""How long a request waits for its answer where nobody says a shorter time."""
PROCESSES_MAX: Final = 64
HTTP_TIMEOUT: Final = httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=MCP_DEFAULT_SSE_READ_TIMEOUT, pool=None)
"""The SDK's own, but that a request waits for a connection without an end: giving up ends all that are in flight."""


@dataclass(frozen=True, slots=True)
class Command:
    """A server started as a process that speaks over stdin and stdout."""

    argv: tuple[str, ...]
    env: Mapping[str, str] | None = None
    """Added to the gateway's own environment, without its READBACK_ variables."""
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that speaks streamable HTTP."""

    url: str
    headers: Mapping[str, str] | None = None


@dataclass(slots=True)
class Server:
    """A server, and what was learnt of it. `modern`: the era that it speaks, where only one is known to work."""

    target: Command | Endpoint
    key: str = ""
    timeout_s: float = CALL_TIMEOUT_S
    modern: bool | None = None
    at_once: int = 0
    """How many calls it is given at a time over one session's connections; 0 for as many as come."""
    secrets: Credentials = field(default_factory=Credentials)
    """What of the target came by reference."""
    header_maps: dict[str, Mapping[tuple[str, ...], str]] = field(default_factory=dict)
    """By tool: which arguments its calls repeat in HTTP headers. Of no other tool."""
    header_schemas: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The input schemas of the same tools."""
    processes_max: int = PROCESSES_MAX
    """How many processes of it run at a time for client sessions. The gateway's own is none of them."""
    processes: int = 0
    """How many do."""
    denied: int = 0
    """The status of its latest answer over the SDK's transport, where that was one of DENIED."""

    @property
    def said(self) -> str:
        """What it is called in messages."""
        if self.key:
            return f"server {self.key!r}"
        target = self.target
        return f"server {_public(target.url)!r}" if isinstance(target, Endpoint) else f"server {target.argv[0]!r}"

    def streams(self) -> AbstractAsyncContextManager[Any]:
        """A new transport to it: a dispatcher over lines, or the SDK's streams."""
        if isinstance(self.target, Command):
            return process_lines(self.target.argv, env=self.target.env, cwd=self.target.cwd)
        return _http_streams(self.target, self._note_status)

    async def _note_status(self, response: httpx2.Response) -> None:
        self.denied = response.status_code if response.status_code in DENIED else 0

    def crowded(self) -> TooManyServersError | None:
        """Why no process can be started for one more client session; None where one can."""
        if not isinstance(self.target, Command) or self.processes < self.processes_max:
            return None
        said = f"{self.processes} processes of {self.said} run for client sessions, which is as many as may."
        return TooManyServersError(said)

    @asynccontextmanager
    async def session_streams(self) -> AsyncIterator[Any]:
        """The same for a client session: of processes only so many run. Raises TooManyServersError."""
        if not isinstance(self.target, Command):
            async with self.streams() as streams:
                yield streams
            return
        if (crowded := self.crowded()) is not None:
            raise crowded
        self.processes += 1
        try:
            async with self.streams() as streams:
                yield streams
        finally:
            self.processes -= 1

    def posts(self) -> Posts | None:
        """What takes calls to it past the SDK's transport. None for a process, and where that knows more."""
        return Posts.to(self.target.url, self.target.headers) if isinstance(self.target, Endpoint) else None

    def learn(self, tools: object) -> None:
        """Remembers what listed tools want in the headers of their calls."""
        for tool in tools if isinstance(tools, list) else ():
            name, schema = (str(tool.get("name")), tool.get("inputSchema")) if isinstance(tool, dict) else ("", None)
            valid = isinstance(schema, dict) and find_invalid_x_mcp_header(schema) is None
            headers = x_mcp_header_map(schema) if valid else {}
            if isinstance(schema, dict) and headers:
                self.header_maps[name], self.header_schemas[name] = headers, schema
            else:
                self.header_maps.pop(name, None)
                self.header_schemas.pop(name, None)


def _public(url: str) -> str:
    """An address without what may be secret in it, which its path may be as well as its query: messages go to clients,
    and into the ledger.
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))


@asynccontextmanager
async def _http_streams(target: Endpoint, note: Callable[[httpx2.Response], Awaitable[None]]) -> AsyncIterator[Any]:
    """`note` sees each answer before the SDK does, which says nothing of a status."""
    async with create_mcp_http_client(headers=dict(target.headers or {}), timeout=HTTP_TIMEOUT) as client:
        client.event_hooks["request"].append(to_server)
        client.event_hooks["response"] += [note, from_server]
        async with streamable_http_client(target.url, http_client=client, max_sse_event_size=MESSAGE_MAX_BYTES) as (
            read,
            write,
        ):
            yield HttpStreams(read, write)
