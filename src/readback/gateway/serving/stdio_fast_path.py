"""The stdio fast path: tool calls go from the line straight to their session, and the answer goes straight to a line.

The SDK's server does everything else. The SDK opens the session, decides its era, and checks each request with a new
envelope. A call with the envelope of an accepted request skips the SDK's models, streams and scopes. Repeated calls
always have such an envelope.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from mcp.server.runner import modern_error_data
from mcp.shared.dispatcher import coerce_request_id
from mcp_types import CONNECTION_CLOSED

from readback.canon.frozen import dataclass
from readback.gateway.session.client_session import ClientSession
from readback.gateway.upstream.handshake import ENVELOPE
from readback.gateway.wire.cancellation import CANCELLED
from readback.gateway.wire.jsonl import answer_line, plain_json
from readback.gateway.wire.pipes import Outgoing

CALL: Final = "tools/call"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request accepted by the SDK: its session and its envelope."""

    relay: ClientSession
    session: Any
    envelope: Mapping[str, Any]

    def covers(self, meta: object) -> bool:
        """Return whether a call has exactly the same envelope."""
        if meta == self.envelope:  # most calls send only the envelope
            return True
        given = meta if isinstance(meta, dict) else {}
        return envelope_of(given) == self.envelope


def envelope_of(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the envelope of a stateless request; empty for a handshake-era request."""
    return {key: meta[key] for key in ENVELOPE if key in meta}


class LaneCall:
    """One call on the fast path: the session's view of the SDK's `ServerRequestContext`.

    Its `session` property is the way back to the client.
    """

    __slots__ = ("_admitted", "_lane", "cancelled", "key", "params", "request_id", "task", "told")

    method: Final = CALL

    def __init__(
        self, lane: CallLane, admitted: Admitted, key: int | str, request_id: int | str, params: dict[str, Any]
    ) -> None:
        self._lane, self._admitted = lane, admitted
        self.key, self.request_id, self.params = key, request_id, params
        self.cancelled = self.told = False
        self.task = asyncio.create_task(self._answer())
        self.task.add_done_callback(self._over)

    @property
    def session(self) -> LaneCall:
        """The way back to the client, like the SDK's `ServerSession`."""
        return self

    def cancel(self, params: Mapping[str, Any]) -> None:
        """Cancel the call for its client, with the client's parameters."""
        self.cancelled = True
        self._admitted.relay.cancelled(params)
        self.task.cancel()

    async def _answer(self) -> dict[str, Any] | None:
        """Write the answer. A call cancelled by its client gets none; a call ended with the gateway gets an error.

        After an interim answer with a server's questions, the task returns its result to the session instead.
        """
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self.request_id}
        context: Any = self
        try:
            result = await self._admitted.relay.answer(context, self._put_off)
            if self.told:  # the request has its interim answer; the result answers the client's next request
                return result
            message["result"] = result
        except asyncio.CancelledError:
            if self.told:  # the suspended request was abandoned
                raise
            if self.cancelled:  # by the client: the protocol forbids an answer
                return None
            # Ended with the gateway: the client must not wait forever.
            message["error"] = {"code": CONNECTION_CLOSED, "message": "Connection closed"}
        except Exception as error:  # converted like in the SDK, and logged there
            if self.told:
                raise
            message["error"] = modern_error_data(error).model_dump(exclude_none=True)
        await self._lane.write(message)
        return None

    def _put_off(self, asked: dict[str, Any]) -> None:
        """Write an interim answer. The client's next request is a new one."""
        self.told = True
        self._lane.forget(self)
        self._lane.tell({"jsonrpc": "2.0", "id": self.request_id, "result": asked})

    def _over(self, _: object) -> None:
        self._lane.forget(self)

    async def send_notification(self, notification: Any, related_request_id: object = None) -> None:
        """Send the notification. Pipes have a single stream for everything."""
        told = {"jsonrpc": "2.0", "method": notification.method}
        if notification.params is not None:
            told["params"] = notification.params
        await self._lane.write(told)

    async def send_request(self, request: Any, result_type: Any, metadata: object = None) -> Any:
        """Ask the client through the SDK, since the SDK matches the answer."""
        return await self._admitted.session.send_request(request, result_type)


class CallLane:
    """The fast path of one client. `admitted`: set by the middleware; before, every line goes to the SDK."""

    def __init__(self) -> None:
        self.admitted: Admitted | None = None
        self.writer: Outgoing | None = None
        self._running: dict[int | str, LaneCall] = {}
        self.beside: set[asyncio.Task[Any]] = set()
        """The SDK's tasks answering this client's other calls."""

    def take(self, line: bytes) -> bool:
        """Take the line if it is a call for the fast path, or the cancellation of one.

        Else return False for the SDK.
        """
        # A quick test of the bytes first: most other lines need no parsing here.
        if self.admitted is None or (b'"tools/call"' not in line and b'"notifications/cancelled"' not in line):
            return False
        message = plain_json(line)
        params = None if message is None else message.get("params")
        if message is None or not isinstance(params, dict):
            return False
        method, request_id = message.get("method"), message.get("id")
        if method == CANCELLED and "id" not in message:  # of a call on this path; else the SDK handles it
            return self._cancel(params)
        if not isinstance(request_id, int | str) or isinstance(request_id, bool):  # the SDK rejects such an id
            return False
        # Another envelope: the SDK must check the request first.
        if method != CALL or not self.admitted.covers(params.get("_meta")):
            return False
        key = coerce_request_id(request_id)
        if key in self._running:  # a duplicate id: the SDK decides
            return False
        self._running[key] = LaneCall(self, self.admitted, key, request_id, params)
        return True

    def _cancel(self, params: Mapping[str, Any]) -> bool:
        request_id = params.get("requestId")
        key = coerce_request_id(request_id) if isinstance(request_id, int | str) else None
        call = None if key is None else self._running.get(key)
        if call is None:
            return False
        call.cancel(params)
        return True

    def forget(self, call: LaneCall) -> None:
        """Free the id of an answered call."""
        if self._running.get(call.key) is call:
            del self._running[call.key]

    def tell(self, message: Mapping[str, Any]) -> None:
        """Write one line. The line is lost if the client no longer reads."""
        if self.writer is not None:
            self.writer.write(answer_line(message))

    async def write(self, message: Mapping[str, Any]) -> None:
        """Write one line, and wait for the client to read."""
        self.tell(message)
        if self.writer is not None and self.writer.is_full:
            with suppress(OSError):
                await self.writer.drain()

    async def rest(self, patience_s: float | None) -> None:
        """Wait until every call in flight is answered, here or by the SDK, or until patience ends."""
        running = {*self.beside, *(call.task for call in self._running.values())}
        if running:
            await asyncio.wait(running, timeout=patience_s)

    async def close(self) -> None:
        """Take no further calls, and cancel calls in flight."""
        self.admitted = None
        running = [call.task for call in self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
