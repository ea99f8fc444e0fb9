"""Tells an incident to a command: its JSON on standard input, no shell, a limit of time.

Chosen by bootstrap from the settings' key `incident_command`. The command's arguments are the operator's alone; nothing
of an incident becomes an argument. Exit code 0 means that it was taken.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Final

from readback.canon import envelope_bytes
from readback.domain.errors import SettingsError, SinkError
from readback.ports.sink import IncidentNotice

TIMEOUT_SECONDS: Final = 10.0


class CommandSink:
    """Runs `argv` once an incident. Raises SettingsError for an empty one."""

    def __init__(self, argv: Sequence[str], *, timeout_s: float = TIMEOUT_SECONDS) -> None:
        if not argv or not all(argv[:1]):
            raise SettingsError("incident_command names no program.", remedy="Write it as a list: program, arguments.")
        self._argv = list(argv)
        self._timeout_s = timeout_s

    def tell(self, notice: IncidentNotice) -> None:
        """Raises SinkError where it cannot be started, takes too long, or ends with another code than 0."""
        try:
            process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that what it starts can be ended with it
            )
        except (OSError, ValueError) as error:
            raise SinkError(f"The incident command {self._argv[0]!r} cannot be started: {error}") from error
        try:
            process.communicate(envelope_bytes(notice.as_json()) + b"\n", timeout=self._timeout_s)
        except subprocess.TimeoutExpired as late:
            _end(process)
            raise SinkError(f"The incident command {self._argv[0]!r} took over {self._timeout_s:g} s.") from late
        if process.returncode != 0:
            raise SinkError(f"The incident command {self._argv[0]!r} ended with {process.returncode}.")


def _end(process: subprocess.Popen[bytes]) -> None:
    """The command and whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
