"""Several processes behind one address. The first process accepts connections and passes each to the next in turn.

A kernel could spread connections, but clients keep few connections for a long time, and chance would leave processes
idle. The first process runs no thread, opens no ledger and loads no contract, so a fork is safe at any time. A process
with an unexpected end is replaced. The other processes are equal, and the ledger keeps their work apart.
Source: unix(7), SCM_RIGHTS.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import selectors
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from readback.errors import SettingsError

LOG: Final = logging.getLogger("readback.server")
READY: Final = b"r"
CONNECTION: Final = b"c"
END_S: Final = 30.0
"""A process may take so long to end, in seconds. After this time every process left is killed."""
AGAIN_S: Final = 1.0
"""The successor of a process without success waits so long before the start, in seconds."""
STOPPING: Final = frozenset({signal.SIGINT, signal.SIGTERM})


def divide(listener: socket.socket, count: int, on_ready: Callable[[], None]) -> socket.socket | None:
    """Fork `count` processes, and hand out connections until SIGINT or SIGTERM.

    Args:
        listener: The listening socket.
        count: The number of processes besides the first one.
        on_ready: Called in the first process once, when every process is ready.

    Returns:
        In each forked process, the channel for `connection_of`. In the first process None, after every other has ended.

    Raises:
        SettingsError: this system cannot fork, or a process was killed before it was ready.
        SystemExit: a process ended before it was ready, with the same exit code. The process printed the reason.
    """
    if not hasattr(os, "fork"):
        raise SettingsError("This system cannot fork, so a server has one process.", remedy="Omit --processes.")
    with _signals() as woken:
        return _Divider(listener, count, on_ready, woken).run()


@contextlib.contextmanager
def _signals() -> Iterator[socket.socket]:
    """Yield a socket for the numbers of signals. In a forked process the block ends, too."""
    woken, wakes = socket.socketpair()
    for each in (woken, wakes):
        each.setblocking(False)
    before = {number: signal.signal(number, _noted) for number in (*STOPPING, signal.SIGCHLD)}
    woke = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    try:
        yield woken
    finally:
        signal.set_wakeup_fd(woke)
        for number, handler in before.items():
            signal.signal(number, handler)
        woken.close()
        wakes.close()


def _noted(_number: int, _frame: object) -> None:
    """Do nothing: the wake-up socket has the number."""


@dataclass(slots=True)
class _Child:
    """A forked process: the id, the first process's side of the channel, and whether the process is ready."""

    pid: int
    channel: socket.socket
    ready: bool = False


class _Divider:
    def __init__(self, listener: socket.socket, count: int, on_ready: Callable[[], None], woken: socket.socket) -> None:
        self._listener, self._count, self._on_ready, self._woken = listener, count, on_ready, woken
        self._children: deque[_Child] = deque()
        self._serves = self._listens = False
        self._selector = selectors.DefaultSelector()

    def run(self) -> socket.socket | None:
        """Return the channel in a forked process, and None at the end of the first."""
        self._listener.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        channel = self._fork()
        while channel is None:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is not self._woken:
                    channel = self._hear(key.data)
                elif STOPPING & (numbers := self._came()):
                    self._end()
                    return None
                elif signal.SIGCHLD in numbers:
                    channel = self._replace()
                if channel is not None:  # a new process: the other events belong to the first process
                    break
        return channel

    def _came(self) -> set[int]:
        """Return the numbers of the signals since the last look."""
        with contextlib.suppress(BlockingIOError):
            return set(self._woken.recv(4096))
        return set()

    def _fork(self, pause_s: float = 0.0) -> socket.socket | None:
        """Start a process. Return the channel in the new process, and None in the first."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            for each in self._children:
                each.channel.close()
            self._selector.close()
            self._listener.close()
            ours.close()
            for number in STOPPING:
                signal.signal(number, signal.SIG_DFL)
            select.select([], [], [], pause_s)
            theirs.setblocking(False)
            return theirs
        theirs.close()
        ours.setblocking(False)
        child = _Child(pid, ours)
        self._children.append(child)
        self._selector.register(ours, selectors.EVENT_READ, child)
        return None

    def _hear(self, child: _Child) -> socket.socket | None:
        """Note that a process is ready. The others start after the first one, so a fault is shown once."""
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            child.ready = bool(child.channel.recv(16))
        self._selector.unregister(child.channel)  # a process says one thing; its end comes as a signal
        if not child.ready:
            return None
        while len(self._children) < self._count:
            channel = self._fork()
            if channel is not None:
                return channel
        if not self._serves and all(each.ready for each in self._children):
            self._serves = True
            self._on_ready()
        if self._serves and not self._listens:
            self._listens = True
            self._selector.register(self._listener, selectors.EVENT_READ)
        return None

    def _replace(self) -> socket.socket | None:
        """Replace each ended process. Raises SystemExit or SettingsError before the server serves."""
        for child, code in self._ended():
            if not self._serves:
                self._end()
                if code >= 0:
                    raise SystemExit(code)
                raise SettingsError(
                    f"Signal {-code} ended a process of the server at its start.",
                    remedy="Look for the cause in the system's log, such as a lack of memory.",
                )
            LOG.error("a process of the server ended (exit code %d), and another takes its place", code)
            channel = self._fork(0.0 if child.ready else AGAIN_S)
            if channel is not None:
                return channel
        return None

    def _ended(self) -> list[tuple[_Child, int]]:
        """Return the processes ended since the last look, with the exit codes."""
        ended = []
        for child in [*self._children]:
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                self._children.remove(child)
                with contextlib.suppress(KeyError):
                    self._selector.unregister(child.channel)
                child.channel.close()
                ended.append((child, os.waitstatus_to_exitcode(status)))
        return ended

    def _accept(self) -> None:
        """Pass a connection to the next ready process. Without a ready process, clients wait."""
        if not any(each.ready for each in self._children):
            self._listens = False
            self._selector.unregister(self._listener)
            return
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the client is gone, or no descriptor is free: a client that waits is accepted later
            return
        with connection:
            for _ in range(len(self._children)):
                self._children.rotate(-1)
                with contextlib.suppress(OSError):  # its channel is full, or the process has ended
                    if self._children[0].ready:
                        socket.send_fds(self._children[0].channel, [CONNECTION], [connection.fileno()])
                        return

    def _end(self) -> None:
        """Let every process answer its requests in flight. After END_S the processes left are killed."""
        self._listener.close()
        for child in self._children:
            os.kill(child.pid, signal.SIGTERM)
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._woken, selectors.EVENT_READ)
            self._ended()
            while self._children and waiting.select(END_S):
                self._came()
                self._ended()
        for child in self._children:
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)


def connection_of(channel: socket.socket) -> socket.socket | None:
    """Return the next connection of a channel; None where none is there now. Raises EOFError at the end."""
    try:
        data, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    except BlockingIOError:
        return None
    if not data:
        raise EOFError
    if not descriptors:  # no descriptor is free in this process, and the connection is lost
        return None
    connection = socket.socket(fileno=descriptors[0])
    connection.setblocking(False)
    with contextlib.suppress(OSError):  # the client is gone, and the first read shows it
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
