"""The HTTP fast path: stateless tool calls go straight to their session, as `stdio_fast_path` does for pipes.

An ASGI application in front of the SDK's application. The fast path uses the SDK's own checks: the classification of a
request by headers and envelope, and the status of an error. Any other request goes to the SDK unchanged, and the SDK
rejects invalid ones. A tool with arguments repeated in headers also goes to the SDK, since the SDK compares both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from mcp.server.runner import modern_error_data
from mcp.server.streamable_http import check_accept_headers
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
)

from readback.canon.frozen import dataclass
from readback.gateway.session.client_session import ClientSession
from readback.gateway.wire.jsonl import answer_line, plain_json

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CALL: Final = "tools/call"
BODY_MAX_BYTES: Final = 1 << 20
"""Larger bodies go to the SDK."""
PING_S: Final = 15.0
"""A longer call is answered as a stream. Comments keep the stream open, as in the SDK."""
_JSON: Final = (b"content-type", b"application/json")
_STREAM: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True)
class PostContext:
    """A call's context for the session, like the SDK's `ServerRequestContext`."""

    method: str
    params: dict[str, Any]
    request_id: int | str
    session: PostSession


class PostSession:
    """The way back to the client during its POST, like the SDK's `ServerSession`."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = asyncio.Lock()
        self._streams = self._over = False

    async def send_notification(self, notification: Any, related_request_id: object = None) -> None:
        """Send the notification on the stream of this request, the only stream."""
        if related_request_id is None:
            return
        told = {"jsonrpc": "2.0", "method": notification.method}
        if notification.params is not None:
            told["params"] = notification.params
        await self._event(told)

    async def send_request(self, request: Any, *_: object, **__: object) -> Any:
        """Raise: a stateless client cannot be asked."""
        raise NoBackChannelError(request.asked)

    async def ping(self) -> None:
        """Keep the stream open."""
        await self._part(b": ping\r\n\r\n")

    async def end(self, message: dict[str, Any], status: int) -> None:
        """Send the answer, as JSON or as the last event."""
        async with self._lock:
            self._over = True
            if self._streams:
                await self._send({"type": "http.response.body", "body": _framed(message), "more_body": False})
                return
            body = answer_line(message)[:-1]
            headers = [_JSON, (b"content-length", str(len(body)).encode("ascii"))]
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def _event(self, message: dict[str, Any]) -> None:
        await self._part(_framed(message))

    async def _part(self, part: bytes) -> None:
        async with self._lock:
            if self._over:
                return
            if not self._streams:
                self._streams = True
                await self._send({"type": "http.response.start", "status": 200, "headers": _STREAM})
            await self._send({"type": "http.response.body", "body": part, "more_body": True})


class _Pings:
    """Keeps the stream of a long call open."""

    __slots__ = ("_loop", "_session", "_timer", "_under_way")

    def __init__(self, loop: asyncio.AbstractEventLoop, session: PostSession) -> None:
        self._loop, self._session = loop, session
        self._under_way: asyncio.Future[None] | None = None
        self._timer = loop.call_later(PING_S, self._ping)

    def _ping(self) -> None:
        self._timer = self._loop.call_later(PING_S, self._ping)
        if self._under_way is None or self._under_way.done():  # otherwise the client does not read
            self._under_way = asyncio.ensure_future(self._session.ping())

    def stop(self) -> None:
        """Start no further ping."""
        self._timer.cancel()

    def drop(self) -> None:
        """Cancel the ping in progress."""
        if self._under_way is not None:
            self._under_way.cancel()


@dataclass(frozen=True, slots=True)
class Head:
    """The headers of a request, read once, in the form of Starlette's `Request` for the SDK's checks."""

    lines: list[tuple[str, str]]
    headers: dict[str, str]
    """By lower-case name; the first of several equal names."""

    @classmethod
    def of(cls, raw: Iterable[tuple[bytes, bytes]]) -> Head:
        lines = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]
        return cls(lines, dict(reversed(lines)))


class HttpLane:
    """An ASGI application in front of the SDK's. `stateless`: returns the session shared by all stateless clients."""

    def __init__(self, app: App, path: str, stateless: Callable[[], ClientSession]) -> None:
        self._app, self._path, self._stateless = app, path, stateless

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = self._may_be_ours(scope)
        if head is None:  # another method or path, a large body, or no tool call by its headers
            await self._app(scope, receive, send)
            return
        first = await receive()
        body = b"" if first.get("more_body") else first.get("body", b"")
        found = self._call_in(head, body) if body else None
        if found is None:  # the SDK has to check the request; pass on the part already received
            await self._app(scope, _again(first, receive), send)
        else:
            await self._answer(*found, receive, send)

    def _may_be_ours(self, scope: Scope) -> Head | None:
        """Return the headers of a possible tool call, else None."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != self._path:
            return None
        head = Head.of(scope["headers"])
        length = head.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or len(length) > 8 or int(length) > BODY_MAX_BYTES:
            return None
        return head if head.headers.get("mcp-method") == CALL else None

    def _call_in(self, head: Head, body: bytes) -> tuple[int | str, dict[str, Any]] | None:
        """Return a call accepted by the SDK's checks; None for a request to be checked by the SDK itself."""
        request: Any = head
        if not head.headers.get("content-type", "").lower().startswith("application/json"):
            return None
        message = plain_json(body) if all(check_accept_headers(request)) else None
        if message is None or message.get("method") != CALL:
            return None
        request_id, params = message.get("id"), message.get("params")
        if not isinstance(request_id, int | str) or isinstance(request_id, bool) or not isinstance(params, dict):
            return None
        if find_duplicated_routing_header(head.lines) is not None:
            return None
        if not isinstance(classify_inbound_request(message, headers=head.headers), InboundModernRoute):
            return None
        name = params.get("name")
        if not isinstance(name, str) or self._stateless().header_schema(name) is not None:
            return None
        return request_id, params

    async def _answer(self, request_id: int | str, params: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer the call. A disconnected client cancels the call."""
        session = PostSession(send)
        context: Any = PostContext(CALL, params, request_id, session)
        loop, answering = asyncio.get_running_loop(), asyncio.current_task()
        assert answering is not None
        left = over = False
        pings = _Pings(loop, session)

        def leave(gone: asyncio.Future[None]) -> None:
            nonlocal left
            if not over and not gone.cancelled():
                left = True
                gone.exception()  # retrieve any error: the client is gone
                answering.cancel()

        gone = asyncio.ensure_future(_gone(receive))
        gone.add_done_callback(leave)
        try:
            try:
                told = await _message(request_id, self._stateless().answer(context))
            finally:
                over = True
                gone.cancel()
                pings.stop()
            await session.end(*told)
        except asyncio.CancelledError:
            # Cancelled by the client's disconnect: end quietly. Any other cancellation continues.
            if not left or answering.uncancel():
                raise
        finally:
            pings.drop()


async def _message(request_id: int | str, answer: Awaitable[dict[str, Any]]) -> tuple[dict[str, Any], int]:
    """Return the answer to a call, and its HTTP status."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
    try:
        message["result"] = await answer
    except Exception as error:  # tidy: boundary -- converted like in the SDK, and logged there
        told = modern_error_data(error)
        message["error"] = told.model_dump(exclude_none=True)
        return message, ERROR_CODE_HTTP_STATUS.get(told.code, 200)
    return message, 200


def _framed(message: dict[str, Any]) -> bytes:
    return b"event: message\r\ndata: " + answer_line(message)[:-1] + b"\r\n\r\n"


def _again(first: MutableMapping[str, Any], receive: Receive) -> Receive:
    """Replay the first received part, then receive the rest."""
    held = [first]

    async def replayed() -> MutableMapping[str, Any]:
        return held.pop() if held else await receive()

    return replayed


async def _gone(receive: Receive) -> None:
    while (await receive()).get("type") != "http.disconnect":
        pass
