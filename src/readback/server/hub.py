"""Follow the log for every listener: a single reader of the ledger, and a bounded queue for each listener.

A slow listener is disconnected, and resumes at the last position. Memory stays bounded, and no entry is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from readback.client.session import Session
from readback.domain.events import EventKind, open_envelope
from readback.errors import StoreError
from readback.ports.storage.store import StoredEvent
from readback.server.errors import ServerBusyError

KINDS: Final = tuple(sorted(kind.value for kind in EventKind))
PAGE: Final = 500
POLL_S: Final = 0.2
QUIET_S: Final = 5.0
"""After this time without an entry the server sends a comment, and checks the listener's token. Proxies then keep the
connection."""
QUEUE_MAX: Final = 2_000
LISTENERS_MAX: Final = 1_000
TENANT_LISTENERS_MAX: Final = 500
"""One tenant must leave room for the others."""
_ENCODE: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as bytes for the stream, with the facts for the choice of listeners."""

    position: int
    tenant: str
    action: str
    chunk: bytes


@dataclass(eq=False, slots=True)
class _Listener:
    tenant: str
    action: str
    queue: asyncio.Queue[Entry | None] = field(default_factory=lambda: asyncio.Queue(QUEUE_MAX + 1))
    over: bool = False

    def offer(self, entry: Entry) -> None:
        if self.over:
            return
        if self.queue.qsize() >= QUEUE_MAX:
            self.close()  # too slow: the client resumes at its last position
        else:
            self.queue.put_nowait(entry)

    def close(self) -> None:
        if not self.over:
            self.over = True
            self.queue.put_nowait(None)


class Hub:
    """Follows the log while there are listeners. `session`: the server's own session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._listeners: set[_Listener] = set()
        self._follower: asyncio.Task[None] | None = None
        self._joining = asyncio.Lock()
        self._position = 0
        self._stopping = False

    async def listen(self, tenant: str, action: str, after: int | None) -> AsyncIterator[bytes]:
        """Yield the tenant's entries after a position, without end; without a position, new entries alone."""
        listener = _Listener(tenant, action)
        await self._follow(tenant)
        self._listeners.add(listener)
        joined = self._position
        try:
            yield b": open\n\n"
            if after is not None:
                async for chunk in self._earlier(listener, after, joined):
                    yield chunk
            async for chunk in self._later(listener, max(joined, after or 0)):
                yield chunk
        finally:
            self._listeners.discard(listener)

    async def _earlier(self, listener: _Listener, after: int, until: int) -> AsyncIterator[bytes]:
        """Yield the entries between the client's position and the follower's, page by page."""
        while after < until and not listener.over:
            page = await asyncio.to_thread(read_entries, self._session, after, PAGE)
            if not page:
                return
            for each in page:
                if each.position <= until and _hears(listener, each):
                    yield each.chunk
            after = page[-1].position

    async def _later(self, listener: _Listener, after: int) -> AsyncIterator[bytes]:
        """Yield new entries. Entries that wait together make a single part, so that many listeners cost less."""
        queue, last = listener.queue, False
        while not last:
            try:
                async with asyncio.timeout(QUIET_S):
                    entry = await queue.get()
            except TimeoutError:
                yield b": quiet\n\n"
                continue
            chunks = list[bytes]()
            while entry is not None:
                if entry.position > after:
                    chunks.append(entry.chunk)
                if queue.empty() or len(chunks) >= PAGE:
                    break
                entry = queue.get_nowait()
            last = entry is None
            if chunks:
                yield b"".join(chunks)

    async def _follow(self, tenant: str) -> None:
        """Start the reader where none runs. Raises ServerBusyError at a limit, StoreError."""
        async with self._joining:  # listeners that join at once share one reader
            own = sum(each.tenant == tenant for each in self._listeners)
            if self._stopping or own >= TENANT_LISTENERS_MAX or len(self._listeners) >= LISTENERS_MAX:
                raise ServerBusyError("The server has the maximum number of listeners, or is stopping.")
            if self._follower is None or self._follower.done():
                self._position = await asyncio.to_thread(self._session.store.last_seq)
                self._follower = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        """Read new entries and offer each entry to its listeners, until no listener is left."""
        runtime, idle = self._session.runtime, 0
        while idle < 2:
            try:
                page = await asyncio.to_thread(read_entries, self._session, self._position, PAGE)
            except StoreError:
                page = []  # the store is busy or away; the next look continues at the same position
            for each in page:
                self._position = each.position
                for listener in self._listeners:
                    if _hears(listener, each):
                        listener.offer(each)
            if len(page) < PAGE:
                await runtime.sleep_async(POLL_S)
            idle = 0 if self._listeners else idle + 1

    def stop(self) -> None:
        """End every stream."""
        self._stopping = True
        for each in self._listeners:
            each.close()
        if self._follower is not None:
            self._follower.cancel()


def _hears(listener: _Listener, entry: Entry) -> bool:
    return entry.tenant == listener.tenant and listener.action in ("", entry.action)


def read_entries(session: Session, after: int, limit: int) -> list[Entry]:
    """Return up to `limit` entries of the log after a position, of every tenant. Raises StoreError."""
    return [_entry(each) for each in session.store.pick(after, KINDS, limit)]


def _entry(stored: StoredEvent) -> Entry:
    opened = open_envelope(stored.envelope)
    event = opened.event
    state = event.path[-1].value if event.path else ""
    shown = {
        "position": stored.seq,
        "id": stored.action_id,
        "version": stored.version,
        "kind": event.kind.value,
        "state": state,
        "at_us": event.at_us,
    }
    chunk = b"id: %d\nevent: entry\ndata: %s\n\n" % (stored.seq, _ENCODE(shown))
    return Entry(stored.seq, opened.tenant, stored.action_id, chunk)
