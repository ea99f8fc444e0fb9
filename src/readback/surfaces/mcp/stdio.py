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
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from readback.surfaces.mcp.call_lane import CallLane
from readback.surfaces.mcp.lines import (
    MESSAGE_MAX_BYTES,
    Streams,
    TooLong,
    from_client,
    next_line,
    refusal,
    unfit_request,
    written,
)

CHUNK_BYTES: Final = 1 << 16
FLUSH_S: Final = 2.0
"""How long a client may take to read the last answers, when the process ends."""


@asynccontextmanager
async def own_streams(stop: asyncio.Event | None = None, lane: CallLane | None = None) -> AsyncIterator[Streams]:
    """A client's messages as streams, without what `lane` takes. They end with stdin, or when `stop` is set."""
    lane = lane or CallLane()
    stdin, stdout = os.dup(0), os.dup(1)
    _divert()
    reader, from_client_pipe = await _reading(_pipe(stdin, reads=True))
    writer = lane.writer = await _writing(_pipe(stdout, reads=False))
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    refusals = write.clone()
    flushed = asyncio.Event()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, reader, to_session, refusals, stop, lane)
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
        if not writer.transport.is_closing():  # by a client that has gone; asyncio cannot end it twice
            writer.transport.abort()
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


async def _reading(fd: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    reader = asyncio.StreamReader(limit=MESSAGE_MAX_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0))
    return reader, transport


async def _writing(fd: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(fd, "wb", 0)
    )
    transport.set_write_buffer_limits(high=0)  # so that what has been drained has been written
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _read(
    reader: asyncio.StreamReader,
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MemoryObjectSendStream[SessionMessage],
    stop: asyncio.Event | None,
    lane: CallLane,
) -> None:
    async def hand_on() -> None:
        while line := await next_line(reader):
            if isinstance(line, TooLong):
                if (refused := refusal(line)) is not None:
                    await refusals.send(refused)
            elif not lane.take(line) and (message := from_client(line)) is not None:
                if (refused := unfit_request(message)) is not None:
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
        to_session.close()


async def _write(
    writer: asyncio.StreamWriter, from_session: MemoryObjectReceiveStream[SessionMessage], flushed: asyncio.Event
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
