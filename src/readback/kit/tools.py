"""One governed tool, in the form that frameworks ask for: name, description, schema, and the ways to call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from readback.canon import Json
from readback.kit.calls import Arguments, Callee, Calls
from readback.kit.clients import ActionHandle
from readback.kit.foreign import Way
from readback.kit.models import model_of
from readback.kit.results import Attempt, ToolResult

if TYPE_CHECKING:
    from pydantic import BaseModel


class Tool:
    """A governed action, a saga, or a foreign tool. Made by a kit; safe from any thread and event loop.

    No method raises for a failed call: each failure is a result that is not `ok`. Only cancellation and exits of the
    program pass.

    Example:
        >>> from readback import verified
        >>> from readback.kit import Kit
        >>> lamp = {"on": False}
        >>> def switch_on(room: str) -> None:
        ...     "Switch the lamp of a room on."
        ...     lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda room: lamp, strong=True, expect={"on": True})
        >>> with Kit.open("memory:", actions=[switch]) as kit:
        ...     tool = kit.tool("switch_on")
        ...     tool.description, tool.run({"room": 7}).status, tool.run({"room": "hall"}).status
        ('Switch the lamp of a room on.', 'refused', 'verified')
    """

    def __init__(self, calls: Calls, callee: Callee, description: str, schema: Mapping[str, Json]) -> None:
        self._calls, self._callee = calls, callee
        self._schema = schema
        self.name = callee.name
        self.description = description

    @property
    def callee(self) -> Callee:
        """The action behind the tool, for the kit."""
        return self._callee

    @property
    def schema(self) -> dict[str, Json]:
        """The JSON Schema of the arguments, as a fresh copy."""
        return deepcopy(dict(self._schema))

    @cached_property
    def model(self) -> type[BaseModel]:
        """A pydantic model of the arguments, made at first use. Dump with `by_alias=True` and `exclude_unset=True`."""
        return model_of(self.name, self.description, self._schema)

    @property
    def foreign(self) -> bool:
        """Whether the host's own callable executes the tool, under a contract file."""
        return bool(self._callee.foreign)

    @property
    def asks(self) -> bool:
        """Whether the tool answers questions about actions, as readback_wait does."""
        return False

    @property
    def may_park(self) -> bool:
        """Whether the contract can ask for an approval."""
        return not self._callee.is_saga and self._callee.action.contract.approval is not None

    @property
    def reads(self) -> bool:
        """Whether the contract's kind changes nothing."""
        return not self._callee.is_saga and not self._callee.action.contract.kind.mutates

    @property
    def in_shadow(self) -> bool:
        """Whether calls run in shadow mode: the tool's own answer is the result, and no result is verified."""
        if self._callee.is_saga or self.asks:
            return False
        contract = self._callee.action.contract
        return self._calls.clients.session.scope.shadow.covers(contract.name, contract.mode)

    async def attended(
        self, arguments: Arguments, ticket: ActionHandle, *, operation: str | None, wait: float
    ) -> ToolResult:
        """Run a call as `arun` does. The ticket receives the action's id at once, for a server that holds the call."""
        return await self._calls.arun(self._callee, arguments, operation, None, wait, None, ticket)

    def run(
        self,
        arguments: Arguments,
        *,
        operation: str | None = None,
        run: str | None = None,
        wait: float | None = None,
        call: Way | None = None,
    ) -> ToolResult:
        """Run a call: execute once, read back, reconcile, and return the result.

        Args:
            arguments: A mapping, or the JSON text of an object. Anything else is refused.
            operation: The name of the intent, as from `Kit.operation`. A contract's own name comes first.
            run: The conversation; the session's, or the kit's own, where left out.
            wait: Seconds to wait for a settled outcome; the kit's own where left out.
            call: This call's own way to a foreign tool.
        """
        return self._calls.run(self._callee, arguments, operation, run, wait, call)

    async def arun(
        self,
        arguments: Arguments,
        *,
        operation: str | None = None,
        run: str | None = None,
        wait: float | None = None,
        call: Way | None = None,
    ) -> ToolResult:
        """Run a call on the running event loop; see `run`."""
        return await self._calls.arun(self._callee, arguments, operation, run, wait, call, ActionHandle())

    def waits_for(self, arguments: Arguments, *, operation: str | None = None, run: str | None = None) -> bool:
        """Return whether this call waits for a person's approval. Nothing is executed or recorded."""
        return self.may_park and self._calls.waits_for(self._callee, arguments, operation, run)

    async def awaits_for(self, arguments: Arguments, *, operation: str | None = None, run: str | None = None) -> bool:
        """Return what `waits_for` returns, without blocking the event loop."""
        return self.may_park and await asyncio.to_thread(self.waits_for, arguments, operation=operation, run=run)

    def held(self, arguments: Arguments, *, operation: str | None = None, run: str | None = None) -> ToolResult | None:
        """Return the parked action of this very call, also where it is signed and not executed yet; else None.

        For frameworks that run a call again after a person's answer: look here first, then `Kit.decide`. Nothing is
        executed or recorded. An operation counts in every run, so `run` has no meaning here.
        """
        return self._calls.held(self._callee, arguments, operation)

    async def aheld(
        self, arguments: Arguments, *, operation: str | None = None, run: str | None = None
    ) -> ToolResult | None:
        """Return what `held` returns, without blocking the event loop."""
        return await asyncio.to_thread(self.held, arguments, operation=operation)

    def run_unless_held(
        self, arguments: Arguments, *, operation: str | None = None, run: str | None = None, call: Way | None = None
    ) -> ToolResult:
        """Return the parked action of this very call as `held` does; where there is none, run the call.

        For frameworks that run a call again after a person's answer. A plain run would execute a signed action that
        the person has rejected in the framework. `Kit.decide` continues with the answer.
        """
        held = self.held(arguments, operation=operation) if self.may_park else None
        return held or self.run(arguments, operation=operation, run=run, call=call)

    async def arun_unless_held(
        self, arguments: Arguments, *, operation: str | None = None, run: str | None = None, call: Way | None = None
    ) -> ToolResult:
        """Return the parked action of this very call, or run the call on the running event loop."""
        held = await self.aheld(arguments, operation=operation) if self.may_park else None
        return held or await self.arun(arguments, operation=operation, run=run, call=call)

    async def apark(
        self, arguments: Arguments, *, operation: str | None = None, run: str | None = None, call: Way | None = None
    ) -> ToolResult | None:
        """Park a call that waits for an approval, and return the parked result. None for any other call.

        For frameworks that ask before the call. A call without a needed approval is not executed here.
        """
        if not await self.awaits_for(arguments, operation=operation, run=run):
            return None
        result = await self.arun(arguments, operation=operation, run=run, wait=0, call=call)
        return result if result.status == "parked" else None

    def begin(self, arguments: Arguments, *, operation: str | None = None, run: str | None = None) -> Attempt:
        """Commit an attempt for a call that the host makes itself. Where `allowed`, call once, and then `end`."""
        return self._calls.begin(self._callee, arguments, operation, run)

    async def abegin(self, arguments: Arguments, *, operation: str | None = None, run: str | None = None) -> Attempt:
        """Commit an attempt without blocking the event loop; see `begin`."""
        return await asyncio.to_thread(self.begin, arguments, operation=operation, run=run)

    def end(
        self, action: str, value: Any = None, *, error: BaseException | str | None = None, wait: float | None = None
    ) -> ToolResult:
        """Record the end of a call after `begin`: the value, or the error. Then read back, and return the result."""
        return self._calls.end(self._callee, action, value, error, wait)

    async def aend(
        self, action: str, value: Any = None, *, error: BaseException | str | None = None, wait: float | None = None
    ) -> ToolResult:
        """Record the end of a call on the running event loop; see `end`."""
        return await self._calls.aend(self._callee, action, value, error, wait)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"
