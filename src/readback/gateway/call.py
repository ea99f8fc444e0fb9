"""The interface between wire and gate: the wire passes calls to a gate, and the gate calls servers.

The wire moves messages and decides nothing. The gate decides and touches no transport. Both use raw JSON, so that
unknown content passes unchanged. Source: Model Context Protocol, revisions up to 2025-11-25, and 2026-07-28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.systems.configured.settings import Credentials

OPERATION_KEY: Final = "io.readback/operation"
"""Key in a call's `_meta`: the call's operation. One operation never acts twice."""
RESULT_MAX_BYTES: Final = 8 * 1024 * 1024
"""Largest forwarded answer of a governed tool. A larger answer is evidence only, and the verdict stands without it."""


class ClientLink(Protocol):
    """The way back to the client of one call. A disconnected client loses nothing."""

    async def progress(self, report: Mapping[str, Json]) -> None:
        """Forward a server's progress report. Returns silently if the client does not want progress or is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """One raw `tools/call`. `tool`: the client's name of the tool; `name`: its server's own."""

    tool: str
    server: str
    name: str
    arguments: Mapping[str, Json]
    params: Mapping[str, Json]
    """All raw parameters of the request, with `_meta`. Their `name` is the server's own."""
    link: ClientLink | None = None

    @property
    def meta(self) -> Mapping[str, Json]:
        """The request's `_meta`; empty if absent."""
        found = self.params.get("_meta")
        return found if isinstance(found, dict) else {}


class Toolserver(Protocol):
    """A server behind the gateway, seen as a set of tools.

    `key`: its name among several servers; "" for a single one.
    """

    key: str

    @property
    def room(self) -> asyncio.Semaphore | None:
        """Limits concurrent calls. Further calls wait before their start. None for no limit."""
        ...

    @property
    def unlisted(self) -> bool:
        """Whether the server was started or reached anew after its tools were last listed.

        The tools may have changed.
        """
        ...

    @property
    def origin(self) -> Mapping[str, Json]:
        """Facts about the connection for the record of a call: method, transport, and the agreed protocol revision."""
        ...

    @property
    def secrets(self) -> Credentials:
        """Values passed to the server by reference: absent from every record and from every governed result."""
        ...

    async def call(
        self, params: Mapping[str, Json], *, timeout_s: float | None, link: ClientLink | None = None
    ) -> dict[str, Json]:
        """Send `tools/call` and return the raw result, even an error result.

        Raises:
            NotDispatchedError: Nothing was written to the server.
            ToolRefusedError: The server answered with a protocol error, included with its code and words.
            UpstreamLostError: The connection closed, the time limit passed or the answer was unreadable. The effect is
                unknown.
        """
        ...

    async def tools(self) -> Sequence[Mapping[str, Json]]:
        """Return all tools from every page. Raises UpstreamLostError."""
        ...


class ToolGate(Protocol):
    """Decides about tools: their definitions for clients, and every call."""

    async def listed(self, server: str, tools: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
        """Return a server's tools as shown to the client, by the server's own names, and record them."""
        ...

    def tools_changed(self, server: str) -> None:
        """Note a server's notification of changed tools."""
        ...

    @property
    def listeners(self) -> set[Callable[[], None]]:
        """Called when the tools shown to clients change without a server's notification; one for each session."""
        ...

    def own_tools(self) -> list[dict[str, Json]]:
        """Return the gateway's own tools. Their names are reserved."""
        ...

    async def call(self, call: Call, server: Toolserver) -> dict[str, Json]:
        """Return the result for the client. Never raises for a tool's behaviour; rejections are results too."""
        ...

    def answer_held(self) -> None:
        """Answer waiting callers with the current knowledge, and reject new calls. The process ends soon."""
        ...

    def of_task(self, result: Mapping[str, Json]) -> dict[str, Json]:
        """Return the result of a call answered with a task. The tool has no contract: governed tools never run as
        tasks.
        """
        ...

    async def own_call(self, call: Call) -> dict[str, Json]:
        """Return the result of one of the gateway's own tools (`call.server` is "")."""
        ...
