"""Tools without a contract: forwarded, forwarded and recorded as unverified, or denied.

Called by the gate. A recorded call is an action of one contract without verification. Small arguments and answers are
stored in full, larger ones as size and SHA-256.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

from readback.agent_errors import ToolRefusedError
from readback.canon import CanonError, Json, json_text, json_value, sha256_hex, stored_bytes
from readback.canon.values import short_copied, short_copy
from readback.client.authoring.action import ActionDefinition
from readback.client.proposal import Proposal
from readback.domain.context import Context
from readback.domain.outcome.outcome import Outcome
from readback.drivers.early_dispatch import EARLY_DISPATCH, EarlyDispatch
from readback.drivers.group_commit import MAY_WAIT_S
from readback.drivers.live_span import INCOMING
from readback.errors import NotDispatchedError, StoreError, UnknownOutcomeError
from readback.gateway.call import Call
from readback.gateway.policy import results
from readback.gateway.policy.ledger_client import GatewayClient
from readback.gateway.policy.servers import IN_HAND, InFlightCall, Servers, cleared
from readback.gateway.wire.verbatim import is_faithful, slowly
from readback.kit.content import content_of
from readback.kit.wording import UNGOVERNED

# Calls without a contract, recorded as unverified. The server's answer is forwarded before it is recorded.


class Recording:
    """Records calls of one gateway, on its event loop. `check` raises if a call must not be sent after waiting for
    room.
    """

    def __init__(
        self,
        ledger: GatewayClient,
        hold_s: float,
        say: Callable[[str], None],
        check: Callable[[InFlightCall], None],
        *,
        in_content: bool = True,
    ) -> None:
        self._in_content = in_content
        """Whether the content of an answer bears the mark, too."""
        self._ledger, self._hold_s, self._say, self._check = ledger, hold_s, say, check
        self.under_way: set[asyncio.Task[Outcome]] = set()
        self._told: set[asyncio.Task[Outcome]] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        """One future for each waiting caller."""
        self._ending = False
        self._sound = True
        """Whether the last record was written. After a failure no call is sent before its record."""

    async def call(
        self, flight: InFlightCall, proposal: Proposal, operation: str | None, leave: Callable[[], None]
    ) -> dict[str, Json]:
        """Return the result for the client. A cancellation by the client reaches the server.

        `leave`: called when no part of the call is in flight. Raises the errors of `GatewayClient.run`, and
        ToolRefusedError.
        """
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flight.answered = answered
        task = asyncio.create_task(self._run(flight, proposal, operation))
        self.under_way.add(task)
        task.add_done_callback(self._ended)
        task.add_done_callback(flight.land)
        task.add_done_callback(lambda _: leave())
        self._waiting.add(answered)
        try:
            await answered
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            self._waiting.discard(answered)
        if self._ending and flight.raw is None and not task.done() and flight.ticket.action_id:
            return results.in_meta(results.unfinished(flight.ticket.action_id, UNGOVERNED))
        if flight.raw is not None and not task.done():
            self._told.add(task)
            return results.unchecked(flight.ticket.action_id, flight.raw, in_content=self._in_content)
        outcome = await task
        if isinstance(flight.raised, ToolRefusedError):
            raise flight.raised
        raw = flight.raw if flight.raw is not None else content_of(outcome)
        if raw is None:
            return results.unanswered(outcome)
        return results.marked(outcome, raw, in_content=self._in_content)

    def answer_held(self) -> None:
        """Answer waiting callers with the current knowledge. The process ends soon."""
        self._ending = True
        for answered in tuple(self._waiting):
            if not answered.done():
                answered.set_result(None)

    async def on_record(self) -> None:
        """Wait until every answer sent to a client is recorded."""
        if self._told:
            await asyncio.wait(set(self._told))

    async def _run(self, flight: InFlightCall, proposal: Proposal, operation: str | None) -> Outcome:
        IN_HAND.set(flight)
        INCOMING.set(flight.incoming)
        try:
            if await flight.enter():
                self._check(flight)
        except BaseException:
            flight.leave()
            proposal.mark_run()  # this proposal must never run
            raise
        ahead: EarlyDispatch | None = None
        if operation is None and self._sound:  # checked only now: the call may have waited long
            ahead = flight.ahead(self._ledger.runtime)
            EARLY_DISPATCH.set(ahead)
        try:
            outcome = await self._ledger.attended(
                proposal, flight.ticket, operation=operation, wait=self._hold_s, ahead=ahead is not None
            )
        except Exception as error:
            if isinstance(error, StoreError):
                self._sound = False  # before the next call may start
            if ahead is None or not ahead.made or ahead.recorded:
                raise
            self._sound = False
            self._say(f"A call of {flight.call.tool!r:.200} was sent, and is not on record: {error}")
            if isinstance(error, UnknownOutcomeError):
                raise
            raise ahead.lost(str(error)) from error
        else:  # any other end may have recorded nothing
            self._sound = True
            return outcome
        finally:
            flight.end()

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        self.under_way.discard(task)
        error = None if task.cancelled() else task.exception()
        if task in self._told and error is not None:
            self._say(f"The answer of a tool without a contract could not be recorded: {error}")
        self._told.discard(task)


KEPT_MAX_BYTES: Final = 65_536
"""Largest arguments or answer stored in full, in bytes."""
TIMEOUT: Final = "10m"
SHARES_S: Final = 0.01
"""How long the record of an answer waits to share a commit, in seconds. The client already has the answer."""
TURNS: Final = 6
"""Event loop turns needed by an answer over HTTP. The record is built after these turns."""
NAME_PLAIN_MAX: Final = 256
"""Longest ASCII tool name accepted without further checks."""
WHY: Final = "no contract governs this tool"


class Policy(StrEnum):
    """The policy for calls without a contract."""

    PASS = "pass"
    UNVERIFIED = "unverified"
    DENY = "deny"


def contract_for_all(servers: Servers) -> ActionDefinition[[str, str, Any]]:
    """Return the contract of calls without a contract."""

    async def call(ctx: Context, server: str, tool: str, arguments: Any) -> object:
        flight = IN_HAND.get()
        if flight is None:
            raise NotDispatchedError("The caller is gone, and nothing permits a second call.")
        answer = await (flight.sent or flight.send(flight.call.arguments, servers.runtime))
        flight.land()
        await _behind(asyncio.get_running_loop(), TURNS)
        MAY_WAIT_S.set(SHARES_S)
        return kept(cleared(flight.server, answer))

    return ActionDefinition(
        call,
        {
            "name": UNGOVERNED,
            "version": "1",
            "kind": "set",
            "side_effect": "low_risk_internal",
            "target": "tool/{requested.server}/{requested.tool}",
            "ensure": {"it was read back": "authoritative != null"},
            "unverifiable": WHY,
            "execute": {"timeout": TIMEOUT},
        },
    )


def _behind(loop: asyncio.AbstractEventLoop, turns: int) -> asyncio.Future[None]:
    """Return a future done after this many event loop turns, without waking a task each turn."""
    over: asyncio.Future[None] = loop.create_future()
    _turn(loop, over, turns - 1)
    return over


def _turn(loop: asyncio.AbstractEventLoop, over: asyncio.Future[None], left: int) -> None:
    if left:
        loop.call_soon(_turn, loop, over, left - 1)
    elif not over.done():
        over.set_result(None)


def proposed(contract: ActionDefinition[[str, str, Any]], call: Call) -> Proposal:
    """Return a call as a proposal of the contract."""
    server, name = call.server or "-", call.name or "-"
    whole: dict[str, Json] = {"server": server, "tool": name, "arguments": dict(call.arguments)}
    given = short_copy(whole) if is_faithful(call.arguments) else None  # arguments from a wire
    if given is not None and len(name) <= NAME_PLAIN_MAX and name.isascii() and server.isascii():
        return Proposal(contract, given, given)  # two texts and an object need no validation
    return contract(server, name, kept(call.arguments))


def kept(value: Mapping[str, Json]) -> dict[str, Json]:
    """Return the stored form of a value: in full, or size and hash."""
    faithful = is_faithful(value)
    small = short_copied(value) if faithful else None  # a value from a wire
    if small is not None:
        return small
    try:
        plain = json_value(dict(value))
        size = len(stored_bytes(plain))
    except CanonError:
        plain, size = None, KEPT_MAX_BYTES + 1
    if faithful and isinstance(plain, dict) and size <= KEPT_MAX_BYTES:
        return plain
    whole = json_text({**value}, sort_keys=True, compact=True).encode("ascii") if faithful else slowly(value)
    short: dict[str, Json] = {"bytes": len(whole), "sha256": sha256_hex(whole)}
    if value.get("isError") is True:
        short["isError"] = True
    return short
