"""Mark the messages of HTTP clients in front of the SDK's server (`text_marks`)."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from readback.gateway.wire.jsonl import MESSAGE_MAX_BYTES
from readback.gateway.wire.text_marks import marked, sent


class HttpTexts:
    """An ASGI application in front of the SDK's."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: MutableMapping[str, Any] | None = None

        async def out(message: MutableMapping[str, Any]) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message  # its length is known with its body
                return
            body = sent(message.get("body", b""))
            if start is not None:
                begun, start = start, None
                if len(body) != len(message.get("body", b"")):
                    begun = {**begun, "headers": _resized(begun["headers"], len(body))}
                await send(begun)
            await send({**message, "body": body})

        await self._app(scope, _Body(receive).receive if scope["method"] == "POST" else receive, out)


def _resized(headers: Any, size: int) -> list[tuple[bytes, bytes]]:
    return [
        (name, str(size).encode("ascii") if name.lower() == b"content-length" else value) for name, value in headers
    ]


class _Body:
    """A request's whole body. Later messages pass unchanged."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._whole = receive, False

    async def receive(self) -> MutableMapping[str, Any]:
        if self._whole:
            return await self._receive()
        parts, size = [], 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if not message.get("more_body") or size > MESSAGE_MAX_BYTES:
                break
        self._whole = True
        whole = b"".join(parts)
        return {**message, "body": marked(whole, from_client=True) if size <= MESSAGE_MAX_BYTES else whole}
