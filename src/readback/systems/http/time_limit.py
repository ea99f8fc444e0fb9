"""One limit of time for a whole answer, whatever its pieces take.

Used by the HTTP source alone. httpx limits each reading of a socket by itself: whoever sends a byte now and then would
keep a reader, and the thread that it is called in, for as long as he likes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from socket import SHUT_RDWR, socket
from typing import Any, Final

_CONNECTED: Final = frozenset({"connection.connect_tcp.complete", "connection.start_tls.complete"})


class Limit:
    """Ends a connection when its time is over, whatever it is waiting for; `late` says so."""

    def __init__(self, seconds: float) -> None:
        self.late = False
        self._lock = threading.Lock()
        self._socket: socket | None = None
        self._watch = threading.Timer(seconds, self._end)
        self._watch.daemon = True

    def __enter__(self) -> Limit:
        """Raises OSError where nobody could watch over it."""
        try:
            self._watch.start()
        except RuntimeError as error:
            raise OSError("the system gives no more threads") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.cancel()
        self._watch.join()

    def heard(self, event: str, info: Mapping[str, Any]) -> None:
        """Told by httpx what its connection does."""
        if event in _CONNECTED:
            self.over(info["return_value"])

    def over(self, stream: Any) -> None:
        """The connection over which the answer comes: of one that was kept, httpx tells with the answer's head."""
        with self._lock:
            self._socket = stream.get_extra_info("socket")
            if self.late:
                self._shut()

    def _end(self) -> None:
        with self._lock:
            self.late = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                socket.shutdown(self._socket, SHUT_RDWR)  # past TLS's own farewell, which would wait for the other side
