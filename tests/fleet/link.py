"""The line between one machine and the database: a socket of its own, that can be cut, slowed down and left silent.

It forwards bytes and reads one thing in them: which of the server's processes it leads to.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

from readback.testing.postgres_server import PRIMARY

PIECE_BYTES = 65_536
KEY_DATA = b"K\x00\x00\x00\x0c"
"""What BackendKeyData begins with, after which the server's process tells its number."""
NAME = f".s.PGSQL.{PRIMARY}"


class Link:
    """Listens in `folder` as the server does in `home`. Everything it does until `close` is on threads of its own."""

    def __init__(self, home: Path, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        self.home = folder
        self._server = str(home / NAME)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._delay_s = 0.0
        self._flowing = threading.Event()
        self._flowing.set()
        self.backends: set[int] = set()
        self.cuts = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / NAME))
        os.chmod(folder / NAME, 0o777)
        self._listener.listen(64)
        self._run(self._accept)

    # --- what is done to it ---

    def cut(self) -> None:
        """Every connection ends now; new ones are let through."""
        with self._lock:
            ends, self._open = self._open, set()
            self.cuts += len(ends) // 2
        _end(*ends)

    def slow(self, seconds: float) -> None:
        """From now on each piece takes so long on its way; 0 for none."""
        self._delay_s = seconds

    @property
    def is_slow(self) -> bool:
        return self._delay_s > 0

    def silence(self) -> None:
        """From now on nothing is forwarded, and nothing is closed, until `speak`."""
        self._flowing.clear()

    def speak(self) -> None:
        """What was held goes on."""
        self._flowing.set()

    def close(self) -> None:
        self.speak()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)
        (self.home / NAME).unlink(missing_ok=True)

    # --- forwarding ---

    def _run(self, target: object, *given: object) -> None:
        thread = threading.Thread(target=target, args=given, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server)
            except OSError:
                client.close()
                server.close()
                continue
            with self._lock:
                self._open |= {client, server}
            self._run(self._forward, client, server, False)
            self._run(self._forward, server, client, True)

    def _forward(self, source: socket.socket, sink: socket.socket, from_server: bool) -> None:
        backend = 0
        try:
            while piece := source.recv(PIECE_BYTES):
                if from_server and not backend and KEY_DATA in piece:
                    (backend,) = struct.unpack_from("!i", piece, piece.index(KEY_DATA) + len(KEY_DATA))
                    self.backends.add(backend)
                if self._delay_s:
                    time.sleep(self._delay_s)
                self._flowing.wait()
                sink.sendall(piece)
        except OSError:
            pass  # one of the two has gone, and so the other goes
        self.backends.discard(backend)
        _end(source, sink)
        with self._lock:
            self._open -= {source, sink}
        if from_server:
            source.close()
            sink.close()


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
