"""Forward a client's cancellation to the server in the client's own words.

The SDK cancels a request before it delivers the client's notification. So a cancelled request waits some event loop
turns for the notification. A request abandoned without a client's cancellation uses our own words.
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
"""The SDK's reason for a cancelled caller."""
TURNS: Final = 8
"""Turns to wait: more than needed between a request's cancellation and the client's notification."""


class Asking(Protocol):
    """The client request behind a server request. `cancelled`: the client's cancellation parameters."""

    cancelled: Mapping[str, Any] | None


SENT_FOR: ContextVar[Asking | None] = ContextVar("readback_sent_for", default=None)


async def heard() -> None:
    """Wait for the client's cancellation parameters, if any. Works in a cancelled task."""
    asking = SENT_FOR.get()
    for _ in range(TURNS):
        if asking is None or asking.cancelled is not None:
            return
        await cancel_shielded_checkpoint()


def given_up(request_id: object) -> dict[str, Any]:
    """Return the parameters of a cancellation, in the client's words if available."""
    asking = SENT_FOR.get()
    said = None if asking is None else asking.cancelled
    return {**({"reason": ENDED} if said is None else said), "requestId": request_id}


class CancellingStream:
    """A stream to a server with cancellations in the client's words."""

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
