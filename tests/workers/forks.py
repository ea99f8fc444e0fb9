"""Processes that are forked from a Python that has everything loaded (tests/workers/loaded.py), instead of started.

For tests whose subject is what a program does, not how it comes to be. What they see is the same: a pid, streams,
signals, exit codes. What is no program of this Python, or depends on its settings in the environment, is started here
too; and by itself starts whoever looks into /proc of a process, or at what it has imported.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.workers.limit import killed_after

ROOT = Path(__file__).resolve().parents[2]
READBACK = str(Path(sys.executable).with_name("readback"))
_LAUNCHER = str(Path(__file__).with_name("launcher.py"))
_FOLLOWED = {"PYTHON", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONPYCACHEPREFIX"}
"""Settings of Python's own that a process which is forked follows, or has no use for; the first is make's."""
_SHARED = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""Settings that it has from the Python that it is forked from."""


def start(command: Sequence[str], *, forked: bool = True, **options: Any) -> subprocess.Popen[Any]:
    """As `subprocess.Popen`. `terminal`: what becomes the terminal of a new session."""
    if not forked or not _forkable(command, options.get("env")):
        terminal = options.pop("terminal", "")
        if terminal:
            options["preexec_fn"] = lambda: os.close(os.open(terminal, os.O_RDWR))
        return subprocess.Popen([*command], **options)
    return _Forked(command, **options)


def run(
    command: Sequence[str], *, said: str | None = None, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run`, with what is printed captured as text. `said`: its input."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    if said is not None:
        pipes["stdin"] = subprocess.PIPE
    with start(command, **pipes) as process:
        try:
            out, err = process.communicate(said, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess([*command], process.returncode, out, err)


def launched(command: Sequence[str]) -> list[str]:
    """A command that has this one forked, for those who start theirs by themselves. It costs a bare Python."""
    if not _forkable(command, None):
        return [*command]
    return [sys.executable, "-I", "-S", _LAUNCHER, _loaded(), sys.executable, *_words(command)]


@cache
def programs() -> str:
    """A folder with a `readback` and a `python` that have themselves forked: for the front of a shell's PATH."""
    folder = Path(_loaded()).with_name("programs")
    folder.mkdir()
    for name, word in (("readback", f" {READBACK}"), ("python", "")):
        program = folder / name
        started = f"{sys.executable} -I -S {_LAUNCHER} {_loaded()} {sys.executable}{word}"
        program.write_text(f'#!/bin/sh\nexec {started} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    return str(folder)


def _words(command: Sequence[str]) -> list[str]:
    """What Python is given."""
    return [*command] if command[0] == READBACK else [*command[1:]]


def _forkable(command: Sequence[str], environment: Mapping[str, str] | None) -> bool:
    """Whether nothing of it would be another thing than where Python is started for it."""
    around = os.environ if environment is None else environment
    if any(name.startswith("PYTHON") and name not in _FOLLOWED for name in around):
        return False
    if any(around.get(name) != os.environ.get(name) for name in _SHARED):
        return False
    words = _words(command)
    while words[:1] == ["-W"]:
        del words[:2]
    ours = command[0] in (READBACK, sys.executable)
    return ours and bool(words) and (words[0] in ("-m", "-c") or not words[0].startswith("-"))


@cache
def _loaded() -> str:
    """The address of this process's own; it begins when it is first asked for, and ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="rb-")
    address = f"{folder.name}/loaded"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.workers.loaded", address],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    with killed_after(server):
        assert server.stdout.readline() == b"ready\n", "the Python that has everything loaded did not begin"

    def end() -> None:
        with server:
            pass
        folder.cleanup()

    atexit.register(end)
    return address


class _Forked(subprocess.Popen[Any]):
    """A process that another one reaps, which tells how it ended."""

    def __init__(self, command: Sequence[str], *, terminal: str = "", **options: Any) -> None:
        self._terminal = terminal
        self._client = socket.socket(socket.AF_UNIX)
        self._told = b""
        self._telling = threading.Lock()
        super().__init__([*command], **options)

    def _execute_child(self, args: list[str], *more: Any) -> None:
        """In the place of CPython's own, whose arguments are in this order since 3.11."""
        _, start_it, _, pass_fds, cwd, env, _, _, shell = more[:9]
        assert start_it is None, "an order has no such thing"
        assert not pass_fds, "an order has three streams"
        assert not shell, "a shell is none of ours"
        streams = more[9:15]
        order = {
            "command": _words(args),
            "folder": os.fspath(cwd or os.getcwd()),
            "environment": dict(os.environ if env is None else env),
            "session": bool(more[20]),
            "terminal": self._terminal,
        }
        text = json.dumps(order).encode()
        text = len(text).to_bytes(4, "big") + text
        given = (streams[0], streams[3], streams[5])
        self._client.connect(_loaded())
        sent = socket.send_fds(self._client, [text], [number if one == -1 else one for number, one in enumerate(given)])
        self._client.sendall(text[sent:])
        self.pid = int(self._line())
        self._child_created = True
        self._close_pipe_fds(*streams)  # type: ignore[attr-defined]

    def _line(self) -> bytes:
        while b"\n" not in self._told:  # one that ends at once says both of its lines together
            part = self._client.recv(64)
            assert part, "the Python that has everything loaded has ended"
            self._told += part
        line, _, self._told = self._told.partition(b"\n")
        return line

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._telling.acquire(blocking=False):
            try:
                self._ended(0)
            except BlockingIOError:
                pass
            finally:
                self._telling.release()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        with self._telling:
            try:
                self._ended(timeout)
            except (TimeoutError, BlockingIOError):
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout) from None
        return self.returncode

    def _ended(self, timeout: float | None) -> None:
        if self.returncode is None:
            self._client.settimeout(timeout)
            self.returncode = int(self._line())
            self._client.close()
