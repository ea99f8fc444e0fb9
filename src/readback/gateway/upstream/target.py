"""A server's address, and the knowledge shared by all connections to the server."""

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
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.tracing import names
from readback.gateway.upstream.process import process_lines
from readback.gateway.wire.http_client import DENIED, Posts
from readback.gateway.wire.jsonl import MESSAGE_MAX_BYTES
from readback.gateway.wire.text_marks import HttpStreams
from readback.gateway.wire.texts_from_servers import from_server, to_server
from readback.systems.configured.settings import Credentials

CALL_TIMEOUT_S: Final = 600.0
"""Default time limit of a request."""
PROCESSES_MAX: Final = 64
HTTP_TIMEOUT: Final = httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=MCP_DEFAULT_SSE_READ_TIMEOUT, pool=None)
"""The SDK's own timeouts, but without a limit for acquiring a connection: reaching the limit ends all requests in
flight.
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A server started as a process, addressed over stdin and stdout."""

    argv: tuple[str, ...]
    env: Mapping[str, str] | None = None
    """Additions to the gateway's own environment without READBACK_ variables."""
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server reached over streamable HTTP."""

    url: str
    headers: Mapping[str, str] | None = None


@dataclass(slots=True)
class Server:
    """A server and its known properties. `modern`: its era, if only one is known to work."""

    target: Command | Endpoint
    key: str = ""
    timeout_s: float = CALL_TIMEOUT_S
    modern: bool | None = None
    at_once: int = 0
    """Most concurrent calls over one session's connections; 0 for no limit."""
    secrets: Credentials = field(default_factory=Credentials)
    """Parts of the target resolved from references."""
    header_maps: dict[str, Mapping[tuple[str, ...], str]] = field(default_factory=dict)
    """For each tool with arguments repeated in HTTP headers: the arguments."""
    header_schemas: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The input schemas of the same tools."""
    processes_max: int = PROCESSES_MAX
    """Most processes of the server for client sessions. The gateway's own process does not count."""
    processes: int = 0
    """The current number of such processes."""
    denied: int = 0
    """The status of the latest answer over the SDK's transport, if in DENIED."""

    @property
    def said(self) -> str:
        """The server's name in messages."""
        if self.key:
            return f"server {self.key!r}"
        target = self.target
        return f"server {_public(target.url)!r}" if isinstance(target, Endpoint) else f"server {target.argv[0]!r}"

    def origin(self, version: str) -> dict[str, Json]:
        """Return the facts about a call's connection for the record. `version`: the agreed revision; "" before one."""
        transport = names.TCP if isinstance(self.target, Endpoint) else names.PIPE
        return {**call_facts(version), names.NETWORK_TRANSPORT: transport}

    def streams(self) -> AbstractAsyncContextManager[Any]:
        """Open a new transport: a dispatcher over lines, or the SDK's streams."""
        if isinstance(self.target, Command):
            return process_lines(self.target.argv, env=self.target.env, cwd=self.target.cwd)
        return _http_streams(self.target, self._note_status)

    async def _note_status(self, response: httpx2.Response) -> None:
        self.denied = response.status_code if response.status_code in DENIED else 0

    def crowded(self) -> TooManyServersError | None:
        """Return why no process can start for another client session, or None."""
        if not isinstance(self.target, Command) or self.processes < self.processes_max:
            return None
        said = f"{self.processes} processes of {self.said} run for client sessions, which is as many as may."
        return TooManyServersError(said)

    @asynccontextmanager
    async def session_streams(self) -> AsyncIterator[Any]:
        """Open a transport for a client session. Raises TooManyServersError at the process limit."""
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
        """Return the direct HTTP client, or None for a process or a target needing the SDK's transport."""
        return Posts.to(self.target.url, self.target.headers) if isinstance(self.target, Endpoint) else None

    def learn(self, tools: object) -> None:
        """Record the headers wanted by the listed tools."""
        for tool in tools if isinstance(tools, list) else ():
            name, schema = (str(tool.get("name")), tool.get("inputSchema")) if isinstance(tool, dict) else ("", None)
            valid = isinstance(schema, dict) and find_invalid_x_mcp_header(schema) is None
            headers = x_mcp_header_map(schema) if valid else {}
            if isinstance(schema, dict) and headers:
                self.header_maps[name], self.header_schemas[name] = headers, schema
            else:
                self.header_maps.pop(name, None)
                self.header_schemas.pop(name, None)


def call_facts(version: str) -> dict[str, Json]:
    """Return the facts about a call for the record, without the transport."""
    found: dict[str, Json] = {names.MCP_METHOD_NAME: names.TOOLS_CALL}
    return {**found, names.MCP_PROTOCOL_VERSION: version} if version else found


def _public(url: str) -> str:
    """Return an address without credentials, path and query.

    All three may hold secrets, and messages go to clients and into the ledger.
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))


@asynccontextmanager
async def _http_streams(target: Endpoint, note: Callable[[httpx2.Response], Awaitable[None]]) -> AsyncIterator[Any]:
    """Open the SDK's streams. `note` sees each response first, since the SDK does not report the status."""
    async with create_mcp_http_client(headers=dict(target.headers or {}), timeout=HTTP_TIMEOUT) as client:
        client.event_hooks["request"].append(to_server)
        client.event_hooks["response"] += [note, from_server]
        async with streamable_http_client(target.url, http_client=client, max_sse_event_size=MESSAGE_MAX_BYTES) as (
            read,
            write,
        ):
            yield HttpStreams(read, write)
