"""Calls that no contract governs, on record as not checked: what their servers answer goes on before it is recorded.

Called by the gate. The call goes out when the engine has cleared it, before its attempt is written, and nobody is
answered before that is durable. The answer itself need not be: the client is told that the result is unknown,
whatever it was, and a crash that loses the answer leaves an attempt that is unknown too. A call whose operation has a
name waits for its attempt, as it may not be made twice, and so does every call while the ledger fails or has limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from readback.canon import Json
from readback.client.proposal import Proposal
from readback.domain.errors import StoreError, UnknownOutcomeError
from readback.domain.errors.gateway import ToolRefusedError
from readback.domain.outcome.outcome import Outcome
from readback.drivers.early_dispatch import EARLY_DISPATCH, EarlyDispatch
from readback.gateway.policy import results
from readback.gateway.policy.ledger_client import GatewayClient
from readback.gateway.policy.replayed_result import content_of
from readback.gateway.policy.servers import IN_HAND, InFlightCall


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
