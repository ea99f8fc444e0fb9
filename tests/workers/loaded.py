"""A Python that has everything loaded, and forks a process for each program that it is told to run.

    python -m tests.workers.loaded SOCKET

Starting Python and importing the package takes half a second of a core, hundreds of times in a run of the tests. What
is forked here is a process as any other, with a pid, streams, signals, exit handlers and an end of its own. What it has
not is a start: that is tested by those that are started (tests/workers/forks.py).

Whoever connects sends an order with three streams, is told the pid, and then how the process ended. Who hangs up before
that has his process killed; when the input of this program ends, all of them are.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import readback
from readback.agent_errors import MissingFrameworkError

STREAMS = 3
LENGTH_BYTES = 4
PIECE_BYTES = 65_536
ORDER_SECONDS_MAX = 30


@dataclass(frozen=True, slots=True)
class Order:
    """What to run, where, and with what around it."""

    command: list[str]
    """Words for Python: options, then what to run, then what that is given."""
    folder: str
    environment: dict[str, str]
    session: bool = False
    """Whether it leads a session of its own."""
    terminal: str = ""
    """What becomes the terminal of that session."""


class Forked:
    """The processes that were forked and have not ended yet."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._watched = selectors.DefaultSelector()
        self._watched.register(door, selectors.EVENT_READ)
        self._watched.register(sys.stdin.fileno(), selectors.EVENT_READ)
        self._clients: dict[int, tuple[int, socket.socket]] = {}
        """By the descriptor of the process: its pid, and who asked for it."""

    def serve(self) -> Order | None:
        """Returns an order in the process that is to carry it out; in this one only at the end."""
        while True:
            for key, _ in self._watched.select():
                if key.fileobj is self._door:
                    order = self._fork(self._door.accept()[0])
                    if order is not None:
                        return order
                elif key.data is not None:
                    self._hung_up(key.fd, key.data)
                elif key.fd in self._clients:
                    self._reap(key.fd)
                elif key.fd == sys.stdin.fileno():
                    for pid, _ in self._clients.values():
                        os.kill(pid, signal.SIGKILL)
                    return None

    def _fork(self, client: socket.socket) -> Order | None:
        client.settimeout(ORDER_SECONDS_MAX)
        text, streams, _, _ = socket.recv_fds(client, PIECE_BYTES, STREAMS)
        while len(text) < LENGTH_BYTES + int.from_bytes(text[:LENGTH_BYTES], "big"):
            text += client.recv(PIECE_BYTES)
        order = Order(**json.loads(text[LENGTH_BYTES:]))
        pid = os.fork()
        if pid == 0:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            self._forget(client)
            return order
        for stream in streams:
            os.close(stream)
        descriptor = os.pidfd_open(pid)
        self._clients[descriptor] = pid, client
        self._watched.register(descriptor, selectors.EVENT_READ)
        self._watched.register(client, selectors.EVENT_READ, data=pid)
        client.sendall(f"{pid}\n".encode())
        return None

    def _forget(self, client: socket.socket) -> None:
        """In the process that was forked: none of this is its own, or may close what later has its number."""
        self._watched.close()
        for each in (self._door, client, *(client for _, client in self._clients.values())):
            each.detach()
        self._clients.clear()
        os.closerange(STREAMS, os.sysconf("SC_OPEN_MAX"))

    def _hung_up(self, client: int, pid: int) -> None:
        if client in self._watched.get_map():  # else it has ended in this very moment
            self._watched.unregister(client)
            os.kill(pid, signal.SIGKILL)

    def _reap(self, descriptor: int) -> None:
        pid, client = self._clients.pop(descriptor)
        self._watched.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        if client in self._watched.get_map():
            self._watched.unregister(client)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client has hung up meanwhile
                client.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        client.close()


def carry_out(order: Order, path: list[str]) -> None:
    """Becomes the program, as Python would have begun it, and ends as it does. `path`: what all of them import from."""
    if order.session:
        os.setsid()
        if order.terminal:
            os.close(os.open(order.terminal, os.O_RDWR))  # a leader's first terminal becomes its own
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored in what is run under nohup, and in all that it starts
    sys.dont_write_bytecode = bool(order.environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.stdin = sys.__stdin__ = _stream(0, "r", "strict")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "w", "strict")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "w", "backslashreplace")  # type: ignore[misc]
    for name in [name for name in sys.modules if name == "tests" or name.startswith("tests.")]:
        del sys.modules[name]
    words = order.command
    while words[0] == "-W":
        warnings._setoption(words[1])  # type: ignore[attr-defined]
        words = words[2:]
    of_a_file = not words[0].startswith("-")
    first = str(Path(words[0]).resolve().parent) if of_a_file else order.folder if words[0] == "-m" else ""
    given = order.environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [first, *filter(None, given), *path]
    code = _run(words)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    # What Python does beyond that, taking each module apart, takes longer than most programs, and nobody sees it.
    os._exit(code)


def _run(words: list[str]) -> int:
    """Its exit code; as Python does it."""
    try:
        if words[0] == "-m":
            sys.argv[:] = words[1:]
            sys.modules.pop(words[1], None)
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            sys.argv[:] = ["-c", *words[2:]]
            sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(words[1], "<string>", "exec"), sys.modules["__main__"].__dict__)
        else:
            sys.argv[:] = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _stream(number: int, mode: str, errors: str) -> io.TextIOWrapper:
    raw = io.FileIO(number, mode, closefd=False)
    at_once = mode == "w" and bool(os.environ.get("PYTHONUNBUFFERED"))
    kept = raw if at_once else io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    lines = number == 2 or os.isatty(number)
    return io.TextIOWrapper(kept, encoding="utf-8", errors=errors, line_buffering=lines, write_through=at_once)


def main(arguments: list[str]) -> None:
    (address,) = arguments
    given = set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    path = [place for place in sys.path[1:] if place not in given]
    for module in walk_packages(readback.__path__, "readback."):
        if not module.name.endswith(".__main__"):
            # An adapter's framework, or a durable engine, is installed in an environment of its own.
            with contextlib.suppress(MissingFrameworkError):
                import_module(module.name)
    door = socket.socket(socket.AF_UNIX)
    door.bind(address)
    door.listen()
    gc.collect()
    gc.freeze()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    order = Forked(door).serve()
    if order is not None:
        carry_out(order, path)


if __name__ == "__main__":
    main(sys.argv[1:])
