"""What reads the requests of clients over HTTP: llhttp by httptools, where that is installed; else h11.

h11 takes more of Python's steps for one request than the whole way of a call that is passed on. h11 bounds the head of
a request, and llhttp bounds nothing: the bound for llhttp is here. Neither bounds the time that a client may take to
send a request: both bounds of time are here. A client that opens connections and never ends a request would else hold
a descriptor and memory for each of them, without an end.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11

HEAD_MAX_BYTES: Final = 65_536
"""Of a request, beside its body: as h11 under uvicorn. What came in the same read is not held against it."""
HEAD_S: Final = 15.0
"""The time for the head of a request, from its first byte. A new connection has the same time for its first request."""
BODY_S: Final = 120.0
"""The time for the body of a request, from the end of its head."""
_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

HEAD: Final = "head"
BODY: Final = "body"
_LIMIT_S: Final = {HEAD: HEAD_S, BODY: BODY_S}


def http_reader() -> type[asyncio.Protocol]:
    """Return the protocol class for uvicorn's `http` setting."""
    try:
        import httptools  # noqa: F401
    except ImportError:
        return _by_h11()
    return _by_httptools()


class _Timed(asyncio.Protocol):
    """Ends connections whose request is not whole in time. In front of one of uvicorn's protocols."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _half: str | None = None
    """The part of a request that has begun and has not ended."""
    _timed: str | None = None
    """The part that the timer is for."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._half = HEAD
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._half = None
        self._watch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        half = self._half
        if half is self._timed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timed = half
        if half is not None:
            self._timer = self.loop.call_later(_LIMIT_S[half], self._late)

    def _late(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            if self._half is HEAD:  # in the body, the application may have begun an answer
                self.transport.write(_LATE)
            self.transport.close()


def _by_httptools() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Bounded(_Timed, HttpToolsProtocol):
        """Refuses what never comes to an end beside its body: a head, trailers, what is said of a chunk."""

        _beside = 0
        """Bytes since there was something of a body, or the end of a request."""

        def data_received(self, data: bytes) -> None:
            self._beside += len(data)
            super().data_received(data)
            if self._beside > HEAD_MAX_BYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too large.")

        def on_message_begin(self) -> None:
            self._half = HEAD
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._half = BODY
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._beside = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._beside = 0
            self._half = None
            super().on_message_complete()

    return Bounded


def _by_h11() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Bounded(_Timed, H11Protocol):
        """Asks h11, after each read, which part of a request has begun."""

        def handle_events(self) -> None:
            super().handle_events()
            state = self.conn.their_state
            if state is h11.SEND_BODY:
                self._half = BODY
            else:
                self._half = HEAD if state is h11.IDLE and self.conn.trailing_data[0] else None

    return Bounded
