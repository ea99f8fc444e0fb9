"""A server as a process: started in a group of its own, spoken to by lines, and ended with everything that it started.

The SDK's own transport reads lines without a bound and leaves a dead server's children alone; otherwise this is the
same. Source: Model Context Protocol, stdio transport, "Shutdown".
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio

from readback.surfaces.mcp.guard import Guard
from readback.surfaces.mcp.line_dispatch import LineDispatcher
from readback.surfaces.mcp.lines import MESSAGE_MAX_BYTES, next_line

EXIT_S: Final = 2.0
"""How long a server may take to end by itself after its stdin closed, and again after SIGTERM."""
DRAIN_S: Final = 1.0
"""How long what a dead server has still written is read, where something that it started holds its pipe."""


class _Protocol(SubprocessStreamProtocol):
    """Tells when the process has ended, which asyncio's own does only when its pipes are closed as well."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=MESSAGE_MAX_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


def environment(added: Mapping[str, str] | None) -> dict[str, str]:
    """The gateway's own environment without what is Readback's alone, and what is added."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("READBACK_")}
    return {**kept, **(added or {})}


@asynccontextmanager
async def process_lines(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> AsyncIterator[LineDispatcher]:
    """Starts the server, and speaks with it. Leaves nothing running. Raises OSError, ValueError: not started."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: _Protocol(loop), *argv, stdin=PIPE, stdout=PIPE, stderr=None,
        env=environment(env), cwd=cwd, start_new_session=True,
    )  # fmt: skip
    server, guard = _Server(transport, protocol), Guard(transport.get_pid())
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.read)
            try:
                yield server.dispatcher
            finally:
                with anyio.CancelScope(shield=True):
                    await server.stop()
                tasks.cancel_scope.cancel()
    finally:
        server.dispatcher.end()
        server.kill()
        guard.dismiss()


class _Server:
    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Protocol) -> None:
        self._transport = transport
        self._exited = protocol.exited
        self._process = asyncio.subprocess.Process(transport, protocol, asyncio.get_running_loop())
        assert self._process.stdin is not None
        self._stdin = self._process.stdin
        self.dispatcher = LineDispatcher(self._stdin)

    async def read(self) -> None:
        """Hands on its messages until it ends; then whoever waits is told of the end."""
        lines = asyncio.ensure_future(self._lines())
        gone = asyncio.ensure_future(self._exited.wait())
        try:
            await asyncio.wait({lines, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not lines.done():
                await asyncio.wait({lines}, timeout=DRAIN_S)
        finally:
            self.dispatcher.end()
            gone.cancel()
            lines.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await lines

    async def _lines(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        await self.dispatcher.ready.wait()
        while line := await next_line(stdout):
            self.dispatcher.take(line)

    async def stop(self) -> None:
        """Closes its stdin after what was written, waits, then ends its whole group: politely, then not."""
        self._stdin.close()
        for signal_number in (None, signal.SIGTERM, signal.SIGKILL):
            if signal_number is not None:
                self._signal(signal_number)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._exited.wait(), EXIT_S)
                break
        self.kill()

    def kill(self) -> None:
        """Ends what is left of the group; closes the pipes. Whoever is ending in a hurry still takes its exit code."""
        self._signal(signal.SIGKILL)
        with suppress(PermissionError):
            self._transport.close()
        if not self._exited.is_set():
            with suppress(subprocess.TimeoutExpired):
                self._transport.get_extra_info("subprocess").wait(EXIT_S)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
