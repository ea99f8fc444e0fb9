"""Stands between a client and a PostgreSQL server on unix sockets, and cuts the connection where a test wants it."""

from __future__ import annotations

import select
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from readback.testing.postgres_server import PRIMARY

PIECE_BYTES = 65_536


class Proxy:
    """`cut_before`: the connection ends instead of the client's piece that holds these bytes; `cut_after`: the piece is
    sent on, and the server's answer to it is swallowed. Each cuts once. `meanwhile` is run before the client is told.
    """

    def __init__(self, home: Path) -> None:
        self._server = str(home / f".s.PGSQL.{PRIMARY}")
        self._folder = tempfile.TemporaryDirectory(prefix="readback-proxy-")
        self.home = Path(self._folder.name)
        self.home.chmod(0o755)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.home / f".s.PGSQL.{PRIMARY}"))
        self._listener.listen(16)
        self.cut_before = b""
        self.cut_after = b""
        self.meanwhile: Callable[[], object] = lambda: None
        self.cuts = 0
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
        self._folder.cleanup()

    def _run(self, target: Callable[..., None], *given: object) -> None:
        thread = threading.Thread(target=target, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._run(self._carry, client)

    def _carry(self, client: socket.socket) -> None:
        """One connection, until either side or the test ends it."""
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(self._server)
            swallowing = False
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for end in ready:
                    piece = end.recv(PIECE_BYTES)
                    if not piece:
                        return
                    if end is server and swallowing:
                        self.cuts += 1
                        self.meanwhile()
                        return
                    if end is client and self.cut_before and self.cut_before in piece:
                        self.cut_before = b""
                        self.cuts += 1
                        return
                    if end is client and self.cut_after and self.cut_after in piece:
                        self.cut_after, swallowing = b"", True
                    (server if end is client else client).sendall(piece)
