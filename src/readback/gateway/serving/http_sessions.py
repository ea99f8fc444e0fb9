"""The sessions of clients of the handshake era over HTTP: how many there are, how long they idle, what they can resume.

The SDK's session manager does the sessions. A client whose connection breaks in the middle of an answer comes again
with the id of the last event that it got (`Last-Event-ID`), and is sent the events that followed. Source: Model Context
Protocol, streamable HTTP transport, "Resumability and Redelivery".
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

from readback.agent_errors import TooManySessionsError
from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.gateway.policy.results import size_of
from readback.gateway.serving.http_fast_path import App, Receive, Scope, Send
from readback.gateway.serving.http_guard import refuse
from readback.gateway.wire.jsonl import MESSAGE_MAX_BYTES

SESSIONS_MAX: Final = 256
"""Sessions that are open at the same time."""
SESSION_IDLE_S: Final = 1_800.0
"""A session without any request in flight, an open stream included, ends after so long."""
RETRY_MS: Final = 1_000
"""The pause before a client comes again, which each stream of events names at its beginning."""
EVENTS_MAX: Final = 1_024
EVENTS_MAX_BYTES: Final = 4 << 20
"""Of one session; the oldest events are dropped first, and an event that is larger by itself is not kept."""
SESSION: Final = b"mcp-session-id"
FAILED: Final = "readback.failed"
"""In the scope of a request that opens a session: the session could not begin."""
NOT_FOUND: Final = 404
UNAVAILABLE: Final = 503
_HANDSHAKE: Final = frozenset(each.encode("ascii") for each in HANDSHAKE_PROTOCOL_VERSIONS)


@dataclass(frozen=True, slots=True)
class _Event:
    stream: str
    message: JSONRPCMessage | None
    """None for the event that begins a stream."""
    size: int


class RecentEvents(EventStore):
    """One session's events of late, in their order."""

    def __init__(self) -> None:
        self._events: OrderedDict[str, _Event] = OrderedDict()
        self._bytes = 0
        self._numbers = itertools.count(1)

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep an event, and return its id."""
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
        """Send what followed an event on its stream, and return the stream. None where the event is not kept."""
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
    """About as many bytes as the message takes."""
    if isinstance(message, JSONRPCResponse):
        return size_of(message.result)
    if isinstance(message, JSONRPCError):
        return size_of([message.error.message, message.error.data])
    return size_of(message.params)


class _Manager(StreamableHTTPSessionManager):
    """The SDK's, with events for each session alone: the SDK tells streams apart by the clients' request ids, which
    two clients number alike.
    """

    @property
    def event_store(self) -> EventStore:
        """A new store: the manager asks once for each session."""
        return RecentEvents()

    @event_store.setter
    def event_store(self, given: object) -> None:
        """The manager sets none."""


class HttpSessions:
    """An ASGI application: the SDK's session manager at one path. `run` holds its sessions open.

    `crowded`: why no session can be opened now, though there is room for one more.
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
        self._app: App = self._manager.asgi_app
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
        """A request for a new session. Where there are too many, the manager says so without a code."""
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
        """Ends a session as its client would: one that never began would else stay until it has idled long enough."""

        async def nothing() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def nobody(_: Any) -> None:
            return

        headers = [(name, value) for name, value in scope["headers"] if name == b"host"]
        await self._app({**scope, "method": "DELETE", "headers": [*headers, (SESSION, session)]}, nothing, nobody)


def _opens_a_session(scope: Scope) -> bool:
    """Whether the manager would open a session for it: of the handshake era, and of no session yet."""
    names = dict(scope["headers"])
    version = names.get(b"mcp-protocol-version")
    return SESSION not in names and (version is None or version in _HANDSHAKE)
