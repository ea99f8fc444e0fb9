"""One live connection to a server: transport, dispatcher and greeting.

A closed connection stays closed; a new one replaces it. Notifications of the server are delivered in order, and before
any later answer.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self

import anyio
from mcp.shared._stream_protocols import ReadStream
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED

from readback.canon.fault import ReadbackError
from readback.errors import NotDispatchedError
from readback.gateway.upstream.handshake import ClientInfo, ServerInfo, enveloped, greet
from readback.gateway.wire.cancellation import CANCELLED, CancellingStream
from readback.gateway.wire.http_client import NotOursError, Posts
from readback.gateway.wire.jsonl import NO_JSON, is_json
from readback.gateway.wire.line_dispatch import AS_TEXT, LineDispatcher
from readback.gateway.wire.text_marks import HttpStreams, unmarked, written_out

log = logging.getLogger(__name__)

CLOSE_S: Final = 8.0
SETTLE_S: Final = 1.0
"""How long an answer waits for the delivery of earlier notifications to a slow receiver."""
PROGRESS: Final = "notifications/progress"
NOTICES_MAX: Final = 10_000
"""Most undelivered notifications. Beyond, the newest are dropped: progress and logs are best effort."""

UNTOLD: Final = (MCPError, ReadbackError, OSError, ValueError, anyio.BrokenResourceError, anyio.ClosedResourceError)
"""Errors of a single failed delivery. The next delivery may succeed."""

OnProgress = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Receives a raw progress report. The token belongs to the delivering connection only."""

Dispatching = JSONRPCDispatcher[TransportContext] | LineDispatcher
"""Matches answers to requests."""


class UnsentError(MCPError):
    """Nothing was written to the server."""


class Peer(Protocol):
    """The receiver of a server's own requests and notifications."""

    async def asked(
        self, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        """Answer a server's request. Raises MCPError."""
        ...

    async def told(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Handle a notification."""
        ...


class Connection:
    """A greeted connection. Create one with `open`."""

    greeting: ServerInfo

    def __init__(self, streams: Callable[[], AbstractAsyncContextManager[Any]], hello: ClientInfo, peer: Peer) -> None:
        self._streams = streams
        self.hello = hello
        self.peer = peer
        self.log_level: str | None = None
        """The log level wanted from a stateless server by a handshake-era client."""
        self.in_flight = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self.ended = asyncio.Event()
        self._dispatcher: Dispatching | None = None
        self._by_lines = False
        self._marks = False
        """Whether the SDK reads and writes the messages, so that their texts need marks."""
        self.posts: Posts | None = None
        """Sends tool calls to a stateless server over plain HTTP, if possible."""
        self._tokens = itertools.count(1)
        self._progress: dict[str, OnProgress] = {}
        self._notices: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._noticed = 0
        self._delivered = 0
        self._delivery = asyncio.Condition()
        self._introduced = False
        self.fault: BaseException | None = None

    @classmethod
    async def open(
        cls,
        streams: Callable[[], AbstractAsyncContextManager[Any]],
        hello: ClientInfo,
        peer: Peer,
        *,
        modern: bool | None = None,
    ) -> Connection:
        """Start the transport and greet the server. Raises OSError, ValueError, MCPError, after closing the
        transport.
        """
        connection = cls(streams, hello, peer)
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        connection._task = asyncio.create_task(connection._live(started))
        try:
            await started
            connection.greeting = await greet(connection._handshake, hello, modern=modern)
        except BaseException:
            await connection.close()
            raise
        return connection

    _task: asyncio.Task[None]

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, for any reason."""
        return self.ended.is_set() or self._dispatcher is None

    @property
    def unintroduced(self) -> bool:
        """Whether a handshake-era server still waits for the notification "initialized"."""
        return not self._introduced and not self.greeting.modern

    async def introduced(self) -> None:
        """Send "initialized" to a handshake-era server, once."""
        if self.unintroduced:
            self._introduced = True
            await self.notify("notifications/initialized", None)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        timeout_s: float,
        on_progress: OnProgress | None = None,
        header_map: Mapping[tuple[str, ...], str] | None = None,
        request_id: str | None = None,
    ) -> dict[str, Any]:
        """Return the raw result. Raises UnsentError, MCPError."""
        outgoing = dict(params or {})
        meta = enveloped(outgoing.get("_meta") or {}, self.hello, self.greeting, self.log_level)
        meta.pop("progressToken", None)
        token = None
        if on_progress is not None:
            token = f"rb-{next(self._tokens)}"
            meta["progressToken"] = token
            self._progress[token] = on_progress
        if meta:
            outgoing["_meta"] = meta
        else:
            outgoing.pop("_meta", None)
        options: CallOptions = {"timeout": timeout_s}
        if not self._by_lines:
            options["headers"] = _headers(self.greeting, method, outgoing, header_map)
        if request_id is not None:
            options["request_id"] = request_id
        try:
            return await self._send(method, outgoing, options)
        finally:
            if token is not None:
                self._progress.pop(token, None)

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification. It is lost if the server is gone."""
        if self._dispatcher is not None:
            version = {MCP_PROTOCOL_VERSION_HEADER: self.greeting.version}
            await self._dispatcher.notify(method, params, {"headers": version})

    async def close(self) -> None:
        """Close the connection and its process, in bounded time."""
        self.ended.set()
        if self.posts is not None:
            self.posts.close()
        try:
            await asyncio.wait({self._task}, timeout=CLOSE_S)
        finally:
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=CLOSE_S)

    async def _send(self, method: str, params: Mapping[str, Any], options: CallOptions) -> dict[str, Any]:
        dispatcher = self._dispatcher
        if self.closed or dispatcher is None:
            raise UnsentError(code=CONNECTION_CLOSED, message="Connection closed")
        self.in_flight += 1
        self.idle.clear()
        try:
            if self.posts is not None and method == "tools/call" and self.greeting.modern:
                with suppress(NotOursError):
                    headers, timeout_s = options.get("headers") or {}, options.get("timeout")
                    return await self.posts.call(params, headers, timeout_s, self._on_notice)
            if self._by_lines:
                return await dispatcher.send_raw_request(method, params, options)
            assert not isinstance(dispatcher, LineDispatcher)
            return await _exactly(dispatcher, method, params, options, marks=self._marks)
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self.idle.set()
            if self._delivered < self._noticed:
                await self._settle()

    async def _handshake(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, version: str | None
    ) -> dict[str, Any]:
        options: CallOptions = {"timeout": timeout_s, "cancel_on_abandon": False}
        if version is not None:
            options["headers"] = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        return await self._send(method, params, options)

    async def _live(self, started: asyncio.Future[None]) -> None:
        """Hold the transport open from start to end in one task, as required by its cancel scopes."""
        try:
            async with self._streams() as wire, anyio.create_task_group() as tasks:
                self._dispatcher = dispatcher = self._over(wire)
                await tasks.start(self._listen, dispatcher)
                tasks.start_soon(self._deliver)
                started.set_result(None)
                await self.ended.wait()
                tasks.cancel_scope.cancel()
        except BaseException as error:
            self.fault = error
            if not started.done():
                started.set_exception(_first(error))
            elif not isinstance(error, Exception):
                raise
            else:
                log.debug("connection ended", exc_info=error)
        finally:
            self.ended.set()

    def _over(self, wire: Any) -> Dispatching:
        self._by_lines = isinstance(wire, LineDispatcher)
        self._marks = isinstance(wire, HttpStreams)
        if isinstance(wire, LineDispatcher):
            wire.on_end = self.ended.set
            return wire
        read, write = wire
        return JSONRPCDispatcher(_Watched(read, self.ended), CancellingStream(write))

    async def _listen(
        self,
        dispatcher: Dispatching,
        *,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        try:
            await dispatcher.run(self._on_request, self._on_notify, self._on_notice, task_status=task_status)
        finally:
            self.ended.set()

    async def _on_request(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        if method == "ping":
            return {}
        meta = (params or {}).get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None

        async def report(found: Mapping[str, Any]) -> None:
            await context.notify(PROGRESS, {**found, "progressToken": token})

        if not self._marks:
            return await self.peer.asked(method, params, None if token is None else report)
        known = None if params is None else unmarked(params)
        return written_out(await self.peer.asked(method, known, None if token is None else report))

    async def _on_notify(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> None:
        """Never called: `_on_notice` receives all notifications in order."""

    def _on_notice(self, method: str, params: Mapping[str, Any] | None) -> bool:
        if self._noticed - self._delivered >= NOTICES_MAX or method == CANCELLED:
            return True  # the dispatcher has already applied a cancellation
        if not (self._by_lines or is_json(params)):
            log.debug("dropped %s, which %s", method, NO_JSON)
            return True
        if method == PROGRESS:
            token = (params or {}).get("progressToken")
            on_progress = self._progress.get(token) if isinstance(token, str) else None
            if on_progress is None:
                return True
            deliver = _bind(on_progress, params)
        else:
            deliver = _bind(self.peer.told, method, params)
        self._noticed += 1
        self._notices.put_nowait(deliver)
        return True

    async def _deliver(self) -> None:
        while True:
            deliver = await self._notices.get()
            try:
                await deliver()
            except UNTOLD:
                log.warning("A notification could not be handed on.", exc_info=True)
            async with self._delivery:
                self._delivered += 1
                self._delivery.notify_all()

    async def _settle(self) -> None:
        """Wait for the delivery of all earlier notifications."""
        known = self._noticed
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S), self._delivery:
                await self._delivery.wait_for(lambda: self._delivered >= known or self.closed)


class _Watched:
    """A transport's messages. Reports their end before any waiting request can notice the end."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], ended: asyncio.Event) -> None:
        self._stream, self._ended = stream, ended

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context of the last message, if reported by the transport."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self._stream.receive()
        except BaseException:  # the stream's end, or the reader's cancellation: no further read follows
            self._ended.set()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _exactly(
    dispatcher: JSONRPCDispatcher[TransportContext],
    method: str,
    params: Mapping[str, Any],
    options: CallOptions,
    *,
    marks: bool,
) -> dict[str, Any]:
    """Check a result read by the SDK. The SDK writes null for a number outside JSON, and neither may replace
    the value.
    """
    if not is_json(params):
        raise NotDispatchedError(f"Nothing was sent: the request {NO_JSON}.", remedy=AS_TEXT)
    result = await dispatcher.send_raw_request(method, written_out(params) if marks else params, options)
    result = unmarked(result) if marks else result
    if not is_json(result):
        raise MCPError(code=CONNECTION_CLOSED, message=f"The answer {NO_JSON}.")
    return result


def _bind(function: Callable[..., Awaitable[None]], *args: Any) -> Callable[[], Awaitable[None]]:
    return lambda: function(*args)


def _headers(
    greeting: ServerInfo, method: str, params: Mapping[str, Any], header_map: Mapping[tuple[str, ...], str] | None
) -> dict[str, str]:
    """Return the HTTP headers of a request, as set by the SDK's own client."""
    headers = {MCP_PROTOCOL_VERSION_HEADER: greeting.version}
    if greeting.modern:
        headers[MCP_METHOD_HEADER] = method
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        if header_map:
            headers.update(mcp_param_headers(header_map, params.get("arguments") or {}))
    return headers


def _first(error: BaseException) -> BaseException:
    """Unwrap nested groups of a single error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
