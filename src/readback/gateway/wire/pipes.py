"""Both ends of a pipe on the event loop: incoming lines, delivered when complete, and outgoing bytes.

Used by `stdio` and `process`. The loop calls the receiver directly. A task between line and receiver would cost more
than an answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from readback.gateway.wire.jsonl import HEAD_BYTES, MESSAGE_MAX_BYTES, TooLong

_CLOSED: Final = "The reader has closed the pipe."
_SCHED_YIELD: Final[Callable[[], None] | None] = getattr(os, "sched_yield", None)
"""Not available on every system."""


def give_way() -> None:
    """Yield the processor to waiting processes.

    Linux expects the writer of a pipe to wait next, and may queue the reader on the same processor despite an idle one.
    The server would then start only after the gateway records the call, and not meanwhile.
    """
    if _SCHED_YIELD is not None:
        _SCHED_YIELD()


class Held:
    """A pipe's descriptor for an event loop.

    Some loops close a descriptor twice: once directly and once by `close`. By then another thread may have opened a
    file with the same number. `close` therefore closes only the original file.
    """

    def __init__(self, fd: int) -> None:
        self._fd, self._what = fd, os.fstat(fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._fd), self._what):
                os.close(self._fd)


class Incoming(asyncio.Protocol):
    """The reading end of a pipe.

    `take` receives each line in order, a `TooLong` for an overlong line, and at the end an unfinished line. `over` is
    called once at the end.
    """

    def __init__(self, take: Callable[[bytes | TooLong], None], over: Callable[[], None]) -> None:
        self._take, self._over = take, over
        self._parts: list[bytes] = []
        self._bytes = 0
        self._cut: TooLong | None = None
        """Head and tail so far of an overlong line."""

    @classmethod
    async def of(
        cls, fd: int, take: Callable[[bytes | TooLong], None], over: Callable[[], None]
    ) -> asyncio.ReadTransport:
        """Start reading. The transport owns the descriptor."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: cls(take, over), Held(fd))
        return transport

    def data_received(self, data: bytes) -> None:
        begins = 0
        while (ends := data.find(b"\n", begins) + 1) > 0:
            self._take(self._whole(data[begins:ends]))
            begins = ends
        if begins < len(data):
            self._keep(data[begins:] if begins else data)

    def connection_lost(self, exc: Exception | None) -> None:
        rest, self._parts = b"".join(self._parts), []
        if rest:
            self._take(rest)
        self._over()

    def _whole(self, last: bytes) -> bytes | TooLong:
        if not self._bytes and len(last) <= MESSAGE_MAX_BYTES:
            return last
        self._keep(last[:-1])
        parts, cut = self._parts, self._cut
        self._parts, self._bytes, self._cut = [], 0, None
        return b"".join((*parts, b"\n")) if cut is None else cut

    def _keep(self, part: bytes) -> None:
        self._bytes += len(part)
        if self._cut is not None:
            self._cut = TooLong(self._cut.head, (self._cut.tail + part)[-HEAD_BYTES:])
            return
        self._parts.append(part)
        if self._bytes > MESSAGE_MAX_BYTES:
            whole = b"".join(self._parts)
            self._parts, self._cut = [], TooLong(whole[:HEAD_BYTES], whole[-HEAD_BYTES:])


class Outgoing(asyncio.BaseProtocol):
    """The writing end of a pipe: bytes go out at once as far as possible, the rest later, all in order."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._waits: set[asyncio.Future[None]] = set()
        self._is_full = self._is_lost = False

    async def begin(self, fd: int, *, high: int | None = None) -> None:
        """Own the descriptor. `high`: most bytes waiting for the pipe before `drain` waits."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_write_pipe(lambda: self, Held(fd))
        self._transport.set_write_buffer_limits(high=high)

    @property
    def is_closing(self) -> bool:
        """Whether no more can be written."""
        return self._is_lost or self._transport is None or self._transport.is_closing()

    @property
    def is_full(self) -> bool:
        """Whether more than `high` bytes wait for the pipe."""
        return self._is_full

    def write(self, data: bytes) -> bool:
        """Write in call order, and return whether the pipe took everything. The bytes are lost without a reader."""
        transport = self._transport
        if transport is None or self._is_lost or transport.is_closing():
            return False
        transport.write(data)
        return not transport.get_write_buffer_size() and not transport.is_closing()

    async def drain(self) -> None:
        """Wait until at most `high` bytes wait for the pipe. Raises ConnectionError without a reader."""
        if self.is_closing:
            raise ConnectionResetError(_CLOSED)
        if not self._is_full:
            return
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.add(room)
        try:
            await room
        finally:
            self._waits.discard(room)

    async def lost(self) -> None:
        """Wait until the pipe has no reader."""
        while not self.is_closing:
            end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waits.add(end)
            try:
                with suppress(ConnectionError):
                    await end
            finally:
                self._waits.discard(end)

    def close(self) -> None:
        """Close the pipe after the written bytes."""
        if self._transport is not None and not self.is_closing:
            self._transport.close()

    def abort(self) -> None:
        """Close the pipe now, and drop waiting bytes. Suppresses asyncio's second report of the end."""
        if self._transport is not None and (self._left() or not self.is_closing):
            self._transport.abort()

    def _left(self) -> int:
        return 0 if self._transport is None or self._is_lost else self._transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        for room in self._waits:
            if not room.done():
                room.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        for room in self._waits:
            if not room.done():
                room.set_exception(ConnectionResetError(_CLOSED))
