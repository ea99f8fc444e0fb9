"""Deliver servers' change notifications to subscribed clients: changed lists and updated resources.

A handshake-era client receives list changes without asking, and subscribes to single resources. A stateless client
holds a stream open (`subscriptions/listen`). The session answers the stream for all servers, old and new.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import LISTEN_STREAM_METHODS, SUBSCRIPTION_ID_META_KEY
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from readback.canon.fault import ReadbackError
from readback.gateway.upstream.attachment import Attachment
from readback.gateway.upstream.request_context import Exchange

log = logging.getLogger(__name__)

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
KIND: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
STREAM_S: Final = 30 * 86_400.0
ACKNOWLEDGE_S: Final = 30.0
STREAMS_MAX: Final = 1024
BACKLOG_MAX: Final = 1024

_numbers = itertools.count(1)

Owners = Callable[[str], Awaitable[list[Attachment]]]
Event = tuple[str, dict[str, Any]]


class _Stream:
    """A client's open stream. `queue`: pending notifications; None ends the stream."""

    def __init__(self, kinds: frozenset[str], uris: frozenset[str]) -> None:
        self.kinds, self.uris = kinds, uris
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue(BACKLOG_MAX)

    def wants(self, method: str, uri: str, private: bool) -> bool:
        """Return whether the stream wants this change. A resource includes its parts. `private`: no other client
        subscribed.
        """
        if method in KIND:
            return KIND[method] in self.kinds
        return bool(self.uris) and (private or any(_within(uri, each) for each in self.uris))

    def offer(self, method: str, params: Mapping[str, Any]) -> None:
        with suppress(asyncio.QueueFull):  # it tells that something changed; more of the same says no more
            self.queue.put_nowait((method, dict(params)))


class Listening:
    """Change notifications of one client's session."""

    def __init__(self, attachments: Sequence[Attachment], *, private: bool = True) -> None:
        self._attachments = attachments
        self._private = private
        self._streams: set[_Stream] = set()
        self._upstream: dict[Attachment, asyncio.Task[None]] = {}
        self._uris: dict[Attachment, set[str]] = {}
        self._acknowledged: dict[str, asyncio.Event] = {}

    def take(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Return whether the notification is about a change or a stream.

        Open streams of the client receive the change.
        """
        meta = (params or {}).get("_meta")
        number = meta.get(SUBSCRIPTION_ID_META_KEY) if isinstance(meta, Mapping) else None
        if method == ACKNOWLEDGED:
            if (acknowledged := self._acknowledged.get(str(number))) is not None:
                acknowledged.set()
            return True
        if method not in LISTEN_STREAM_METHODS:
            return False
        told = params or {}
        for stream in self._streams:
            if stream.wants(method, str(told.get("uri")), self._private):
                stream.offer(method, told)
        return True

    async def stream(self, exchange: Exchange, params: Mapping[str, Any], owners: Owners) -> dict[str, Any]:
        """Answer `subscriptions/listen`: send changes until the client ends the stream. Raises MCPError."""
        wanted = params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise MCPError(code=INVALID_PARAMS, message="subscriptions/listen requires `notifications`.")
        if len(self._streams) >= STREAMS_MAX:
            raise MCPError(code=INTERNAL_ERROR, message="Subscription limit reached")
        asked = wanted.get("resourceSubscriptions")
        uris = [str(uri) for uri in asked] if isinstance(asked, list) else []
        kinds = frozenset(kind for kind in KIND.values() if wanted.get(kind) is True)
        honoured = {**dict.fromkeys(sorted(kinds), True), **({"resourceSubscriptions": uris} if uris else {})}
        meta = {SUBSCRIPTION_ID_META_KEY: exchange.context.request_id}
        stream = _Stream(kinds, frozenset(uris))
        self._streams.add(stream)
        tasks: list[asyncio.Task[None]] = []
        try:
            tasks = await self._promised(honoured, uris, owners)
            await exchange.tell(ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
            while (event := await stream.queue.get()) is not None:
                method, told = event
                old = told.get("_meta")
                stamped = {**(old if isinstance(old, Mapping) else {}), **meta}
                await exchange.tell(method, {**told, "_meta": stamped})
        finally:
            self._streams.discard(stream)
            for task in tasks:
                task.cancel()
        return {"_meta": meta}

    async def _promised(
        self, honoured: Mapping[str, Any], uris: Sequence[str], owners: Owners
    ) -> list[asyncio.Task[None]]:
        """Subscribe at the servers: by a stream at stateless servers, by URI at older ones."""
        modern = [each for each in self._attachments if each.modern]
        tasks, faults = [], []
        for attachment in modern:
            task, acknowledged = self._follow(attachment, honoured)
            waits = asyncio.ensure_future(acknowledged.wait())
            await asyncio.wait({task, waits}, timeout=ACKNOWLEDGE_S, return_when=asyncio.FIRST_COMPLETED)
            waits.cancel()
            if task.done() and (fault := task.exception()) is not None:
                faults.append(fault)
            else:
                tasks.append(task)
        if faults and len(faults) == len(self._attachments):
            raise faults[0]
        for uri in uris:
            for attachment in await owners(uri):
                if not attachment.modern:
                    with suppress(MCPError, ReadbackError):
                        await attachment.request("resources/subscribe", {"uri": uri})
        return tasks

    def _follow(self, attachment: Attachment, wanted: Mapping[str, Any]) -> tuple[asyncio.Task[None], asyncio.Event]:
        """Hold a stream to a server open."""
        number = f"listen-{next(_numbers)}"
        acknowledged = self._acknowledged[number] = asyncio.Event()

        async def follow() -> None:
            try:
                connection = await attachment.connection()
                await connection.request(
                    "subscriptions/listen", {"notifications": dict(wanted)}, timeout_s=STREAM_S, request_id=number
                )
            finally:
                self._acknowledged.pop(number, None)

        task = asyncio.create_task(follow())
        task.add_done_callback(_seen)
        return task, acknowledged

    def follow(self, attachment: Attachment, uri: str | None = None, *, wanted: bool = True) -> None:
        """Follow a stateless server for a handshake-era client: its lists, and one resource if wanted."""
        uris = self._uris.setdefault(attachment, set())
        if uri is not None:
            (uris.add if wanted else uris.discard)(uri)
        previous = self._upstream.pop(attachment, None)
        if previous is not None:
            previous.cancel()
        everything: dict[str, Any] = dict.fromkeys(KIND.values(), True)
        self._upstream[attachment], _ = self._follow(
            attachment, {**everything, **({"resourceSubscriptions": sorted(uris)} if uris else {})}
        )

    def close(self) -> None:
        """End all streams."""
        for stream in self._streams:
            with suppress(asyncio.QueueFull):
                stream.queue.put_nowait(None)
        for task in self._upstream.values():
            task.cancel()


def _seen(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.info("A server's stream of changes has ended: %s", error)


def _within(uri: str, of: str) -> bool:
    """Return whether the URI is the resource or a part: `a/b`, `a?b` and `a#b` are parts of `a`, `ab` is not."""
    return uri == of or (uri.startswith(of) and (of.endswith("/") or uri[len(of)] in "/?#"))
