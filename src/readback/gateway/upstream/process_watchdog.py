"""Ends a server's process group where the gateway cannot any more: it was killed, and its server does not mind that its
stdin has ended.

Started beside each server by `process`. A shell that waits for the end of a pipe whose other end this process alone
holds: the kernel closes that whatever ended us, and whichever thread started the server. The shell is in a session of
its own, so that what ends the gateway's or the server's group leaves it its one task.
"""

from __future__ import annotations

import logging
import os
import subprocess
from typing import Final

log = logging.getLogger(__name__)

SHELL: Final = "/bin/sh"
WATCH: Final = 'trap "" HUP INT TERM; read -r _; kill -9 "-$1"'
"""Nothing is ever written: `read` returns when the pipe has no writer left."""


class Guard:
    """One process group's. Where there is no shell it guards nothing, and says so."""

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
        """The group has been ended. The guard goes before its pipe: nobody who bears the number next is killed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        _close(self._held)
        self._held = -1


def _close(end: int) -> None:
    if end >= 0:
        os.close(end)
