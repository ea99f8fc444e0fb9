"""The gate of a server of actions: each tool is an action or a saga of a kit, and no server stands behind.

Implements `ToolGate`. As in the gateway, a call goes on without its client, a held caller gets the answer "pending",
and a caller held at the process's end learns the action's id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from readback.agent_errors import GatewayBusyError, GovernedTaskError, NoSuchToolError
from readback.canon import Json, ReadbackError
from readback.gateway.call import Call, Toolserver
from readback.gateway.policy import results
from readback.gateway.policy.gate import AGAIN, IN_FLIGHT_MAX, VERIFIED_NOTE, operation_of
from readback.gateway.policy.ledger_client import ActionHandle
from readback.gateway.wire.verbatim import check_exact
from readback.kit.kit import Kit
from readback.kit.results import ToolResult
from readback.kit.tools import Tool

_NO_SERVER: Final = "No server stands behind this gate."


class ActionGate:
    """The gate over a kit, on one event loop. `notify`: called when an action remains to be resumed."""

    def __init__(
        self, kit: Kit, *, hold_s: float, notify: Callable[[], None], in_flight_max: int = IN_FLIGHT_MAX
    ) -> None:
        self._kit, self._hold_s, self._notify, self._in_flight_max = kit, hold_s, notify, in_flight_max
        self._tools = dict(kit.tools)
        self._flying: set[asyncio.Task[ToolResult]] = set()
        self._holds: set[asyncio.Future[None]] = set()
        """One future for each waiting caller. A done future asks for an answer with the current knowledge."""
        self._closing = self._ending = False
        self._listeners: set[Callable[[], None]] = set()

    # --- what clients are shown ---

    @property
    def listeners(self) -> set[Callable[[], None]]:
        """Never called: the tools are those of the start."""
        return self._listeners

    async def listed(self, server: str, tools: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
        """Return no tool: no server stands behind."""
        return []

    def tools_changed(self, server: str) -> None:
        """Do nothing: no server stands behind."""

    def own_tools(self) -> list[dict[str, Json]]:
        """Return the definitions of all tools."""
        return [_definition(each) for each in self._tools.values()]

    def of_task(self, result: Mapping[str, Json]) -> dict[str, Json]:
        """Return the result of a task, without any outcome forged. No tool here runs as a task."""
        return results.unforged(result)

    # --- calls ---

    async def call(self, call: Call, server: Toolserver) -> dict[str, Json]:
        """Raise NoSuchToolError: no server stands behind."""
        raise NoSuchToolError(_NO_SERVER)

    async def own_call(self, call: Call) -> dict[str, Json]:
        """Return the result of a tool. Raises GovernedTaskError where the client asked for a task."""
        if call.params.get("task") is not None:  # a client asking for a task cannot read a verdict
            raise GovernedTaskError(f"The tool {call.tool!r:.200} cannot run as a task; nothing was sent.")
        tool = self._tools[call.name]
        try:
            operation = operation_of(call)
            check_exact(call.arguments)
            if tool.asks:
                return (await tool.arun(dict(call.arguments), wait=self._hold_s)).mcp()
            self._check_room()
        except ReadbackError as error:
            return results.refused(error)
        ticket = ActionHandle()
        work = tool.attended(dict(call.arguments), ticket, operation=operation, wait=self._hold_s)
        task = asyncio.create_task(work)
        self._flying.add(task)
        task.add_done_callback(self._landed)
        await self._held(task)
        return task.result().mcp() if task.done() else await self._pending(tool, ticket, task)

    def _check_room(self) -> None:
        if self._closing:
            raise GatewayBusyError("The server of actions is ending.", remedy=AGAIN)
        if len(self._flying) >= self._in_flight_max:
            raise GatewayBusyError(f"{len(self._flying)} calls are in flight, the maximum.")

    def _landed(self, task: asyncio.Task[ToolResult]) -> None:
        self._flying.discard(task)
        if task.cancelled() or task.exception() is not None or task.result().waits:
            self._notify()

    async def _held(self, task: asyncio.Task[ToolResult]) -> None:
        """Wait until the call ends or the hold is over. Cancelling this wait does not cancel the call."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._holds.add(over)
        try:
            waits: set[asyncio.Future[Any]] = {task, over}
            await asyncio.wait(waits, timeout=self._hold_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._holds.discard(over)

    async def _pending(self, tool: Tool, ticket: ActionHandle, task: asyncio.Task[ToolResult]) -> dict[str, Json]:
        """Answer a held caller: by what the ledger knows, or at the process's end by the action's id."""
        if not ticket.action_id and not self._ending:
            return (await asyncio.shield(task)).mcp()  # no id to ask about: wait for the end
        if not ticket.action_id:
            task.cancel()  # no action exists yet: nothing was sent
            return results.refused(GatewayBusyError("The server of actions is ending.", remedy=AGAIN))
        if self._ending:
            return results.unfinished(ticket.action_id, tool.name)
        found = await self._kit.aresume(ticket.action_id, wait=0)
        return found.mcp() if found.action else results.begun(ticket.action_id, tool.name)

    # --- the end ---

    def answer_held(self) -> None:
        """Answer waiting callers with the current knowledge, and reject new calls. The process ends soon."""
        self._closing = self._ending = True
        for over in tuple(self._holds):
            if not over.done():
                over.set_result(None)

    async def close(self, grace_s: float) -> int:
        """Reject new calls, wait for calls in flight up to `grace_s` seconds, and return how many remain."""
        self._closing = True
        if self._flying:
            await asyncio.wait(set(self._flying), timeout=grace_s)
        left = [*self._flying]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return len(left)


def _definition(tool: Tool) -> dict[str, Json]:
    """Return a tool's definition as shown to clients."""
    shown: dict[str, Json] = {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
    if tool.asks:
        hints: dict[str, Json] = {"destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
        return {**shown, "annotations": {"readOnlyHint": tool.name.endswith("status"), **hints}}
    if not tool.in_shadow:
        shown["description"] = f"{tool.description}\n\n{VERIFIED_NOTE}"
    return {**shown, "annotations": {"readOnlyHint": tool.reads}}
