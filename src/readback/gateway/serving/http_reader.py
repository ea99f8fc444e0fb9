"""Choose the HTTP parser: llhttp by httptools if installed, else h11.

h11 spends more Python steps on one request than the gateway on a forwarded call. h11 limits the size of a request's
head; llhttp has no limit, so this module adds one. Neither limits the time of a request, so this module limits head and
body. Without limits, a client with many unfinished requests would hold a descriptor and memory for each.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11

HEAD_MAX_BYTES: Final = 65_536
"""Largest request without its body, like h11 under uvicorn. Bytes of the same read do not count."""
HEAD_S: Final = 15.0
"""Time limit for a request's head from its first byte, and for the first request of a new connection."""
BODY_S: Final = 120.0
"""Time limit for a request's body from the end of its head."""
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
    """Closes connections with an overdue request. In front of one of uvicorn's protocols."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _half: str | None = None
    """The unfinished part of the request."""
    _timed: str | None = None
    """The part watched by the timer."""
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
        """Rejects an endless head, trailer or chunk header."""

        _beside = 0
        """Bytes since the last body data or the end of a request."""

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
        """Asks h11 after each read for the unfinished part of the request."""

        def handle_events(self) -> None:
            super().handle_events()
            state = self.conn.their_state
            if state is h11.SEND_BODY:
                self._half = BODY
            else:
                self._half = HEAD if state is h11.IDLE and self.conn.trailing_data[0] else None

    return Bounded
