"""A client's session without a server: the client sees the gate's own tools only."""

from __future__ import annotations

from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from readback.gateway.call import Call, ToolGate
from readback.gateway.session.client_session import ClientSession
from readback.gateway.upstream.handshake import ServerInfo, stateless
from readback.gateway.upstream.request_context import Exchange

SERVER_INFO = {"name": "readback", "title": "Readback: verified actions", "version": "0.1.0"}
CAPABILITIES = {"tools": {"listChanged": False}}
INSTRUCTIONS = (
    "Every call here is verified: Readback reads the intended state back before the call counts. "
    "Without the word verified in the result, the call has not succeeded. Ask about a pending call with readback_wait."
)


class OwnSession(ClientSession):
    """A client's session over the gate's own tools. No other method is offered."""

    def __init__(self, gate: ToolGate, *, modern: bool, private: bool = True) -> None:
        super().__init__(gate, (), modern=modern, private=private)
        self._own_gate = gate
        offered = ("initialize", "server/discover", "ping", "tools/list", "tools/call")
        self._routes = {method: route for method, route in self._routes.items() if method in offered}

    def _info(self) -> dict[str, Any]:
        return dict(SERVER_INFO)

    async def _reached(self) -> list[tuple[str, ServerInfo]]:
        return []

    async def _initialize(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        asked = str(params.get("protocolVersion"))
        return {
            "protocolVersion": asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION,
            "capabilities": CAPABILITIES,
            "serverInfo": SERVER_INFO,
            "instructions": INSTRUCTIONS,
        }

    async def _discover(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        found = {"supportedVersions": list(MODERN_PROTOCOL_VERSIONS), "capabilities": CAPABILITIES}
        return stateless("server/discover", {**found, "instructions": INSTRUCTIONS}, SERVER_INFO)

    async def _tools(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("cursor") is not None:
            raise MCPError(code=INVALID_PARAMS, message="The cursor is unknown.")
        return {"tools": self._own_gate.own_tools()}

    async def _call(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        tool, arguments = params.get("name"), params.get("arguments")
        if not isinstance(tool, str) or not (arguments is None or isinstance(arguments, dict)):
            raise MCPError(code=INVALID_PARAMS, message="tools/call requires a name, and arguments as an object.")
        if tool not in self._own_names:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {tool}")
        return await self._own_gate.own_call(Call(tool, "", tool, arguments or {}, params, exchange))

    async def _other(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        raise MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=exchange.context.method)

    def header_schema(self, tool: str) -> None:
        """Return None: no tool of its own repeats arguments in headers."""
        return
