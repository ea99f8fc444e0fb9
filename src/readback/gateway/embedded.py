"""Govern your own MCP server in its own process, without a separate gateway.

A middleware sends the server's tool calls through the same gate. The server is also its own toolserver. A call with a
waiting client continues to its handler with the client's own context. A resumed action uses a connection in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

import anyio
from mcp.server import Server as SdkServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from readback.agent_errors import ToolRefusedError, UpstreamLostError
from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.errors import SettingsError
from readback.gateway.call import Call, ClientLink
from readback.gateway.gateway import Gateway
from readback.gateway.policy.builtin_tools import OWN_NAMES
from readback.gateway.policy.catalogue import Tool
from readback.gateway.policy.gate import Gate
from readback.gateway.session.client_session import protocol_error
from readback.gateway.upstream.attachment import PAGES_MAX, Attachment, goes_on, paged
from readback.gateway.upstream.target import Command, Server, call_facts
from readback.gateway.upstream.upstream import Upstream
from readback.systems.configured.settings import Credentials

INSIDE: ContextVar[bool] = ContextVar("readback_inside", default=False)
"""Set on connections from the gate itself: their calls are not governed again."""
_NOT_STARTED: Final = Command(("in process",))


@dataclass(slots=True)
class Within(Server):
    """A server of this process, reached in memory."""

    sdk: Any = None

    def streams(self) -> AbstractAsyncContextManager[Any]:
        return _memory(self.sdk)

    def origin(self, version: str) -> dict[str, Json]:
        return call_facts(version)  # no bytes leave this process


class InProcess(Upstream):
    """An SDK server in this process as an upstream. `server`: an MCPServer or a lowlevel Server.

    >>> from mcp.server import MCPServer
    >>> from readback.mcp import InProcess
    >>> InProcess(MCPServer("book"), key="book").key
    'book'
    """

    def __init__(self, server: SdkServer[Any] | MCPServer[Any], *, key: str = "") -> None:
        super().__init__(_NOT_STARTED, key=key)
        self.server = Within(_NOT_STARTED, key, sdk=lowlevel(server))
        self.own = Attachment(self.server)


@asynccontextmanager
async def verified_server(
    server: SdkServer[Any] | MCPServer[Any], contracts: Sequence[Any] = (), **options: Any
) -> AsyncIterator[Gateway]:
    """Govern a server's own tools while the context is open.

    Args:
        server: An MCPServer or a lowlevel Server of the MCP SDK.
        contracts: Contract files.
        options: Options of `Gateway`.

    Raises:
        SettingsError: The server or an option is invalid.
        ContractFileError: A contract file has faults; the error lists every fault.

    >>> from mcp.server import MCPServer
    >>> from readback.mcp import verify_server
    >>> server = MCPServer("book")
    >>> async def main() -> None:
    ...     async with verify_server(server, ["book.yaml"], url="sqlite:///readback.db"):
    ...         await server.run_stdio_async()
    """
    sdk = lowlevel(server)
    async with Gateway([InProcess(sdk)], contracts, **options) as gateway:
        governing = _Governing(gateway.gate)
        sdk.middleware.insert(0, governing)
        try:
            yield gateway
        finally:
            sdk.middleware.remove(governing)


def lowlevel(server: object) -> SdkServer[Any]:
    """Return the server under an MCPServer, through a private attribute. Raises SettingsError for any other object."""
    if isinstance(server, MCPServer):
        return server._lowlevel_server  # noqa: SLF001
    if isinstance(server, SdkServer):
        return server
    remedy = "Pass an MCPServer, or a lowlevel Server, of the package `mcp`."
    raise SettingsError(
        f"Expected an MCPServer or a lowlevel Server of the MCP SDK (got {type(server).__name__}).", remedy=remedy
    )


class _Governing:
    """The middleware."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if INSIDE.get() or ctx.request_id is None or ctx.method not in ("tools/call", "tools/list"):
            return await call_next(ctx)
        if ctx.method == "tools/list":
            return await self._listed(_dumped(await call_next(ctx)))
        result = await self._called(dict(ctx.params or {}), _Here(ctx, call_next))
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            result.setdefault("resultType", "complete")
        return result

    async def _listed(self, page: dict[str, Any]) -> HandlerResult:
        shown = await self._gate.listed("", _tools_of(page))
        if page.get("nextCursor") is None:
            shown += self._gate.own_tools()
        return {**page, "tools": shown}

    async def _called(self, params: dict[str, Any], here: _Here) -> dict[str, Json]:
        name, arguments = str(params.get("name", "")), params.get("arguments")
        call = Call(name, "", name, {} if arguments is None else arguments, params)
        if name in OWN_NAMES:
            return await self._gate.own_call(call)
        try:
            return await self._gate.call(call, here)
        except ReadbackError as error:
            if isinstance(error, ToolRefusedError) and isinstance(error.__cause__, MCPError):
                raise error.__cause__ from error
            raise protocol_error(error) from error


class _Here:
    """Implements `Toolserver` over the handlers behind the middleware, for one call."""

    key = ""
    room: asyncio.Semaphore | None = None
    unlisted = False
    secrets = Credentials()

    def __init__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> None:
        self._ctx, self._next = ctx, call_next

    @property
    def origin(self) -> dict[str, Json]:
        return call_facts(self._ctx.protocol_version or "")

    async def call(
        self, params: Mapping[str, Json], *, timeout_s: float | None, link: ClientLink | None = None
    ) -> dict[str, Json]:
        try:
            return _dumped(await self._next(replace(self._ctx, params=params)))
        except MCPError as error:
            said = {"code": error.code, "message": error.message, "data": error.data}
            raise ToolRefusedError(f"The server refused the call: {error.message}", details=said) from error

    async def tools(self) -> Sequence[Tool]:
        found: list[Tool] = []
        cursors: list[str] = []
        for _ in range(PAGES_MAX):
            params = {"cursor": cursors[-1]} if cursors else {}
            page = _dumped(await self._next(replace(self._ctx, method="tools/list", params=params)))
            found += paged(page, found, cursors)
            if not goes_on(page, cursors):
                return found
        raise UpstreamLostError(f"The server lists more than {PAGES_MAX} pages of tools.")


def _tools_of(page: Mapping[str, Any]) -> list[Tool]:
    found = page.get("tools")
    return [tool for tool in found if isinstance(tool, dict)] if isinstance(found, list) else []


def _dumped(result: HandlerResult) -> dict[str, Any]:
    """Return a handler's result in wire form."""
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dict(result or {})


@asynccontextmanager
async def _memory(server: SdkServer[Any]) -> AsyncIterator[Any]:
    INSIDE.set(True)
    async with create_client_server_memory_streams() as (near, far), anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, far[0], far[1], server.create_initialization_options())
        try:
            yield near
        finally:
            tasks.cancel_scope.cancel()
