"""What a client has asked of the SDK's session and has not been told yet."""

from __future__ import annotations

import asyncio
from typing import Final

from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from readback.gateway.wire.cancellation import CANCELLED

NEVER_ANSWERED: Final = frozenset({"subscriptions/listen"})
"""Nobody waits for the end of what goes on as long as somebody listens."""


class OpenRequests:
    """One client's, by their ids."""

    def __init__(self) -> None:
        self._ids: set[int | str] = set()
        self._none = asyncio.Event()
        self._none.set()

    def asked(self, message: SessionMessage | Exception) -> None:
        """Notes what the session is about to be handed. A request that is cancelled is answered no more."""
        asked = None if isinstance(message, Exception) else message.message
        if isinstance(asked, JSONRPCRequest) and asked.method not in NEVER_ANSWERED:
            self._ids.add(coerce_request_id(asked.id))
            self._none.clear()
        elif isinstance(asked, JSONRPCNotification) and asked.method == CANCELLED:
            cancelled = as_request_id((asked.params or {}).get("requestId"))
            if cancelled is not None:
                self._settle(cancelled)

    def answered(self, message: SessionMessage) -> None:
        """Notes what the client has been told."""
        told = message.message
        if isinstance(told, JSONRPCResponse | JSONRPCError) and told.id is not None:
            self._settle(told.id)

    async def none(self) -> None:
        """Until all are answered."""
        await self._none.wait()

    def _settle(self, request_id: int | str) -> None:
        self._ids.discard(coerce_request_id(request_id))
        if not self._ids:
            self._none.set()
