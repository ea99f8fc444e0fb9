"""The servers that tools are called on, and the call that is in hand: what contract files name as `tool`.

Made by the gateway, asked by the hands of contracts. A call that a client waits for goes over that client's own
connection, with its own parameters; whatever is gone on with later goes over the gateway's.
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
from readback.drivers.early_dispatch import EarlyDispatch
from readback.drivers.group_commit import holding
from readback.errors import NotDispatchedError
from readback.gateway.call import OPERATION_KEY, Call, Toolserver
from readback.gateway.policy.catalogue import Catalogue, ToolKey
from readback.gateway.policy.ledger_client import Ticket
from readback.gateway.upstream.handshake import TASKS
from readback.ports.runtime import Runtime
from readback.ports.system_factory import ExecutorAdapter, Fixed, SourceAdapter
from readback.systems.configured.factory import BuiltInSystems

Answered = TypeVar("Answered")


@dataclass(slots=True)
class InFlightCall:
    """One call of a client on its way. `raw`: what the tool answered, whole, for whoever still waits."""

    call: Call
    server: Toolserver
    agreed: str = ""
    """What the tool was when the contract was loaded that governs this call."""
    ticket: Ticket = field(default_factory=Ticket)
    raw: dict[str, Json] | None = None
    raised: Exception | None = None
    answered: asyncio.Future[None] | None = None
    """Done when the tool has answered, for whoever does not wait for the record of that."""
    sent: asyncio.Task[dict[str, Json]] | None = None
    """The call, where it was made ahead."""
    made_ahead: EarlyDispatch | None = None
    admitted: bool = False
    """Whether it has begun, or may; until then it waits for its server to have room."""
    in_room: bool = False

    @property
    def key(self) -> ToolKey:
        """The tool that the client calls."""
        return self.call.server, self.call.name

    async def send(self, arguments: Mapping[str, Json], runtime: Runtime, *, to_end: bool = False) -> dict[str, Json]:
        """The client's own request, with these arguments. `to_end`: its end is waited for, whatever the client wants:
        a server that answered at once, and acted later, would be read back too early.
        """
        params = self._params(arguments)
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
            self.land()  # at once: whoever drives it has its record to write first
        return self.raw

    async def enter(self) -> bool:
        """Waits for room at the server. Nothing is on record before, and no time of the contract's runs. Whether there
        was none at first.
        """
        room, waited = self.server.room, False
        if room is not None:
            waited = room.locked()
            await room.acquire()
            self.in_room = True
        self.admitted = True
        return waited

    def leave(self) -> None:
        """Makes room: the tool has answered, or will not be called."""
        if self.in_room and self.server.room is not None:
            self.in_room = False
            self.server.room.release()

    def ahead(self, runtime: Runtime) -> EarlyDispatch:
        """The client's own request, to be made while its attempt is being written."""

        def make() -> None:
            self.sent = asyncio.create_task(self.send(self.call.arguments, runtime))
            self.sent.add_done_callback(_retrieved)

        def drop() -> None:
            if self.sent is not None:
                self.sent.cancel()

        self.made_ahead = EarlyDispatch(make, drop)
        return self.made_ahead

    def end(self) -> None:
        """Nobody drives it any more. What was made ahead is let go: it knows this flight, as this flight knows it, and
        a circle stays in memory until Python looks for garbage, which takes longer than a call.
        """
        self.leave()
        self.sent = self.made_ahead = None

    def land(self, _: object = None) -> None:
        """The tool has answered, or never will."""
        if self.answered is not None and not self.answered.done():
            self.answered.set_result(None)

    def _params(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        own: Any = arguments if arguments is self.call.arguments else dict(arguments)  # the former may have its text
        params: dict[str, Json] = {**self.call.params, "name": self.call.name, "arguments": own}
        if OPERATION_KEY in self.call.meta:
            params["_meta"] = {key: value for key, value in self.call.meta.items() if key != OPERATION_KEY}
        return params


def _to_its_end(params: Mapping[str, Json]) -> dict[str, Json]:
    """A call without its client's leave to answer it with a task, in the words of either era."""
    ended = {key: value for key, value in params.items() if key != "task"}
    meta = params.get("_meta")
    able = meta.get(CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, dict) else None
    extensions = able.get("extensions") if isinstance(able, dict) else None
    if isinstance(meta, dict) and isinstance(able, dict) and isinstance(extensions, dict) and TASKS in extensions:
        rest: dict[str, Json] = {key: value for key, value in extensions.items() if key != TASKS}
        ended["_meta"] = {**meta, CLIENT_CAPABILITIES_META_KEY: {**able, "extensions": rest}}
    return ended


def _retrieved(task: asyncio.Task[dict[str, Json]]) -> None:
    """So that Python does not report an error of a call that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


IN_HAND: ContextVar[InFlightCall | None] = ContextVar("readback_in_hand", default=None)
"""The call that this task drives. Nothing where an action is gone on with that nobody waits for."""


class Servers:
    """The servers behind one gateway whose tools clients are shown, by their keys."""

    def __init__(self, catalogue: Catalogue, runtime: Runtime) -> None:
        self.runtime = runtime
        self._catalogue = catalogue
        self._front: dict[str, Toolserver] = {}

    def front(self, server: Toolserver) -> None:
        """One whose tools clients are shown."""
        self._front[server.key] = server

    def server(self, key: str, behind: Mapping[str, Toolserver]) -> Toolserver | None:
        """The one of this key: in front, else among those that contracts only read from."""
        return self._front.get(key) or behind.get(key)

    @property
    def keys(self) -> tuple[str, ...]:
        """Those whose tools clients are shown."""
        return tuple(self._front)

    def key_of(self, server: str, tool: str) -> ToolKey:
        """Which tool is meant. `server`: "" for whichever has one of this name. Raises NoSuchToolError."""
        if server:
            return server, tool
        having = [key for key in self._front if tool in self._catalogue.tools(key)]
        if len(having) > 1:
            raise NoSuchToolError(f"Several servers have a tool {tool!r:.200}: {', '.join(having)}.")
        if not having and len(self._front) > 1:
            raise NoSuchToolError(f"No server has a tool {tool!r:.200}.")
        return (having[0] if having else next(iter(self._front), ""), tool)

    async def list_tools(self, server: Toolserver) -> list[Mapping[str, Json]]:
        """All tools of a server, as it lists them now. Raises UpstreamLostError."""
        with holding(self.runtime):
            return [*await server.tools()]

    async def list_front(self) -> None:
        """Lists the tools of every server in front anew, all at once. Raises UpstreamLostError."""
        await _all(self._list_front(server) for server in self._front.values())

    async def _list_front(self, server: Toolserver) -> None:
        announced = self._catalogue.announced(server.key)
        self._catalogue.see(server.key, await self.list_tools(server), self.runtime.now_us(), announced)

    async def list_behind(self, behind: Mapping[str, Toolserver]) -> dict[str, dict[str, Mapping[str, Json]]]:
        """The tools of servers that contracts only read from, by server and name. Raises UpstreamLostError."""
        listed = await _all(self.list_tools(server) for server in behind.values())
        return {
            name: {str(tool.get("name", "")): tool for tool in tools}
            for name, tools in zip(behind, listed, strict=True)
        }


async def _all(asked: Iterable[Awaitable[Answered]]) -> list[Answered]:
    """Every answer, once all are there or have failed. Raises the first failure: nothing is left under way."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]


def cleared(server: Toolserver, answer: dict[str, Json]) -> dict[str, Json]:
    """An answer without what its server was given by reference."""
    if not server.secrets:
        return answer
    plain = server.secrets.without(answer)
    assert isinstance(plain, dict)
    return plain


@dataclass(frozen=True, slots=True)
class CalledTool:
    """Keeps `ToolFitting`: one tool of the server that has it when the contracts are loaded. Whose it is is not asked
    again: another server that lists such a tool later is not the one that the contract was checked with.
    """

    runtime: Runtime
    key: ToolKey
    server: Toolserver | None
    missing: str
    """Why there is none to call."""
    timeout_us: int

    async def call(self, ctx: Context, arguments: Mapping[str, Json]) -> dict[str, Json]:
        if self.server is None:
            raise NotDispatchedError(f"{self.key[1]!r:.200} was not called: {self.missing}")
        flight = IN_HAND.get()
        if flight is not None and flight.key == self.key and flight.ticket.action_id == ctx.action_id:
            answer = await flight.send(arguments, self.runtime, to_end=True)
            if self.server.secrets:
                answer = flight.raw = cleared(self.server, answer)
            return short_copied(answer) or answer  # it came over a wire, and is told as it came
        with holding(self.runtime):  # over the gateway's own connection
            params: dict[str, Json] = {"name": self.key[1], "arguments": dict(arguments)}
            return cleared(self.server, await self.server.call(params, timeout_s=self.timeout_us / 1_000_000))


class GatewayFittings:
    """Keeps `Fittings`: the built-in systems, and the tools of the gateway's servers. `behind`: those that contracts
    only read from, by their names among the files' `servers`.
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
