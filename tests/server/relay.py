"""A relay in front of a PostgreSQL server: while `passes` is clear, the network is silent and no connection breaks."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

SOCKET = ".s.PGSQL.5432"
CHUNK = 65_536


class Relay:
    """Passes bytes between a socket in `folder` and the server's socket in `home`."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.passes = threading.Event()
        self.passes.set()
        self._home = home
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET))
        self._listener.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.passes.set()
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self._home / SOCKET))
                self._open += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                self.passes.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
