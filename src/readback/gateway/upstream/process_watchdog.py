"""End a server's process group after the gateway was killed, for a server ignoring the end of its stdin.

`process` starts one watchdog beside each server: a shell waiting for the end of a pipe. Only this process holds the
other end. The kernel closes the pipe for any kind of death, and for any thread as starter. The shell has a session of
its own, so that a signal to the gateway's or the server's group does not end the shell.
"""

from __future__ import annotations

import logging
import os
import subprocess
from typing import Final

log = logging.getLogger(__name__)

SHELL: Final = "/bin/sh"
WATCH: Final = 'trap "" HUP INT TERM; read -r _; kill -9 "-$1"'
"""The shell script. Nothing is ever written: `read` returns when the pipe has no writer."""


class Guard:
    """Guards one process group. Without a shell there is no guard, and a warning says so."""

    def __init__(self, group: int) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._held = waits = -1
        try:
            waits, self._held = os.pipe()
            self._process = subprocess.Popen(
                [SHELL, "-c", WATCH, "readback-guard", str(group)],
                stdin=waits,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            log.warning("Nothing ends the server where this process is killed: %s cannot be started: %s", SHELL, error)
        finally:
            _close(waits)

    def dismiss(self) -> None:
        """End the guard after the group's end. The guard ends before its pipe, so that no process with a reused id is
        killed.
        """
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        _close(self._held)
        self._held = -1


def _close(end: int) -> None:
    if end >= 0:
        os.close(end)
