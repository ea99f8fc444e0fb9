"""This process's own stdin and stdout as a client's connection.

While serving, file descriptor 0 is empty and 1 leads to stderr, so that nothing else that runs here reads or writes the
wire. Nothing is waited for that a client may keep open: the process can end at any time.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from readback.surfaces.mcp.call_lane import CallLane
from readback.surfaces.mcp.lines import Streams, TooLong, from_client, refusal, unfit_request, unread, written
from readback.surfaces.mcp.pipes import Incoming, Outgoing

CHUNK_BYTES: Final = 1 << 16
GRACE_S: Final = 2.0
"""How long calls that are under way may take to be answered, when the process is told to end."""
FLUSH_S: Final = 2.0
"""How long a client may take to read the last answers, when the process ends."""


@asynccontextmanager
async def own_streams(stop: asyncio.Event | None = None, lane: CallLane | None = None) -> AsyncIterator[Streams]:
    """A client's messages as streams, without what `lane` takes. They end with stdin, or when `stop` is set."""
    lane = lane or CallLane()
    stdin, stdout = os.dup(0), os.dup(1)
    _divert()
    arriving = _Arriving(lane)
    from_client_pipe = await arriving.begin(_pipe(stdin, reads=True))
    writer = lane.writer = Outgoing()
    await writer.begin(_pipe(stdout, reads=False), high=0)  # so that what has been drained has been written
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    refusals = write.clone()
    flushed = asyncio.Event()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, arriving, to_session, refusals, stop, lane)
            tasks.start_soon(_write, writer, from_session, flushed)
            try:
                yield read, write
            finally:
                with anyio.move_on_after(FLUSH_S, shield=True):
                    await lane.close()
                refusals.close()
                write.close()
                with anyio.move_on_after(FLUSH_S, shield=True):
                    await flushed.wait()
                tasks.cancel_scope.cancel()
    finally:
        for stream in (to_session, read, write, refusals, from_session):
            stream.close()
        from_client_pipe.close()
        writer.abort()
        for fd, own in ((stdin, 0), (stdout, 1)):
            os.set_blocking(fd, True)
            os.dup2(fd, own)


def _divert() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)


def _pipe(fd: int, *, reads: bool) -> int:
    """A descriptor that the loop can wait for: itself where it is a pipe or a socket, else a pipe that it is copied to
    or from. The copying thread is nobody's to wait for.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        return os.dup(fd)
    near, far = os.pipe() if reads else os.pipe()[::-1]

    def copy() -> None:
        source, sink = (fd, far) if reads else (far, fd)
        with suppress(OSError):
            while chunk := os.read(source, CHUNK_BYTES):
                view = memoryview(chunk)
                while view:
                    view = view[os.write(sink, view) :]
        os.close(far)

    threading.Thread(target=copy, name="readback-stdio", daemon=True).start()
    return near


class _Arriving:
    """What a client says. A call that goes past the SDK does so at once, unless something before it still waits; the
    rest waits here for the session, and no more is read meanwhile.
    """

    def __init__(self, lane: CallLane) -> None:
        self._lane = lane
        self._waiting: deque[bytes | TooLong] = deque()
        self._pipe: asyncio.ReadTransport | None = None
        self._busy = self._over = False
        self._came = asyncio.Event()

    async def begin(self, fd: int) -> asyncio.ReadTransport:
        """Owns the descriptor, as does who closes the transport."""
        self._pipe = await Incoming.of(fd, self._take, self._end)
        self._hold()
        return self._pipe

    async def next(self) -> bytes | TooLong | None:
        """The next line that the session has to see, once the one before it has been dealt with. None: the end."""
        self._busy = False
        while not self._waiting:
            if self._over:
                return None
            if self._pipe is not None and not self._pipe.is_closing():
                self._pipe.resume_reading()
            self._came.clear()
            await self._came.wait()
        self._busy = True
        return self._waiting.popleft()

    def taken(self, line: bytes) -> bool:
        """Whether the call goes past the SDK after all: what it waited for may have let it through."""
        return self._lane.take(line)

    def _take(self, line: bytes | TooLong) -> None:
        if not (self._busy or self._waiting or isinstance(line, TooLong)) and self._lane.take(line):
            return
        self._waiting.append(line)
        self._came.set()
        self._hold()

    def _hold(self) -> None:
        if self._waiting and self._pipe is not None and not self._pipe.is_closing():
            self._pipe.pause_reading()

    def _end(self) -> None:
        self._over = True
        self._came.set()


async def _read(
    arriving: _Arriving,
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MemoryObjectSendStream[SessionMessage],
    stop: asyncio.Event | None,
    lane: CallLane,
) -> None:
    async def hand_on() -> None:
        while (line := await arriving.next()) is not None:
            if isinstance(line, TooLong):
                if (refused := refusal(line)) is not None:
                    await refusals.send(refused)
            elif not arriving.taken(line) and (message := from_client(line)) is not None:
                refused = unread(line) if isinstance(message, Exception) else unfit_request(message)
                if refused is not None:
                    await refusals.send(refused)
                else:
                    await to_session.send(message)

    waits: list[asyncio.Future[object]] = [asyncio.ensure_future(hand_on())]
    if stop is not None:
        waits.append(asyncio.ensure_future(stop.wait()))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        if stop is not None and stop.is_set():  # the client is still there, and waits for these
            await lane.rest(GRACE_S)
        to_session.close()


async def _write(
    writer: Outgoing, from_session: MemoryObjectReceiveStream[SessionMessage], flushed: asyncio.Event
) -> None:
    """Writes the session's messages in their order; they wait for the client to read."""
    try:
        async with from_session:
            async for message in from_session:
                writer.write(written(message))
                await writer.drain()
    except OSError:
        pass  # the client reads no more: the session sees its stream closed
    finally:
        flushed.set()
