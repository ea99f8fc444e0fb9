"""Deliver a message to a command: JSON on standard input, no shell, a time limit.

Chosen by bootstrap for a subscriber with `command`. All arguments come from the operator, none from a message. Exit
code 0 means accepted.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence

from readback.canon import envelope_bytes
from readback.domain.records.message import Message
from readback.errors import SettingsError, SinkError


class CommandSink:
    """Run `argv` for each message. Raises SettingsError for an empty `argv`."""

    def __init__(self, argv: Sequence[str], *, timeout_s: float) -> None:
        if not argv or not all(argv[:1]):
            raise SettingsError("A command names no program.", remedy="Write it as a list: program, arguments.")
        self._argv = list(argv)
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def deliver(self, message: Message) -> None:
        """Raises SinkError for a failed start, a timeout, or an exit code other than 0."""
        process = self._start()
        try:
            process.communicate(envelope_bytes(message.as_json()) + b"\n", timeout=self._timeout_s)
        except subprocess.TimeoutExpired as late:
            raise SinkError(f"The command {self._argv[0]!r} took over {self._timeout_s:g} s.") from late
        finally:
            with self._lock:
                self._process = None
            _end(process)
        if process.returncode != 0:
            raise SinkError(f"The command {self._argv[0]!r} ended with {process.returncode}.")

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._process is not None:
                _kill(self._process)

    def _start(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise SinkError(f"The command {self._argv[0]!r} is not started any more.")
            try:
                self._process = subprocess.Popen(
                    self._argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # so that its children are killed with it
                )
            except (OSError, ValueError) as error:
                raise SinkError(f"The command {self._argv[0]!r} cannot be started: {error}") from error
            return self._process


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and its children, before the wait: only until then is the process id its own."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            process.kill()


def _end(process: subprocess.Popen[bytes]) -> None:
    _kill(process)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
