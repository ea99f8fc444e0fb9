"""The live feed of the console: a browser learns that something of its tenant has changed, and reads the page anew.

One task follows the log for all listeners of the process, and looks at new entries twice a second. A listener receives
no content and no change of another tenant.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from readback.canon import ReadbackError
from readback.ports.storage.store import LedgerStore
from readback.server.app import Server
from readback.server.errors import ServerBusyError

LOOK_S: Final = 0.5
"""The time between two looks at the log, in seconds."""
QUIET_LOOKS: Final = 10
"""After so many looks without a change a listener receives a comment, so that a gone browser and an ended session are
noticed."""
ENTRIES_MAX: Final = 2_000
"""Entries in one look. More entries wait for the next look."""
LISTENERS_MAX: Final = 512
TENANT_LISTENERS_MAX: Final = 256
"""One tenant must leave room for the others."""


@dataclass(slots=True, eq=False)
class Listener:
    """One open page. `changed` is set at a change of the tenant, up to `position`."""

    tenant: str
    position: int
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class LiveFeed:
    """The listeners of a server, and the task that follows the log while there is a listener."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None
        self._position = 0

    async def listen(self, tenant: str, after: int) -> AsyncIterator[bytes]:
        """Yield server-sent events: `changed` with the position, after each change of the tenant.

        Raises ServerBusyError beyond LISTENERS_MAX listeners, or TENANT_LISTENERS_MAX of one tenant.
        """
        own = sum(each.tenant == tenant for each in self._listeners)
        if own >= TENANT_LISTENERS_MAX or len(self._listeners) >= LISTENERS_MAX:
            raise ServerBusyError("The server has the maximum number of open pages that follow changes.")
        here = Listener(tenant, after)
        last = await asyncio.to_thread(self._store.last_seq)
        if 0 < after < last and tenant in await asyncio.to_thread(self._tenants, after, last):
            here.changed.set()  # changed between the page and this request
        return self._events(here, last)

    async def _events(self, here: Listener, last: int) -> AsyncIterator[bytes]:
        stopping, quiet = self._server.stopping, 0
        self._listeners.add(here)
        if self._task is None or self._task.done():
            self._position = last
            self._task = asyncio.create_task(self._follow())
        elif self._position > last and here.tenant in await asyncio.to_thread(self._tenants, last, self._position):
            here.changed.set()  # the task has passed entries while this listener joined
        try:
            yield b"retry: 2000\n\n"
            while not stopping.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(here.changed.wait(), LOOK_S)
                quiet += 1
                if here.changed.is_set():
                    here.changed.clear()
                    quiet = 0
                    yield f"id: {self._position}\nevent: changed\ndata: {self._position}\n\n".encode()
                elif quiet >= QUIET_LOOKS:
                    quiet = 0
                    yield b": quiet\n\n"
        finally:
            self._listeners.discard(here)

    @property
    def _store(self) -> LedgerStore:
        return self._server.ledgers.main.session.store

    async def _follow(self) -> None:
        while self._listeners:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._server.stopping.wait(), LOOK_S)
            if self._server.stopping.is_set():
                return
            with contextlib.suppress(ReadbackError):  # a ledger that cannot be read now is read at the next look
                last = await asyncio.to_thread(self._store.last_seq)
                if last > self._position:
                    until = min(last, self._position + ENTRIES_MAX)
                    changed = await asyncio.to_thread(self._tenants, self._position, until)
                    self._position = until
                    for each in self._listeners:
                        if each.tenant in changed:
                            each.changed.set()

    def _tenants(self, after: int, until: int) -> set[str]:
        """The tenants of the entries in this range. A range over ENTRIES_MAX is cut to its newest part."""
        after = max(after, until - ENTRIES_MAX)
        ids: set[str] = set()
        for entry in self._store.scan(after):
            if entry.seq > until:
                break
            ids.add(entry.action_id)
        found = (self._store.projection(each) for each in ids)
        return {each.projection.tenant for each in found if each is not None}
