"""Use this process's stdin and stdout as a client's connection.

While serving, file descriptor 0 is empty and 1 leads to stderr, so that no other code reads or writes the wire. Nothing
waits for a descriptor held open by a client: the process can end at any time.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from readback.canon.frozen import dataclass
from readback.gateway.serving.stdio_fast_path import CallLane
from readback.gateway.wire.cancellation import CANCELLED
from readback.gateway.wire.jsonl import Streams, TooLong, from_client, refusal, refusals, written
from readback.gateway.wire.pipes import Incoming, Outgoing

# What a client has asked of the SDK's session and has not been told yet.

NEVER_ANSWERED: Final = frozenset({"subscriptions/listen"})
"""Requests open as long as the client listens. No shutdown waits for them."""


class OpenRequests:
    """One client's open requests, by id."""

    def __init__(self) -> None:
        self._ids: set[int | str] = set()
        self._none = asyncio.Event()
        self._none.set()

    def asked(self, message: SessionMessage | Exception) -> None:
        """Note a message before the session receives it. A cancelled request gets no answer."""
        asked = None if isinstance(message, Exception) else message.message
        if isinstance(asked, JSONRPCRequest) and asked.method not in NEVER_ANSWERED:
            self._ids.add(coerce_request_id(asked.id))
            self._none.clear()
        elif isinstance(asked, JSONRPCNotification) and asked.method == CANCELLED:
            cancelled = as_request_id((asked.params or {}).get("requestId"))
            if cancelled is not None:
                self._settle(cancelled)

    def answered(self, message: SessionMessage) -> None:
        """Note a message sent to the client."""
        told = message.message
        if isinstance(told, JSONRPCResponse | JSONRPCError) and told.id is not None:
            self._settle(told.id)

    async def none(self) -> None:
        """Wait until all requests are answered."""
        await self._none.wait()

    def _settle(self, request_id: int | str) -> None:
        self._ids.discard(coerce_request_id(request_id))
        if not self._ids:
            self._none.set()


CHUNK_BYTES: Final = 1 << 16
GRACE_S: Final = 2.0
"""How long calls in flight may still take at the process's end."""
LAST_S: Final = 1.0
"""How long the following answers with the current knowledge may take."""
PATIENCE_S: Final = 45.0
"""How long open requests may take after the end of stdin."""
FLUSH_S: Final = 2.0
"""How long a client may take to read the last answers at the process's end."""


@asynccontextmanager
async def own_streams(
    stop: asyncio.Event | None = None,
    lane: CallLane | None = None,
    *,
    patience_s: float = PATIENCE_S,
    answer_held: Callable[[], None] | None = None,
) -> AsyncIterator[Streams]:
    """Yield the client's messages as streams, without the calls taken by `lane`.

    The streams end when `stop` is set. They also end after stdin: when all earlier requests are answered, the client
    has stopped reading, or patience ends. After `stop`, calls in flight have a grace time. Then `answer_held` asks for
    answers with the current knowledge.
    """
    lane, open_requests = lane or CallLane(), OpenRequests()
    stdin, stdout = os.dup(0), os.dup(1)
    _divert()
    arriving = _Arriving(lane)
    from_client_pipe = await arriving.begin(_pipe(stdin, reads=True))
    writer = lane.writer = Outgoing()
    await writer.begin(_pipe(stdout, reads=False), high=0)  # so that drained means written
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    refusals = write.clone()
    flushed = asyncio.Event()
    try:
        async with anyio.create_task_group() as tasks:
            session = _ToSession(to_session, refusals, lane, open_requests)
            ending = _Ending(stop, patience_s, answer_held)
            tasks.start_soon(_read, arriving, session, ending, writer)
            tasks.start_soon(_write, writer, from_session, open_requests, flushed)
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
    """Return a descriptor usable by the event loop.

    A pipe or socket is returned as is; anything else is copied through a pipe. No shutdown waits for the copying
    thread.
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
    """Incoming lines. A call for the fast path goes there at once, unless an earlier line still waits.

    Other lines wait for the session, and reading pauses meanwhile.
    """

    def __init__(self, lane: CallLane) -> None:
        self._lane = lane
        self._waiting: deque[bytes | TooLong] = deque()
        self._pipe: asyncio.ReadTransport | None = None
        self._busy = self.over = False
        self._came = asyncio.Event()

    async def begin(self, fd: int) -> asyncio.ReadTransport:
        """Start reading. Closing the returned transport closes the descriptor."""
        self._pipe = await Incoming.of(fd, self._take, self._end)
        self._hold()
        return self._pipe

    async def next(self) -> bytes | TooLong | None:
        """Return the next line for the session, after the previous line is handled. None at the end."""
        self._busy = False
        while not self._waiting:
            if self.over:
                return None
            if self._pipe is not None and not self._pipe.is_closing():
                self._pipe.resume_reading()
            self._came.clear()
            await self._came.wait()
        self._busy = True
        return self._waiting.popleft()

    def taken(self, line: bytes) -> bool:
        """Return whether the fast path takes the call now. The awaited earlier line may have opened the fast path."""
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
        self.over = True
        self._came.set()


class _ToSession:
    """Passes a client's messages to the session, and rejects unusable ones before."""

    def __init__(
        self,
        messages: MemoryObjectSendStream[SessionMessage | Exception],
        refusals: MemoryObjectSendStream[SessionMessage],
        lane: CallLane,
        open_requests: OpenRequests,
    ) -> None:
        self._messages, self._refusals = messages, refusals
        self.lane, self._open = lane, open_requests

    async def hand_on(self, arriving: _Arriving) -> None:
        """Pass on messages until the end of input."""
        while (line := await arriving.next()) is not None:
            if isinstance(line, TooLong):
                if (too_long := refusal(line)) is not None:
                    await self._refusals.send(too_long)
            elif not arriving.taken(line) and (message := from_client(line)) is not None:
                refused = refusals(line, message)
                for each in refused:
                    await self._refusals.send(each)
                if not refused:
                    self._open.asked(message)
                    await self._messages.send(message)

    async def answered(self) -> None:
        """Wait until every request is answered."""
        await self._open.none()
        await self.lane.rest(None)

    def close(self) -> None:
        """End the session's input."""
        self._messages.close()


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a client's streams end."""

    stop: asyncio.Event | None
    patience_s: float
    answer_held: Callable[[], None] | None


async def _read(arriving: _Arriving, session: _ToSession, ending: _Ending, writer: Outgoing) -> None:
    stop = ending.stop

    async def all_of_it() -> None:
        await session.hand_on(arriving)
        # A client may still read after its last request, for example with requests piped from a file.
        gone = asyncio.ensure_future(writer.lost())
        answered = asyncio.ensure_future(session.answered())
        await _first_of([answered, gone], ending.patience_s)

    waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(all_of_it())]
    if stop is not None:
        waits.append(asyncio.ensure_future(stop.wait()))
    try:
        await _first_of(waits)
    finally:
        if stop is not None and stop.is_set():
            if not arriving.over:  # the client is still there and waits
                await session.lane.rest(GRACE_S)
            if ending.answer_held is not None:
                ending.answer_held()
                await session.lane.rest(LAST_S)
        session.close()


async def _first_of(waits: Sequence[asyncio.Future[Any]], timeout_s: float | None = None) -> None:
    """Wait until one future is done or the time limit passes, and cancel the others."""
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _write(
    writer: Outgoing,
    from_session: MemoryObjectReceiveStream[SessionMessage],
    open_requests: OpenRequests,
    flushed: asyncio.Event,
) -> None:
    """Write the session's messages in order, at the client's reading speed."""
    try:
        async with from_session:
            async for message in from_session:
                writer.write(written(message))
                await writer.drain()
                open_requests.answered(message)
    except OSError:
        pass  # the client no longer reads: the session's stream is closed
    finally:
        flushed.set()
