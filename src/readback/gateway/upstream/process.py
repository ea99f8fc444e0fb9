"""A server as a process: started in its own process group, addressed by lines, and ended with all its children.

The SDK's transport reads lines without a limit and leaves a dead server's children alone. Otherwise both are alike.
Source: Model Context Protocol, stdio transport, "Shutdown".
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import Final

import anyio

from readback.gateway.wire.line_dispatch import LineDispatcher
from readback.gateway.wire.pipes import Incoming, Outgoing

log = logging.getLogger(__name__)

EXIT_S: Final = 2.0
"""How long a server may take to exit after its stdin closed, and again after SIGTERM."""
DRAIN_S: Final = 1.0
"""How long to read the remaining output of a dead server while a child holds its pipe."""


def environment(added: Mapping[str, str] | None) -> dict[str, str]:
    """Return the gateway's environment without Readback's own variables, plus the additions."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("READBACK_")}
    return {**kept, **(added or {})}


@asynccontextmanager
async def process_lines(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> AsyncIterator[LineDispatcher]:
    """Start the server and connect. Leaves no process running. Raises OSError, ValueError if the start fails."""
    process, stdin, stdout = _started(argv, environment(env), cwd)
    guard, server = Guard(process.pid), _Server(process, stdout)
    try:
        await server.speak(stdin)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.read)
            try:
                yield server.dispatcher
            finally:
                with anyio.CancelScope(shield=True):
                    await server.stop()
                tasks.cancel_scope.cancel()
    finally:
        server.kill()
        guard.dismiss()


def _started(argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start the process in its own group, and return our ends of its stdin and stdout."""
    process = subprocess.Popen([*argv], stdin=PIPE, stdout=PIPE, env=env, cwd=cwd, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        return process, os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno())


class _Server:
    """A running server. Owns the descriptor `stdout`."""

    def __init__(self, process: subprocess.Popen[bytes], stdout: int) -> None:
        self._process, self._stdout = process, stdout
        self._stdin = Outgoing()
        self._reading: asyncio.ReadTransport | None = None
        self._exited, self._over = asyncio.Event(), asyncio.Event()
        self.dispatcher = LineDispatcher(self._stdin)
        # A thread, since one event loop needs a watcher of children and another takes the exit code before the waiter.
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._await_exit, args=(loop,), name="readback-server", daemon=True).start()

    def _await_exit(self, loop: asyncio.AbstractEventLoop) -> None:
        self._process.wait()
        with suppress(RuntimeError):  # the loop was closed before
            loop.call_soon_threadsafe(self._exited.set)

    async def speak(self, stdin: int) -> None:
        """Open the server's stdin for writing. Owns the descriptor."""
        await self._stdin.begin(stdin)

    async def read(self) -> None:
        """Deliver the server's messages until the end, then notify waiting requests."""
        over = asyncio.ensure_future(self._over.wait())
        gone = asyncio.ensure_future(self._exited.wait())
        try:
            await self.dispatcher.ready.wait()
            self._reading = await Incoming.of(self._stdout, self.dispatcher.take, self._over.set)
            await asyncio.wait({over, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not over.done():
                await asyncio.wait({over}, timeout=DRAIN_S)
        finally:
            self.dispatcher.end()
            over.cancel()
            gone.cancel()

    async def stop(self) -> None:
        """Close stdin after the last write, wait, then end the whole group: SIGTERM first, SIGKILL next."""
        self._stdin.close()
        for signal_number in (None, signal.SIGTERM, signal.SIGKILL):
            if signal_number is not None:
                self._signal(signal_number)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._exited.wait(), EXIT_S)
                break
        self.kill()

    def kill(self) -> None:
        """Kill the rest of the group, close the pipes, and collect the exit code even under time pressure."""
        self.dispatcher.end()
        self._signal(signal.SIGKILL)
        self._stdin.abort()
        if self._reading is not None:
            self._reading.close()
        elif self._stdout >= 0:
            os.close(self._stdout)
        self._stdout = -1
        if not self._exited.is_set():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(EXIT_S)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


# The watchdog: ends a server's process group after the gateway was killed, for a server ignoring the end of its stdin.
# One watchdog runs beside each server: a shell waiting for the end of a pipe. Only this process holds the other end.
# The kernel closes the pipe for any kind of death, and for any thread as starter. The shell has a session of its own,
# so that a signal to the gateway's or the server's group does not end the shell.

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
            log.warning("No watchdog ends the server if the gateway is killed: %s cannot be started: %s", SHELL, error)
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
