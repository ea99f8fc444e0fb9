"""Both ends of a pipe on the event loop: lines that come, each handed on as soon as it is whole, and what is written.

Used by `stdio` and `process`. The loop calls; there is no task between a line and whoever it is for, which for a line
that is an answer would cost more than the answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from readback.gateway.wire.jsonl import HEAD_BYTES, MESSAGE_MAX_BYTES, TooLong

_NOBODY: Final = "Nobody reads any more."
_SCHED_YIELD: Final[Callable[[], None] | None] = getattr(os, "sched_yield", None)
"""Not on every system."""


def give_way() -> None:
    """Lets whoever waits for this processor have it first. Linux takes it that whoever writes into a pipe is about to
    wait itself, and may put whoever reads there behind it, though another processor is idle: a server would begin only
    when its call is on record, and not work meanwhile.
    """
    if _SCHED_YIELD is not None:
        _SCHED_YIELD()


class Held:
    """A pipe's descriptor as an event loop takes it. Some close it by `close`, others by themselves and then so again,
    when the number may be that of a file which another thread has opened: only what was given is closed here.
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
    """What can be read of a pipe. `take` is given each line in its order, what is kept of one that is too long, and at
    the end the rest where no line break ends it; `over` is called once, when nothing more comes.
    """

    def __init__(self, take: Callable[[bytes | TooLong], None], over: Callable[[], None]) -> None:
        self._take, self._over = take, over
        self._parts: list[bytes] = []
        self._bytes = 0
        self._cut: TooLong | None = None
        """Both ends so far of a line that is too long."""

    @classmethod
    async def of(
        cls, fd: int, take: Callable[[bytes | TooLong], None], over: Callable[[], None]
    ) -> asyncio.ReadTransport:
        """Reads from now on. The transport owns the descriptor."""
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
    """What is written to a pipe: at once as far as that takes it, the rest behind it, all in its order."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._waits: set[asyncio.Future[None]] = set()
        self._is_full = self._is_lost = False

    async def begin(self, fd: int, *, high: int | None = None) -> None:
        """Owns the descriptor. `high`: so many bytes may wait for the pipe before whoever drains it waits too."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_write_pipe(lambda: self, Held(fd))
        self._transport.set_write_buffer_limits(high=high)

    @property
    def is_closing(self) -> bool:
        """Whether nothing more can be written."""
        return self._is_lost or self._transport is None or self._transport.is_closing()

    @property
    def is_behind(self) -> bool:
        """Whether the pipe has not taken everything yet, or never will."""
        return self.is_closing or self._left() > 0

    @property
    def is_full(self) -> bool:
        """Whether more than `high` waits for the pipe."""
        return self._is_full

    def write(self, data: bytes) -> bool:
        """In the order of the calls; lost where nobody reads any more. Whether the pipe has taken everything."""
        transport = self._transport
        if transport is None or self._is_lost or transport.is_closing():
            return False
        transport.write(data)
        return not transport.get_write_buffer_size() and not transport.is_closing()

    async def drain(self) -> None:
        """Until no more than `high` waits for the pipe. Raises ConnectionError where nobody reads any more."""
        if self.is_closing:
            raise ConnectionResetError(_NOBODY)
        if not self._is_full:
            return
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.add(room)
        try:
            await room
        finally:
            self._waits.discard(room)

    async def lost(self) -> None:
        """Until nobody reads any more."""
        while not self.is_closing:
            end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waits.add(end)
            try:
                with suppress(ConnectionError):
                    await end
            finally:
                self._waits.discard(end)

    def close(self) -> None:
        """Ends it behind what has been written."""
        if self._transport is not None and not self.is_closing:
            self._transport.close()

    def abort(self) -> None:
        """Ends it now: what the pipe has not taken is lost. An end that has come is none of asyncio's to come again."""
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
                room.set_exception(ConnectionResetError(_NOBODY))
