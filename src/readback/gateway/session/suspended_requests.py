"""Requests of the stateless era that wait until their client comes again with the answers to what a server asked."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from readback.gateway.upstream.request_context import Exchange

WAITS_S: Final = 600.0
WAITING_MAX: Final = 1000
"""More than so many do not wait: the oldest is given up."""
PREFIX: Final = "readback:"


class Waiting:
    """By the state that the client brings back."""

    def __init__(self) -> None:
        self._by_state: dict[str, tuple[Exchange, asyncio.TimerHandle]] = {}

    @property
    def exchanges(self) -> list[Exchange]:
        """All that wait, the newest last."""
        return [exchange for exchange, _ in self._by_state.values()]

    def suspended(self, exchange: Exchange) -> dict[str, Any]:
        """The answer for now: what the server asks. The state is a secret, so that nobody else can answer."""
        while len(self._by_state) >= WAITING_MAX:
            self._give_up(next(iter(self._by_state)))
        state = PREFIX + secrets.token_urlsafe(24)
        timer = asyncio.get_running_loop().call_later(WAITS_S, self._give_up, state)
        self._by_state[state] = exchange, timer
        return {"resultType": "input_required", "inputRequests": exchange.questions(), "requestState": state}

    def claimed(self, state: object) -> Exchange | None:
        """The request that its client goes on with. None where it is a new one, or a server's state.

        Raises MCPError for a state of ours that is over: nothing is begun anew by it.
        """
        if not isinstance(state, str) or not state.startswith(PREFIX):
            return None
        found = self._by_state.pop(state, None)
        if found is None:
            raise MCPError(code=INVALID_PARAMS, message="The request does not wait any more; look what became of it.")
        exchange, timer = found
        timer.cancel()
        return exchange

    def close(self) -> None:
        """Nobody comes again."""
        for state in tuple(self._by_state):
            self._give_up(state)

    def _give_up(self, state: str) -> None:
        found = self._by_state.pop(state, None)
        if found is not None:
            exchange, timer = found
            timer.cancel()
            exchange.abandon()
