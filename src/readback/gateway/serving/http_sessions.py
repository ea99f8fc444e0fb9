"""Handshake-era HTTP sessions: their number, idle time and resumable events.

The SDK's session manager runs the sessions. A client with a broken connection returns with the id of its last event
(`Last-Event-ID`) and receives the following events. Source: Model Context Protocol, streamable HTTP transport,
"Resumability and Redelivery".
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Receive, Scope, Send

from readback.agent_errors import TooManySessionsError
from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.gateway.policy.results import size_of
from readback.gateway.serving.http_guard import refuse
from readback.gateway.wire.jsonl import MESSAGE_MAX_BYTES

SESSIONS_MAX: Final = 256
"""Most open sessions."""
SESSION_IDLE_S: Final = 1_800.0
"""Idle time after which a session ends. An open stream counts as a request in flight."""
RETRY_MS: Final = 1_000
"""A client's pause before reconnecting, announced at the start of each event stream."""
EVENTS_MAX: Final = 1_024
EVENTS_MAX_BYTES: Final = 4 << 20
"""Largest total of one session's stored events.

The oldest are dropped first, and a larger single event is not stored.
"""
SESSION: Final = b"mcp-session-id"
FAILED: Final = "readback.failed"
"""Key in the scope of an opening request: the session could not start."""
NOT_FOUND: Final = 404
UNAVAILABLE: Final = 503
_HANDSHAKE: Final = frozenset(each.encode("ascii") for each in HANDSHAKE_PROTOCOL_VERSIONS)


@dataclass(frozen=True, slots=True)
class _Event:
    stream: str
    message: JSONRPCMessage | None
    """None for the first event of a stream."""
    size: int


class RecentEvents(EventStore):
    """The recent events of one session, in order."""

    def __init__(self) -> None:
        self._events: OrderedDict[str, _Event] = OrderedDict()
        self._bytes = 0
        self._numbers = itertools.count(1)

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Store an event, and return its id."""
        number = str(next(self._numbers))
        size = 0 if message is None else _size(message)
        if size <= EVENTS_MAX_BYTES:
            self._events[number] = _Event(stream_id, message, size)
            self._bytes += size
        while self._bytes > EVENTS_MAX_BYTES or len(self._events) > EVENTS_MAX:
            _, dropped = self._events.popitem(last=False)
            self._bytes -= dropped.size
        return number

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send the events after this one on its stream, and return the stream. None for a dropped event."""
        last = self._events.get(last_event_id)
        if last is None:
            return None
        after = itertools.islice(
            itertools.dropwhile(lambda each: each[0] != last_event_id, self._events.items()), 1, None
        )
        for number, event in [*after]:
            if event.stream == last.stream and event.message is not None:
                await send_callback(EventMessage(event.message, number))
        return last.stream


def _size(message: JSONRPCMessage) -> int:
    """Return the approximate size of the message in bytes."""
    if isinstance(message, JSONRPCResponse):
        return size_of(message.result)
    if isinstance(message, JSONRPCError):
        return size_of([message.error.message, message.error.data])
    return size_of(message.params)


class _Manager(StreamableHTTPSessionManager):
    """The SDK's session manager with one event store for each session.

    The SDK identifies streams by the clients' request ids, and two clients use equal ids.
    """

    @property
    def event_store(self) -> EventStore:
        """Return a new store. The manager asks once for each session."""
        return RecentEvents()

    @event_store.setter
    def event_store(self, given: object) -> None:
        """Ignore the manager's assignment."""


class HttpSessions:
    """An ASGI application: the SDK's session manager at one path. `run` keeps the sessions open.

    `crowded`: returns why no session can open now, despite a free place.
    """

    def __init__(
        self,
        server: Server[Any],
        path: str,
        *,
        sessions_max: int,
        idle_s: float,
        crowded: Callable[[], ReadbackError | None],
    ) -> None:
        self._path, self._max, self._crowded = path.rstrip("/"), sessions_max, crowded
        self._manager = _Manager(
            server,
            retry_interval=RETRY_MS,
            session_idle_timeout=idle_s,
            max_request_body_size=MESSAGE_MAX_BYTES,
            max_sessions=sessions_max,
        )
        self._app: ASGIApp = self._manager.asgi_app
        self.run = self._manager.run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"].rstrip("/") != self._path:
            await send({"type": "http.response.start", "status": NOT_FOUND, "headers": []})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif _opens_a_session(scope):
            await self._opened(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _opened(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a new session. The manager alone would reject too many sessions without an error code."""
        if (crowded := self._crowded()) is not None:  # else a session would stay that can do nothing
            await refuse(send, UNAVAILABLE, crowded)
            return
        refused, session = False, b""

        async def answered(message: Any) -> None:
            nonlocal refused, session
            if message["type"] == "http.response.start":
                session = dict(message.get("headers", ())).get(SESSION, b"")
                if message["status"] == UNAVAILABLE:
                    refused = True
                    said = f"{self._max} sessions are open, which is as many as the gateway takes."
                    await refuse(send, UNAVAILABLE, TooManySessionsError(said))
                    return
            if not refused:
                await send(message)

        await self._app(scope, receive, answered)
        if session and scope.get(FAILED):
            await self._end(scope, session)

    async def _end(self, scope: Scope, session: bytes) -> None:
        """End a session like its client. A session never started would otherwise stay for the idle time."""

        async def nothing() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def discard(_: Any) -> None:
            return

        headers = [(name, value) for name, value in scope["headers"] if name == b"host"]
        await self._app({**scope, "method": "DELETE", "headers": [*headers, (SESSION, session)]}, nothing, discard)


def _opens_a_session(scope: Scope) -> bool:
    """Return whether the request opens a session: handshake era, without a session id."""
    names = dict(scope["headers"])
    version = names.get(b"mcp-protocol-version")
    return SESSION not in names and (version is None or version in _HANDSHAKE)
