"""What a server is told of a request that its client has cancelled: what the client said of it.

The SDK ends a request before it hands on what it was told, so whoever is ended waits some turns of the event loop for
that. A request that nobody cancelled, and that is given up all the same, is given up in our own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

from anyio.lowlevel import cancel_shielded_checkpoint
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import JSONRPCNotification

CANCELLED: Final = "notifications/cancelled"
ENDED: Final = "caller cancelled"
"""The reason that the SDK gives where whoever asked was ended."""
TURNS: Final = 8
"""More than it takes from the end of a request to the word of its client."""


class Asking(Protocol):
    """Whoever a request to a server was sent for. `cancelled`: what its client said when it cancelled it."""

    cancelled: Mapping[str, Any] | None


SENT_FOR: ContextVar[Asking | None] = ContextVar("readback_sent_for", default=None)


async def heard() -> None:
    """Waits until it is known what the client said, as far as it said anything; also where this task is ended."""
    asking = SENT_FOR.get()
    for _ in range(TURNS):
        if asking is None or asking.cancelled is not None:
            return
        await cancel_shielded_checkpoint()


def given_up(request_id: object) -> dict[str, Any]:
    """The parameters of a cancellation, in the client's words where it said any."""
    asking = SENT_FOR.get()
    said = None if asking is None else asking.cancelled
    return {**({"reason": ENDED} if said is None else said), "requestId": request_id}


class CancellingStream:
    """A stream to a server, on which cancellations go in the client's words."""

    def __init__(self, stream: WriteStream[SessionMessage]) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            params = message.params or {}
            if params.get("reason") == ENDED:
                await heard()
                said = JSONRPCNotification(jsonrpc="2.0", method=CANCELLED, params=given_up(params.get("requestId")))
                item = SessionMessage(said, item.metadata)
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> CancellingStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
