"""HTTP requests of anchors: no redirect, no proxy, a bounded body, and one time limit for the whole answer.

The HTTP anchors share this client, since anchors neither act nor verify. httpx limits each read of a socket by itself.
A server sending a byte now and then would otherwise delay all other anchors and the comparison.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from socket import SHUT_RDWR, socket
from typing import TYPE_CHECKING, Any, Final

from readback.errors import AnchorError, AnchorRefusedError

if TYPE_CHECKING:
    import httpx

STEP_SECONDS: Final = 5.0
"""Seconds for each step: connect, send, wait for more."""
WHOLE_SECONDS: Final = 10.0
"""Seconds for the whole request."""
_CONNECTED: Final = frozenset({"connection.connect_tcp.complete", "connection.start_tls.complete"})

Answer = tuple[int, bytes, Mapping[str, str]]
"""Status, body and headers."""


def ask(who: str, method: str, url: str, body: bytes | None, headers: Mapping[str, str], bytes_max: int) -> Answer:
    """Return the answer. Raises AnchorError for a late answer, AnchorRefusedError for a long answer.

    `who`: the anchor, at the start of messages.
    """
    import httpx

    limit, step = _Limit(), httpx.Timeout(STEP_SECONDS)
    headers = {"Accept-Encoding": "identity", **headers}  # the stored size is the sent size
    try:
        with (
            limit,
            httpx.Client(timeout=step, follow_redirects=False, trust_env=False) as client,
            client.stream(method, url, content=body, headers=headers, extensions={"trace": limit.heard}) as answer,
        ):
            found = _bounded(answer, who, bytes_max)
            status, said = answer.status_code, answer.headers
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        if limit.late:
            raise _late(who) from error
        raise AnchorError(f"{who} cannot be reached: {type(error).__name__}.") from error
    if limit.late:
        raise _late(who)  # a cut answer may parse like a whole answer
    return status, found, said


def _bounded(answer: httpx.Response, who: str, bytes_max: int) -> bytes:
    found = bytearray()
    for piece in answer.iter_bytes():
        found += piece
        if len(found) > bytes_max:
            raise AnchorRefusedError(f"{who} answered with over {bytes_max} bytes.")
    return bytes(found)


def _late(who: str) -> AnchorError:
    return AnchorError(f"{who} took over {WHOLE_SECONDS:g} seconds to answer.")


class _Limit:
    """Close a connection at the end of the time limit, in every state of the connection."""

    def __init__(self) -> None:
        self.late = False
        self._lock = threading.Lock()
        self._socket: socket | None = None
        self._watch = threading.Timer(WHOLE_SECONDS, self._end)
        self._watch.daemon = True

    def __enter__(self) -> None:
        try:
            self._watch.start()
        except RuntimeError as error:
            raise OSError("the system starts no more threads") from error

    def __exit__(self, *_: object) -> None:
        self._watch.cancel()
        self._watch.join()

    def heard(self, event: str, info: Mapping[str, Any]) -> None:
        """Receive httpx's trace events of the connection."""
        if event in _CONNECTED:
            with self._lock:
                self._socket = info["return_value"].get_extra_info("socket")
                if self.late:
                    self._shut()

    def _end(self) -> None:
        with self._lock:
            self.late = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                socket.shutdown(self._socket, SHUT_RDWR)  # skip TLS's goodbye: TLS would wait for the peer
