"""The servers of the called tools, and the call in flight.

The gateway creates the servers, and the handlers of contracts use them. A call with a waiting client uses the client's
own connection and parameters. A resumed action uses the gateway's connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import field
from typing import Any, TypeVar

from mcp_types import CLIENT_CAPABILITIES_META_KEY

from readback.agent_errors import NoSuchToolError
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.canon.values import short_copied
from readback.domain.context import Context
from readback.domain.tracing.attributes import TOOL_FORM
from readback.domain.tracing.trace_context import TraceContext, execution_span_id, parse_traceparent
from readback.drivers.early_dispatch import EarlyDispatch
from readback.drivers.group_commit import holding
from readback.drivers.live_span import INCOMING, Incoming
from readback.errors import NotDispatchedError
from readback.gateway.call import OPERATION_KEY, Call, Toolserver
from readback.gateway.policy.catalogue import Catalogue, ToolKey
from readback.gateway.policy.ledger_client import ActionHandle
from readback.gateway.upstream.handshake import TASKS
from readback.ports.runtime import Runtime
from readback.ports.system_factory import ExecutorAdapter, Fixed, SourceAdapter
from readback.systems.configured.factory import BuiltInSystems
from readback.systems.trace_headers import TRACEPARENT, TRACESTATE, current, outgoing

Answered = TypeVar("Answered")


@dataclass(slots=True)
class Window:
    """The time between the first and the last reading of a watched call.

    `begun`: the number of calls begun at the server by then. `alone`: whether no other call was under way.
    """

    begun: int
    alone: bool


@dataclass(slots=True)
class InFlightCall:
    """One client call in flight. `raw`: the tool's complete answer, for a waiting client."""

    call: Call
    server: Toolserver
    agreed: str = ""
    """The tool's fingerprint accepted by the governing contract."""
    form: Mapping[str, Json] = field(default_factory=dict)
    """The form of a governed tool for the record; empty for a tool without a contract."""
    ticket: ActionHandle = field(default_factory=ActionHandle)
    raw: dict[str, Json] | None = None
    raised: Exception | None = None
    answered: asyncio.Future[None] | None = None
    """Done when the tool has answered. A caller may skip the wait for the record."""
    sent: asyncio.Task[dict[str, Json]] | None = None
    """The early call, if sent."""
    made_ahead: EarlyDispatch | None = None
    window: Window | None = None
    """The time between the readings of a watched call; None for a call that is not watched."""
    admitted: bool = False
    """Whether the call may start. Before, the call waits for room at the server."""
    in_room: bool = False

    @property
    def key(self) -> ToolKey:
        """The called tool."""
        return self.call.server, self.call.name

    @property
    def incoming(self) -> Incoming | None:
        """The caller's trace context, and the facts about the request for the record."""
        found: Mapping[str, Any] = self.call.meta
        if TRACEPARENT not in found:  # a caller over HTTP may name its span in a header
            request = getattr(getattr(self.call.link, "context", None), "request", None)
            found = getattr(request, "headers", None) or {}
        given = parse_traceparent(found.get(TRACEPARENT), found.get(TRACESTATE, "")) if TRACEPARENT in found else None
        origin = self.server.origin
        return Incoming(given, {**origin, TOOL_FORM: dict(self.form)} if self.form else origin)

    async def send(
        self, arguments: Mapping[str, Json], runtime: Runtime, *, to_end: bool = False, traceparent: str = ""
    ) -> dict[str, Json]:
        """Send the client's request with these arguments.

        `traceparent`: the trace context of the execution; "" to compute the context for an early call.
        `to_end`: wait for the call's end even if the client accepts a task. A server answering early and acting later
        would be read back too early.
        """
        params = _traced(self._params(arguments), traceparent or self._early_traceparent())
        if to_end:
            params = _to_its_end(params)
        with holding(runtime):
            try:
                self.raw = await self.server.call(params, timeout_s=None, link=self.call.link)
            except Exception as error:
                self.raised = error
                raise
            finally:
                self.leave()
        if self.made_ahead is not None and self.made_ahead.recorded:
            self.land()  # at once: the driving task still has to write the record
        return self.raw

    async def enter(self) -> bool:
        """Wait for room at the server, and return whether a wait was needed. No record exists and no time limit runs
        yet.
        """
        room, waited = self.server.room, False
        if room is not None:
            waited = room.locked()
            await room.acquire()
            self.in_room = True
        self.admitted = True
        return waited

    def leave(self) -> None:
        """Free the room: the tool has answered, or will not be called."""
        if self.in_room and self.server.room is not None:
            self.in_room = False
            self.server.room.release()

    def ahead(self, runtime: Runtime) -> EarlyDispatch:
        """Return the client's request as an early call, sent while its attempt is committed."""

        def make() -> None:
            self.sent = asyncio.create_task(self.send(self.call.arguments, runtime))
            self.sent.add_done_callback(_retrieved)

        def drop() -> None:
            if self.sent is not None:
                self.sent.cancel()

        self.made_ahead = EarlyDispatch(make, drop)
        return self.made_ahead

    def end(self) -> None:
        """Drop the early call after the work ends. The mutual reference would stay in memory until the garbage
        collector runs.
        """
        self.leave()
        self.sent = self.made_ahead = None

    def land(self, _: object = None) -> None:
        """Note that the tool has answered or never will."""
        if self.answered is not None and not self.answered.done():
            self.answered.set_result(None)

    def _early_traceparent(self) -> str:
        """Return the trace context of the first execution of this call's action; "" without a trace."""
        served, action_id = INCOMING.get(), self.ticket.action_id
        caller = served.trace if served is not None and served.trace is not None else current()
        if caller is None or not action_id:
            return ""
        span_id = execution_span_id(action_id, 1)
        return TraceContext(caller.trace_id, span_id, caller.sampled).traceparent

    def _params(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        own: Any = (
            arguments if arguments is self.call.arguments else dict(arguments)
        )  # the client's own object may carry its original text
        params: dict[str, Json] = {**self.call.params, "name": self.call.name, "arguments": own}
        if OPERATION_KEY in self.call.meta:
            params["_meta"] = {key: value for key, value in self.call.meta.items() if key != OPERATION_KEY}
        return params


def _traced(params: dict[str, Json], traceparent: str) -> dict[str, Json]:
    """Add the trace context to a request's `_meta`, unprefixed (SEP-414). The caller's vendor state stays."""
    if not traceparent:
        return params
    meta = params.get("_meta")
    return {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), TRACEPARENT: traceparent}}


def _to_its_end(params: Mapping[str, Json]) -> dict[str, Json]:
    """Remove the client's permission to answer with a task, in both protocol forms."""
    ended = {key: value for key, value in params.items() if key != "task"}
    meta = params.get("_meta")
    able = meta.get(CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, dict) else None
    extensions = able.get("extensions") if isinstance(able, dict) else None
    if isinstance(meta, dict) and isinstance(able, dict) and isinstance(extensions, dict) and TASKS in extensions:
        rest: dict[str, Json] = {key: value for key, value in extensions.items() if key != TASKS}
        ended["_meta"] = {**meta, CLIENT_CAPABILITIES_META_KEY: {**able, "extensions": rest}}
    return ended


def _retrieved(task: asyncio.Task[dict[str, Json]]) -> None:
    """Retrieve the error of an abandoned call, so that Python does not report the error as unhandled."""
    if not task.cancelled():
        task.exception()


IN_HAND: ContextVar[InFlightCall | None] = ContextVar("readback_in_hand", default=None)
"""The call driven by this task; None for a resumed action without a waiting client."""


class Servers:
    """The front servers of one gateway, by key. Clients see their tools."""

    def __init__(self, catalogue: Catalogue, runtime: Runtime) -> None:
        self.runtime = runtime
        self._catalogue = catalogue
        self._front: dict[str, Toolserver] = {}

    def front(self, server: Toolserver) -> None:
        """Add a front server."""
        self._front[server.key] = server

    def server(self, key: str, behind: Mapping[str, Toolserver]) -> Toolserver | None:
        """Return the server of this key: a front server, else one of `behind`."""
        return self._front.get(key) or behind.get(key)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the front servers."""
        return tuple(self._front)

    def key_of(self, server: str, tool: str) -> ToolKey:
        """Return the key of the named tool. `server`: "" for the only server with the tool. Raises NoSuchToolError."""
        if server:
            return server, tool
        having = [key for key in self._front if tool in self._catalogue.tools(key)]
        if len(having) > 1:
            raise NoSuchToolError(f"Several servers have a tool {tool!r:.200}: {', '.join(having)}.")
        if not having and len(self._front) > 1:
            raise NoSuchToolError(f"No server has a tool {tool!r:.200}.")
        return (having[0] if having else next(iter(self._front), ""), tool)

    async def list_tools(self, server: Toolserver) -> list[Mapping[str, Json]]:
        """Return the server's current tools. Raises UpstreamLostError."""
        with holding(self.runtime):
            return [*await server.tools()]

    async def list_front(self) -> None:
        """List the tools of every front server at once. Raises UpstreamLostError."""
        await _all(self._list_front(server) for server in self._front.values())

    async def _list_front(self, server: Toolserver) -> None:
        announced = self._catalogue.announced(server.key)
        self._catalogue.see(server.key, await self.list_tools(server), self.runtime.now_us(), announced)

    async def list_behind(self, behind: Mapping[str, Toolserver]) -> dict[str, dict[str, Mapping[str, Json]]]:
        """Return the tools of read-only servers, by server and name. Raises UpstreamLostError."""
        listed = await _all(self.list_tools(server) for server in behind.values())
        return {
            name: {str(tool.get("name", "")): tool for tool in tools}
            for name, tools in zip(behind, listed, strict=True)
        }


async def _all(asked: Iterable[Awaitable[Answered]]) -> list[Answered]:
    """Return every answer. Raises the first failure after all have ended, so that nothing stays in flight."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]


def cleared(server: Toolserver, answer: dict[str, Json]) -> dict[str, Json]:
    """Remove the server's secrets from an answer."""
    if not server.secrets:
        return answer
    plain = server.secrets.without(answer)
    assert isinstance(plain, dict)
    return plain


@dataclass(frozen=True, slots=True)
class CalledTool:
    """Implements `ToolFitting`: one tool, bound to its server at the load of the contracts.

    A tool of the same name on another server, listed later, was not part of the contract check.
    """

    runtime: Runtime
    key: ToolKey
    server: Toolserver | None
    missing: str
    """Why no tool can be called; "" if one can."""
    timeout_us: int

    async def call(self, ctx: Context, arguments: Mapping[str, Json]) -> dict[str, Json]:
        if self.server is None:
            raise NotDispatchedError(f"{self.key[1]!r:.200} was not called: {self.missing}")
        flight = IN_HAND.get()
        if flight is not None and flight.key == self.key and flight.ticket.action_id == ctx.action_id:
            here = outgoing(ctx).get(TRACEPARENT, "")
            answer = await flight.send(arguments, self.runtime, to_end=True, traceparent=here)
            if self.server.secrets:
                answer = flight.raw = cleared(self.server, answer)
            return short_copied(answer) or answer  # from a wire: keep the original text
        with holding(self.runtime):  # over the gateway's own connection
            params: dict[str, Json] = {"name": self.key[1], "arguments": dict(arguments)}
            params = _traced(params, outgoing(ctx).get(TRACEPARENT, ""))
            return cleared(self.server, await self.server.call(params, timeout_s=self.timeout_us / 1_000_000))


class GatewayFittings:
    """Implements the system factory: built-in systems, and tools of the gateway's servers.

    `behind`: servers only read by contracts, by name in the files' `servers`.
    """

    def __init__(self, servers: Servers, behind: Mapping[str, Toolserver]) -> None:
        self._servers, self._behind = servers, behind
        self._built_in = BuiltInSystems()

    def source(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> SourceAdapter:
        return self._built_in.source(kind, name, fixed, folder, timeout_us)

    def executor(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> ExecutorAdapter:
        return self._built_in.executor(kind, name, fixed, folder, timeout_us)

    def tool(self, server: str, name: str, timeout_us: int) -> CalledTool:
        try:
            key = self._servers.key_of(server, name)
        except NoSuchToolError as error:
            return CalledTool(self._servers.runtime, (server, name), None, error.message, timeout_us)
        found = self._servers.server(key[0], self._behind)
        missing = "" if found is not None else f"There is no server {key[0]!r:.200} here."
        return CalledTool(self._servers.runtime, key, found, missing, timeout_us)
