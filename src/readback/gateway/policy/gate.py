"""The gate decides on each `tools/call`. Implements `ToolGate`.

The wire passes raw calls and receives raw results. A governed call is an ordinary action. The client receives its
outcome, or, after the hold time, the answer "pending". A disconnected client cancels nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from readback.agent_errors import (
    GatewayBusyError,
    GovernedTaskError,
    ToolChangedError,
    ToolDeniedError,
    ToolRefusedError,
    UpstreamLostError,
)
from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.canon.unicode_forms import normalized
from readback.client.files import FileAction
from readback.client.proposal import Proposal
from readback.client.session import check_id
from readback.domain.outcome.outcome import Outcome
from readback.drivers.live_span import INCOMING
from readback.errors import ArgumentError, NotFoundError, PayloadConflictError, UnknownOutcomeError
from readback.gateway.call import OPERATION_KEY, Call, Toolserver
from readback.gateway.policy import results, ungoverned
from readback.gateway.policy.active_contracts import Governed, propose
from readback.gateway.policy.builtin_tools import OWN_NAMES, OwnTools
from readback.gateway.policy.catalogue import Catalogue, ToolKey
from readback.gateway.policy.ledger_client import GatewayClient
from readback.gateway.policy.reload import Reloading
from readback.gateway.policy.servers import IN_HAND, InFlightCall, Servers
from readback.gateway.policy.ungoverned import Policy, Recording
from readback.gateway.policy.watched import Watching
from readback.gateway.wire.verbatim import check_exact
from readback.kit.content import content_of
from readback.kit.wording import OUTCOME_KEY, UNGOVERNED
from readback.ports.runtime import WallClock
from readback.shadow.watched import WATCHED

# Operations of a tool while contracts are loaded and replaced.


@dataclass(slots=True)
class Operations:
    """Operations of one gateway across reloads of contracts.

    `names`: the contracts of each tool since the gateway's start. The ledger knows the operations begun under them.
    """

    ledger: GatewayClient
    names: Mapping[ToolKey, Sequence[str]]
    _under_way: dict[tuple[ToolKey, str], list[str]] = field(default_factory=dict)
    """The contracts of operations in flight. The ledger does not yet know these operations."""

    def enter(self, key: ToolKey, proposal: Proposal, operation: str | None) -> Callable[[], None]:
        """Register the operation of a call, and return a function for the call's end.

        Raises PayloadConflictError if the tool's operation began, or is in flight, under another contract or under
        none.
        `operation`: the client's name for the operation; a call without a contract has no other name.
        """
        named, contract = operation or proposal.operation, proposal.definition.name
        if not named:
            return _nothing
        try:
            self._check_begun(key, contract, named)
            for other in (UNGOVERNED, WATCHED) if operation else ():
                if contract != other:
                    self._refuse(named, other, f"tool/{key[0] or '-'}/{key[1] or '-'}")
            self._check_under_way(key, contract, named)  # last: a recorded operation can be named by its action id
        except ReadbackError:
            proposal.mark_run()  # this proposal must never run
            raise
        return self._entered((key, named), contract)

    def _entered(self, operation: tuple[ToolKey, str], contract: str) -> Callable[[], None]:
        under_way = self._under_way.setdefault(operation, [])
        under_way.append(contract)

        def leave() -> None:
            under_way.remove(contract)
            if not under_way:
                self._under_way.pop(operation, None)

        return leave

    def had(self, key: ToolKey) -> bool:
        """Return whether the tool ever had a contract."""
        return key in self.names

    def check_others(self, key: ToolKey, contract: str, operation: str) -> None:
        """Check contracts of the files only. `contract`: the contract allowed to own the operation."""
        self._check_begun(key, contract, operation)
        self._check_under_way(key, contract, operation)

    def _check_begun(self, key: ToolKey, contract: str, operation: str) -> None:
        for name in self.names.get(key, ()):
            if name != contract:
                self._refuse(operation, name, "")

    def _check_under_way(self, key: ToolKey, contract: str, operation: str) -> None:
        other = next((name for name in self._under_way.get((key, operation), ()) if name != contract), "")
        if other:
            raise PayloadConflictError(
                f"Operation {operation!r:.200} of this tool is being called {_under(other)}.",
                remedy="Call again when that call was answered; use a new operation id for a new intention.",
            )

    def _refuse(self, operation: str, contract: str, target: str) -> None:
        begun = self.ledger.begun(contract, operation)
        if begun is None or (target and begun.target != target):
            return
        raise PayloadConflictError(
            f"Operation {operation!r:.200} of this tool was begun {_under(contract)}, as action {begun.action_id}.",
            remedy="Ask readback_status with that id what became of it; use a new operation id for a new intention.",
            details={"action": begun.action_id},
        )


def _nothing() -> None:
    """Leave a call without an operation name."""


def _under(contract: str) -> str:
    return "under no contract" if contract in (UNGOVERNED, WATCHED) else f"under the contract {contract!r}"


HOLD_S: Final = 45.0
"""How long a client waits before the answer "pending", in seconds."""
AGAIN: Final = "Call again when it runs again."
IN_FLIGHT_MAX: Final = 4_096
"""Most governed calls neither settled nor pending, and most unrecorded calls without a contract. Further calls of
either kind are rejected.
"""
NAMING: Final = frozenset({"$schema", "$id", "$defs", "definitions", "title", "description", "type", "properties"})
"""Schema keywords unable to reject an outcome."""
WIDENED: Final = NAMING | {"required", "additionalProperties"}
"""Keywords harmless after `properties` and `required` name the outcome."""
_UNVERIFIED: Final = Policy.UNVERIFIED
VERIFIED_NOTE: Final = (
    "Results are verified: the state that the call was meant to produce is read back before it counts. "
    "Unless the result says verified, the call has not succeeded."
)


class Gate:
    """The gate of one gateway, on its event loop. `notify`: called when an action remains to be resumed."""

    def __init__(
        self,
        ledger: GatewayClient,
        servers: Servers,
        catalogue: Catalogue,
        contracts: Reloading,
        *,
        policy: Policy = Policy.UNVERIFIED,
        hold_s: float = HOLD_S,
        in_flight_max: int = IN_FLIGHT_MAX,
        watching: Watching | None = None,
        say: Callable[[str], None],
        notify: Callable[[], None],
    ) -> None:
        self._ledger, self._servers, self._catalogue, self._contracts = ledger, servers, catalogue, contracts
        self._policy, self._hold_s, self._in_flight_max = policy, hold_s, in_flight_max
        self._by_the_loop = isinstance(ledger.runtime, WallClock)
        """Whether the event loop's timers follow the ledger's clock. Such timers need no task."""
        self._say, self._notify = say, notify
        self._flying: set[asyncio.Task[Outcome]] = set()
        self._holds: set[asyncio.Future[None]] = set()
        """One future for each waiting caller. A done future asks for an answer with the current knowledge."""
        self._looking: dict[str, asyncio.Lock] = {}
        self._closing = self._ending = False
        self._own = OwnTools(ledger, hold_s)
        self._operations = Operations(ledger, contracts.names)
        self._recording = Recording(ledger, hold_s, say, self._check_ungoverned, in_content=watching is None)
        self._for_all = ungoverned.contract_for_all(servers)
        ledger.know(self._for_all.plan)
        self._watching = watching
        """The watched tools; None where tools without a contract are not watched."""

    def watch(self) -> None:
        """Begin to watch, once the tools are listed. Raises NoSuchToolError for an unknown reading tool."""
        if self._watching is not None:
            self._ledger.know(self._watching.begin().plan)
            self._ledger.watch(WATCHED)

    # --- what clients are shown ---

    async def listed(self, server: str, tools: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
        """Return a page of a server's tools as shown to the client, and record the page."""
        self._catalogue.glimpse(server, tools)
        contracts = await self._contracts.look()
        shown: list[dict[str, Json]] = []
        for tool in tools:
            key = (server, str(tool.get("name", "")))
            action = contracts.action(key)
            if action is not None and not self._in_shadow(action):
                shown.append(_governed_tool(tool))
            elif (action is not None or self._policy is not Policy.DENY) and (
                len(self._servers.keys) > 1 or key[1] not in OWN_NAMES
            ):
                shown.append(dict(tool))
        return shown

    def own_tools(self) -> list[dict[str, Json]]:
        """Return readback_status, readback_wait and readback_explain."""
        return self._own.listed()

    @property
    def listeners(self) -> set[Callable[[], None]]:
        """Called when the set of governed tools changes."""
        return self._contracts.listeners

    @property
    def contracts(self) -> Governed:
        """The active contracts."""
        return self._contracts.current

    def tools_changed(self, server: str) -> None:
        """Note a server's change notification: its tools are listed again before the next governed call."""
        self._catalogue.forget(server)

    # --- calls ---

    def of_task(self, result: Mapping[str, Json]) -> dict[str, Json]:
        """Return the result of a call answered with a task, without any outcome forged by the tool."""
        return results.unforged(result)

    async def own_call(self, call: Call) -> dict[str, Json]:
        """Answer a question about an action."""
        await self._recording.on_record()
        return await self._own.call(call)

    async def call(self, call: Call, server: Toolserver) -> dict[str, Json]:
        """Return the result for the client.

        Raises:
            ToolRefusedError: A server's protocol error, forwarded for a tool without a contract.
            UpstreamLostError: The server was lost during an unrecorded call.
            NotDispatchedError: The server was lost before an unrecorded call.
            GovernedTaskError: The client asked for a task instead of a result.
        """
        contracts = await self._contracts.look()
        key = (call.server, call.name)
        action = contracts.action(key)
        if action is None:
            like = self._like(contracts, key)
            if like:
                said = f"There is no tool {call.tool!r:.200}; {like!r:.200} is governed by a contract."
                return results.refused(ToolDeniedError(said, remedy="Call it by its exact name."))
            return await self._without_contract(call, server)
        if call.params.get("task") is not None:  # a client asking for a task cannot read a verdict
            raise GovernedTaskError(
                f"The tool {call.tool!r:.200} is governed and cannot run as a task; nothing was sent."
            )
        try:
            operation = operation_of(call)
            if self._is_due(server):
                await self._look_at_tools(server)
            proposal, agreed, leave = None, "", None
            if self._contracts.current is contracts:
                agreed = self._catalogue.agreed(key)
                self._catalogue.check(key, agreed)
                self._check_room(len(self._flying))
                check_exact(call.arguments)
                proposal = propose(action, call.arguments)
                leave = self._operations.enter(key, proposal, operation)
        except ReadbackError as error:
            if isinstance(error, ArgumentError) and self._in_shadow(action):  # the enforced mode would refuse the call
                self._say(f"{action.name!r} in shadow mode would refuse a call of {call.tool!r:.200}: {error.message}")
                return await self._without_contract(call, server)
            return results.refused(error)
        if proposal is None or leave is None:  # a reload happened meanwhile: start again with the new contracts
            return await self.call(call, server)
        flight = InFlightCall(call, server, agreed, self._catalogue.form(key))
        return await self._governed(flight, proposal, operation, leave)

    def _in_shadow(self, action: FileAction) -> bool:
        return self._ledger.shadow.covers(action.contract.name, action.contract.mode)

    async def _without_contract(self, call: Call, server: Toolserver) -> dict[str, Json]:
        """Return the result of a call that no contract governs."""
        key, watching = (call.server, call.name), self._watching
        if watching is None:
            return await self._by_policy(call, server)
        if self._policy is _UNVERIFIED and not watching.is_reading(key) and call.params.get("task") is None:
            return await self._watched(InFlightCall(call, server), watching)
        leave = watching.enter(key)
        try:
            return await self._by_policy(call, server)
        finally:
            leave()

    async def _by_policy(self, call: Call, server: Toolserver) -> dict[str, Json]:
        if self._policy is _UNVERIFIED:
            return await self._recorded(InFlightCall(call, server))
        return await self._unrecorded(call, server)

    async def _watched(self, flight: InFlightCall, watching: Watching) -> dict[str, Json]:
        """Return the server's own answer to a watched call. The readings around the call are recorded."""
        try:
            operation = operation_of(flight.call)
            self._check_room(len(self._flying))
            proposal = watching.proposed(flight.call)
            leave = self._operations.enter(flight.key, proposal, operation)
        except ReadbackError as error:
            return results.in_meta(results.refused(error))
        told = await self._governed(flight, proposal, operation, leave)
        if isinstance(flight.raised, ToolRefusedError):
            raise flight.raised
        return told

    def _like(self, contracts: Governed, key: ToolKey) -> str:
        """Return the governed tool possibly meant by an unlisted name, on a server with lenient name matching."""
        if self._catalogue.tool(key) is not None:
            return ""
        wanted = _folded(key[1])
        return next((name for server, name in contracts.actions if server == key[0] and _folded(name) == wanted), "")

    def _is_due(self, server: Toolserver) -> bool:
        return server.unlisted or self._catalogue.is_due(server.key, self._ledger.runtime.now_us())

    async def _look_at_tools(self, server: Toolserver) -> None:
        """List a server's tools again if the last list is old. An unavailable server is called by its last list.

        Raises ToolChangedError if the server announced a change and cannot list its tools.
        """
        async with self._looking.setdefault(server.key, asyncio.Lock()):
            if not self._is_due(server):
                return  # another call listed the tools meanwhile
            announced = self._catalogue.announced(server.key)
            try:
                tools = await self._servers.list_tools(server)
            except UpstreamLostError as error:
                self._say(f"The tools of server {server.key!r} cannot be listed: {error}")
                if self._catalogue.is_unsettled(server.key):
                    said = "The server says that its tools changed, and cannot list them now; they are held."
                    raise ToolChangedError(said, remedy="Call again when the server lists its tools.") from error
                return
            self._catalogue.see(server.key, tools, self._ledger.runtime.now_us(), announced)

    def _check_room(self, flying: int) -> None:
        if self._closing:
            raise GatewayBusyError("The gateway is ending.", remedy=AGAIN)
        if flying >= self._in_flight_max:
            raise GatewayBusyError(f"{flying} calls are in flight, the gateway's maximum.")

    # --- governed ---

    async def _governed(
        self, flight: InFlightCall, proposal: Proposal, operation: str | None, leave: Callable[[], None]
    ) -> dict[str, Json]:
        task = asyncio.create_task(self._fly(flight, proposal, operation))
        self._flying.add(task)
        if self._watching is not None:
            passed = self._watching.enter(flight.key)
            task.add_done_callback(lambda _: passed())
        task.add_done_callback(lambda _: leave())
        task.add_done_callback(self._landed)
        await self._held(task)
        try:
            if not task.done():
                return await self._pending(flight, proposal, task)
            outcome = task.result()
        except ReadbackError as error:
            return await self._failed(flight, error)
        raw = flight.raw if flight.raw is not None and not outcome.replayed else content_of(outcome)
        if outcome.unworded or outcome.contract == WATCHED:
            return results.unanswered(outcome) if raw is None else results.unworded(outcome, raw)
        return results.governed(outcome, raw)

    async def _fly(self, flight: InFlightCall, proposal: Proposal, operation: str | None) -> Outcome:
        """Drive the action to its end, or until the hold ends and no call is in flight. The due worker then resumes the
        action.
        """
        IN_HAND.set(flight)
        INCOMING.set(flight.incoming)
        waited = await flight.enter()
        try:
            if waited and flight.agreed:
                await self._hold_to_tool(flight, proposal)
            return await self._ledger.attended(proposal, flight.ticket, operation=operation, wait=self._hold_s)
        finally:
            flight.leave()

    async def _hold_to_tool(self, flight: InFlightCall, proposal: Proposal) -> None:
        """Check the tool again after a wait. Raises ToolChangedError."""
        flight.admitted = False
        try:
            if self._is_due(flight.server):
                await self._look_at_tools(flight.server)
            self._catalogue.check(flight.key, flight.agreed)
        except BaseException:
            proposal.mark_run()  # this proposal must never run
            raise
        flight.admitted = True

    def _landed(self, task: asyncio.Task[Outcome]) -> None:
        self._flying.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ReadbackError):
            self._say(f"A call ended in {type(error).__name__}: {error}")
        if error is not None or task.cancelled() or not task.result().settled:
            self._notify()

    async def _held(self, task: asyncio.Task[Outcome]) -> None:
        """Wait until the call ends or the hold is over. Cancelling this wait does not cancel the call."""
        runtime = self._ledger.runtime
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._holds.add(over)
        try:
            if self._by_the_loop and self._hold_s:
                await _ended(task, self._hold_s, over)
                return
            until_us = runtime.now_us() + round(self._hold_s * 1_000_000)
            while not (task.done() or over.done()) and (left_us := until_us - runtime.now_us()) > 0:
                timer = asyncio.ensure_future(runtime.sleep_async(left_us / 1_000_000))
                waits: set[asyncio.Future[Any]] = {task, timer, over}
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    timer.cancel()
        finally:
            self._holds.discard(over)

    async def _failed(self, flight: InFlightCall, error: ReadbackError) -> dict[str, Json]:
        """Return the result of a failed call: not sent, unless the ledger records an attempt."""
        if isinstance(error, UnknownOutcomeError) or not flight.ticket.action_id:
            return results.refused(error)
        try:
            outcome = await self._ledger.get(flight.ticket.action_id)
        except NotFoundError:
            return results.refused(error)
        return results.governed(outcome, None) if outcome.attempted else results.refused(error)

    async def _pending(self, flight: InFlightCall, proposal: Proposal, task: asyncio.Task[Outcome]) -> dict[str, Json]:
        # The process ends during the call: the effect is unknown, and the next gateway settles the action.
        if self._ending and flight.ticket.action_id:
            return results.unfinished(flight.ticket.action_id, proposal.definition.name)
        if self._ending:  # the process ends, and no action exists yet: nothing was sent
            task.cancel()
            proposal.mark_run()
            return results.refused(GatewayBusyError("The gateway is ending.", remedy=AGAIN))
        # The hold ended while the call still waited for room at its server: nothing was sent.
        if self._hold_s and not flight.admitted:
            task.cancel()
            proposal.mark_run()  # this proposal must never run
            said = f"The server of {flight.call.tool!r:.200} had no room for this call within {self._hold_s:g} s."
            return results.refused(GatewayBusyError(said))
        if not flight.ticket.action_id:
            await asyncio.wait({task}, timeout=0)  # a hold of zero seconds: let the task start
        # Still no action, so no id to ask about: wait for the end.
        if not flight.ticket.action_id:
            return results.governed(await asyncio.shield(task), None)
        try:
            outcome = await self._ledger.get(flight.ticket.action_id)
        except NotFoundError:
            return results.begun(flight.ticket.action_id, proposal.definition.name)
        if flight.raw is not None and (outcome.unworded or outcome.contract == WATCHED):
            return results.unworded(outcome, flight.raw)
        return results.governed(outcome, None)

    # --- ungoverned ---

    async def _unrecorded(self, call: Call, server: Toolserver) -> dict[str, Json]:
        if self._policy is not Policy.PASS:
            said = f"No contract governs the tool {call.tool!r:.200}, and such tools are denied here."
            return results.in_meta(results.refused(ToolDeniedError(said)))
        flight = InFlightCall(call, server)
        try:
            if self._operations.had(flight.key) and (operation := operation_of(call)):
                self._operations.check_others(flight.key, "", operation)
        except ReadbackError as error:
            return results.in_meta(results.refused(error))
        waited = await flight.enter()
        try:
            if waited:
                self._check_ungoverned(flight)
            return results.unforged(await server.call(call.params, timeout_s=None, link=call.link))
        except ToolDeniedError as error:
            return results.in_meta(results.refused(error))
        finally:
            flight.leave()

    async def _recorded(self, flight: InFlightCall) -> dict[str, Json]:
        try:
            operation = operation_of(flight.call)
            self._check_room(len(self._recording.under_way))
            proposal = ungoverned.proposed(self._for_all, flight.call)
            leave = self._operations.enter(flight.key, proposal, operation)
            return await self._recording.call(flight, proposal, operation, leave)
        except ToolRefusedError:
            raise
        except ReadbackError as error:
            return results.in_meta(results.refused(error))

    def _check_ungoverned(self, flight: InFlightCall) -> None:
        """Raise ToolDeniedError if a contract for the tool was loaded while the call waited."""
        if self._contracts.current.action(flight.key) is not None:
            said = f"A contract governs the tool {flight.call.tool!r:.200} since its call began to wait for room."
            raise ToolDeniedError(said, remedy="Call it again.")

    # --- the end ---

    def answer_held(self) -> None:
        """Answer waiting callers with the current knowledge, and reject new calls. The process ends soon."""
        self._closing = self._ending = True
        for over in tuple(self._holds):
            if not over.done():
                over.set_result(None)
        self._recording.answer_held()

    async def close(self, grace_s: float) -> int:
        """Reject new calls, and wait for calls in flight up to `grace_s` seconds.

        Return how many remain to be resumed.
        """
        self._closing = True
        flying = self._flying | self._recording.under_way
        if flying:
            timer = asyncio.ensure_future(self._ledger.runtime.sleep_async(grace_s))
            ending = asyncio.ensure_future(asyncio.wait(flying))
            await asyncio.wait({timer, ending}, return_when=asyncio.FIRST_COMPLETED)
            timer.cancel()
            ending.cancel()
        left = [*self._flying, *self._recording.under_way]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return len(left)


async def _ended(task: asyncio.Task[Outcome], hold_s: float, over: asyncio.Future[None]) -> None:
    """Wait for the task or `over`, with a time limit. Fewer steps than `asyncio.wait`."""

    def go_on(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    timer = asyncio.get_running_loop().call_later(hold_s, go_on)
    task.add_done_callback(go_on)
    try:
        await over
    finally:
        timer.cancel()
        task.remove_done_callback(go_on)


def _folded(name: str) -> str:
    """Fold a name like a lenient server: ignore case, width, and all but letters and digits."""
    return "".join(each for each in normalized("NFKC", name).casefold() if each.isalnum())


def operation_of(call: Call) -> str | None:
    """Return the operation named by the client, or None. Raises ArgumentError for an invalid name."""
    named = call.meta.get(OPERATION_KEY)
    if named is None:
        return None
    check_id("operation", named, ArgumentError)
    return str(named)


def _governed_tool(tool: Mapping[str, Json]) -> dict[str, Json]:
    """Return a governed tool as shown to clients.

    The description announces verified results, and the output schema includes the outcome. Task support is switched
    off: a task would report the server's own end instead of the verified state.
    """
    described = str(tool.get("description") or "").rstrip()
    shown: dict[str, Json] = {**tool, "description": f"{described}\n\n{VERIFIED_NOTE}".lstrip()}
    execution = tool.get("execution")
    if isinstance(execution, dict) and "taskSupport" in execution:
        shown["execution"] = {**execution, "taskSupport": "forbidden"}
    schema = tool.get("outputSchema")
    if isinstance(schema, dict):
        shown["outputSchema"] = _widened(schema)
    return shown


def _widened(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return the schema of a governed result: the tool's own properties, and always the outcome.

    A verified call may lack the tool's own answer, so only the outcome can be required. A strict schema is reduced to
    names and types. Otherwise a client could reject the result and never learn that the action is done.
    """
    properties = schema.get("properties")
    known: dict[str, Json] = {**(properties if isinstance(properties, dict) else {}), OUTCOME_KEY: {"type": "object"}}
    kept = schema if schema.keys() <= WIDENED else {key: schema[key] for key in schema.keys() & NAMING}
    return {**kept, "properties": known, "required": [OUTCOME_KEY]}
