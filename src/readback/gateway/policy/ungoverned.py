"""Tools that no contract governs: passed on, passed on and recorded as not checked, or denied.

Called by the gate. Recorded calls are actions like others, of one contract that says that nothing can be read back.
What they asked and were answered is kept where it is small; of more its size and its SHA-256.
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
from readback.errors import NotDispatchedError, StoreError, UnknownOutcomeError
from readback.gateway.call import Call
from readback.gateway.policy import results
from readback.gateway.policy.ledger_client import GatewayClient
from readback.gateway.policy.results import UNGOVERNED, content_of
from readback.gateway.policy.servers import IN_HAND, InFlightCall, Servers, cleared
from readback.gateway.wire.verbatim import is_faithful, slowly

# Calls that no contract governs, on record as not checked: what their servers answer goes on before it is recorded.


class Recording:
    """One gateway's, on its event loop. `check` raises where a call that waited for room may not be made any more."""

    def __init__(
        self, ledger: GatewayClient, hold_s: float, say: Callable[[str], None], check: Callable[[InFlightCall], None]
    ) -> None:
        self._ledger, self._hold_s, self._say, self._check = ledger, hold_s, say, check
        self.under_way: set[asyncio.Task[Outcome]] = set()
        self._told: set[asyncio.Task[Outcome]] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        """One for each caller that is kept waiting."""
        self._ending = False
        self._sound = True
        """Whether the last that was to be recorded was: while it is not, nothing is sent that could not be."""

    async def call(
        self, flight: InFlightCall, proposal: Proposal, operation: str | None, leave: Callable[[], None]
    ) -> dict[str, Json]:
        """The result for the client. Its own cancellation goes on to the server. `leave`: told when nothing of it is
        under way. Raises what `GatewayClient.run` does, and ToolRefusedError.
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
            return results.in_meta(results.unfinished(flight.ticket.action_id, results.UNGOVERNED))
        if flight.raw is not None and not task.done():
            self._told.add(task)
            return results.unchecked(flight.ticket.action_id, flight.raw)
        outcome = await task
        if isinstance(flight.raised, ToolRefusedError):
            raise flight.raised
        raw = flight.raw if flight.raw is not None else content_of(outcome)
        return results.unanswered(outcome) if raw is None else results.marked(outcome, raw)

    def answer_held(self) -> None:
        """The process ends soon: callers that are kept waiting are answered with what is known."""
        self._ending = True
        for answered in tuple(self._waiting):
            if not answered.done():
                answered.set_result(None)

    async def on_record(self) -> None:
        """Until everything is on record that a client was told of."""
        if self._told:
            await asyncio.wait(set(self._told))

    async def _run(self, flight: InFlightCall, proposal: Proposal, operation: str | None) -> Outcome:
        IN_HAND.set(flight)
        try:
            if await flight.enter():
                self._check(flight)
        except BaseException:
            flight.leave()
            proposal.mark_run()  # it never will be
            raise
        ahead: EarlyDispatch | None = None
        if operation is None and self._sound:  # by now: it may have waited long
            ahead = flight.ahead(self._ledger.runtime)
            EARLY_DISPATCH.set(ahead)
        try:
            outcome = await self._ledger.attended(
                proposal, flight.ticket, operation=operation, wait=self._hold_s, ahead=ahead is not None
            )
        except Exception as error:
            if isinstance(error, StoreError):
                self._sound = False  # before there is room for the next
            if ahead is None or not ahead.made or ahead.recorded:
                raise
            self._sound = False
            self._say(f"A call of {flight.call.tool!r:.200} was sent, and is not on record: {error}")
            if isinstance(error, UnknownOutcomeError):
                raise
            raise ahead.lost(str(error)) from error
        else:  # of what ended otherwise nothing may have been recorded
            self._sound = True
            return outcome
        finally:
            flight.end()

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        self.under_way.discard(task)
        error = None if task.cancelled() else task.exception()
        if task in self._told and error is not None:
            self._say(f"What a tool without a contract answered could not be recorded: {error}")
        self._told.discard(task)


KEPT_MAX_BYTES: Final = 65_536
"""Of what a call without a contract asked, and of what it was answered."""
TIMEOUT: Final = "10m"
SHARES_S: Final = 0.01
"""So long the record of an answer waits for another commit to go along with: its client has been answered."""
TURNS: Final = 6
"""Of the event loop, which an answer takes to its client over HTTP; its record is made up behind it, not before."""
NAME_PLAIN_MAX: Final = 256
"""Of a tool's name in ASCII, whose call needs no second look."""
WHY: Final = "no contract governs this tool"


class Policy(StrEnum):
    """What becomes of a call that no contract governs."""

    PASS = "pass"
    UNVERIFIED = "unverified"
    DENY = "deny"


def contract_for_all(servers: Servers) -> ActionDefinition[[str, str, Any]]:
    """The contract of whatever has none."""

    async def call(ctx: Context, server: str, tool: str, arguments: Any) -> object:
        flight = IN_HAND.get()
        if flight is None:
            raise NotDispatchedError("Nobody waits for it any more, and nothing allows that it is called again.")
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
    """Done when everything has gone first that is ready in so many turns; a task is not woken for each of them."""
    over: asyncio.Future[None] = loop.create_future()
    _turn(loop, over, turns - 1)
    return over


def _turn(loop: asyncio.AbstractEventLoop, over: asyncio.Future[None], left: int) -> None:
    if left:
        loop.call_soon(_turn, loop, over, left - 1)
    elif not over.done():
        over.set_result(None)


def proposed(contract: ActionDefinition[[str, str, Any]], call: Call) -> Proposal:
    """A call as an action of that contract."""
    server, name = call.server or "-", call.name or "-"
    whole: dict[str, Json] = {"server": server, "tool": name, "arguments": dict(call.arguments)}
    given = short_copy(whole) if is_faithful(call.arguments) else None  # they came over a wire
    if given is not None and len(name) <= NAME_PLAIN_MAX and name.isascii() and server.isascii():
        return Proposal(contract, given, given)  # nothing is left to be refused: these are two texts and an object
    return contract(server, name, kept(call.arguments))


def kept(value: Mapping[str, Json]) -> dict[str, Json]:
    """A value as the ledger keeps it: whole, or its size and hash."""
    faithful = is_faithful(value)
    small = short_copied(value) if faithful else None  # it came over a wire
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
