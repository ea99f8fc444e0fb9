"""What reads the requests of clients over HTTP: llhttp by httptools, where that is installed; else h11.

h11 takes more of Python's steps for one request than the whole way of a call that is passed on. It bounds the head of a
request, and llhttp bounds nothing: here is its bound.
"""

from __future__ import annotations

import asyncio
from typing import Final

HEAD_MAX_BYTES: Final = 65_536
"""Of a request, beside its body: as h11 under uvicorn. What came in the same read is not held against it."""


def http_reader() -> type[asyncio.Protocol] | str:
    """As uvicorn's `http` setting takes it."""
    try:
        import httptools  # noqa: F401
    except ImportError:
        return "h11"
    return _bounded()


def _bounded() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Bounded(HttpToolsProtocol):
        """Refuses what never comes to an end beside its body: a head, trailers, what is said of a chunk."""

        _beside = 0
        """Bytes since there was something of a body, or the end of a request."""

        def data_received(self, data: bytes) -> None:
            self._beside += len(data)
            super().data_received(data)
            if self._beside > HEAD_MAX_BYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too large.")

        def on_body(self, body: bytes) -> None:
            self._beside = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._beside = 0
            super().on_message_complete()

    return Bounded
