"""What the two halves of the gateway say to each other: the wire hands calls to a gate, and the gate calls servers.

The wire moves messages and decides nothing; the gate decides, and touches no transport. Both speak raw JSON, so that
what neither knows passes unchanged. Source: Model Context Protocol, revisions up to 2025-11-25, and 2026-07-28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.systems.configured.settings import Credentials

OUTCOME_KEY: Final = "io.readback/outcome"
"""In `_meta` and `structuredContent` of a result: what became of the call, as data."""
OPERATION_KEY: Final = "io.readback/operation"
"""In `_meta` of a call: the operation that it belongs to. The same one never acts twice."""
RESULT_MAX_BYTES: Final = 8 * 1024 * 1024
"""A governed tool's answer that is larger is not handed on; it is evidence, and the verdict stands without it."""


class ClientLink(Protocol):
    """The way back to the client of one call, for as long as it listens. Nothing is lost when it does not."""

    async def progress(self, report: Mapping[str, Json]) -> None:
        """Hands on a server's progress report. Returns silently where nobody asked for it, or listens any more."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """One `tools/call`, as it came. `tool`: by the name that the client uses; `name`: by its server's own."""

    tool: str
    server: str
    name: str
    arguments: Mapping[str, Json]
    params: Mapping[str, Json]
    """All parameters of the request, with `_meta`, as they came; `name` in them is the server's own."""
    link: ClientLink | None = None

    @property
    def meta(self) -> Mapping[str, Json]:
        """The request's `_meta`; empty where there is none."""
        found = self.params.get("_meta")
        return found if isinstance(found, dict) else {}


class Toolserver(Protocol):
    """A server behind the gateway, as far as tools go. `key`: its name among several; "" where it is the only one."""

    key: str

    @property
    def room(self) -> asyncio.Semaphore | None:
        """For so many calls at a time; one more has to wait before it is begun. None where it takes what comes."""
        ...

    @property
    def unlisted(self) -> bool:
        """Whether it was started or reached anew since its tools were last listed here: they may be others."""
        ...

    @property
    def secrets(self) -> Credentials:
        """What it was given by reference: in no record, and in nothing that is told of a governed call."""
        ...

    async def call(
        self, params: Mapping[str, Json], *, timeout_s: float | None, link: ClientLink | None = None
    ) -> dict[str, Json]:
        """`tools/call`: the raw result, whatever it says.

        Raises NotDispatchedError where nothing was written to the server; ToolRefusedError with the server's own code
        and words where it answered with a protocol error; UpstreamLostError where the connection closed, the time was
        over or the answer was none: then nobody knows whether the call had its effect.
        """
        ...

    async def tools(self) -> Sequence[Mapping[str, Json]]:
        """All its tools, every page. Raises UpstreamLostError."""
        ...


class ToolGate(Protocol):
    """Decides about tools: which are shown, and what becomes of a call."""

    async def listed(self, server: str, tools: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
        """A server's tools as the client is shown them, by the server's own names; remembers them as last seen."""
        ...

    def tools_changed(self, server: str) -> None:
        """A server says that its tools are others now."""
        ...

    @property
    def listeners(self) -> set[Callable[[], None]]:
        """Told when the tools that clients are shown are others, whatever the servers say: each client's session."""
        ...

    def own_tools(self) -> list[dict[str, Json]]:
        """The gateway's own tools: their names are nobody else's."""
        ...

    async def call(self, call: Call, server: Toolserver) -> dict[str, Json]:
        """The result to hand to the client. Never raises for what a tool did; refusals are results too."""
        ...

    def answer_held(self) -> None:
        """The process ends soon. Waiting callers are answered with what is known. Nothing new is taken."""
        ...

    def of_task(self, result: Mapping[str, Json]) -> dict[str, Json]:
        """What a call came to that its server had answered with a task: no contract governs the tool, since none that
        is governed runs as one.
        """
        ...

    async def own_call(self, call: Call) -> dict[str, Json]:
        """The same for one of the gateway's own tools (`call.server` is "")."""
        ...
