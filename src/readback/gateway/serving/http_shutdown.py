"""End HTTP serving: close listening streams at once, and end interrupted calls with a proper response.

In front of every other application. Handshake-era clients hold a stream open while connected, and listeners for changes
do too. Neither stream has a call for the shutdown to wait for.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

LISTENS: Final = (b"mcp-method", b"subscriptions/listen")
_CUT_OFF: Final = b"The gateway ended before there was an answer. What was called may have been done.\n"
_PLAIN: Final = [(b"content-type", b"text/plain"), (b"content-length", str(len(_CUT_OFF)).encode("ascii"))]


class HttpEnd:
    """An ASGI application in front of another application. Call `end` at the gateway's end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._listening: set[asyncio.Task[Any]] = set()
        self._ending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self._app(scope, receive, send)
            return
        begun = over = False

        async def sent(message: Any) -> None:
            nonlocal begun, over
            begun = True
            over = over or (message["type"] == "http.response.body" and not message.get("more_body"))
            await send(message)

        listens = scope["method"] == "GET" or LISTENS in scope["headers"]
        if listens:
            self._listening.add(task)
        try:
            await self._app(scope, receive, sent)
        except asyncio.CancelledError:
            if not self._ending:
                raise
            task.uncancel()
            if not over:
                await _cut_off(send, begun=begun)
        finally:
            self._listening.discard(task)

    def end(self) -> None:
        """From now on, treat a cancelled request as ended by the gateway."""
        self._ending = True
        for task in self._listening:
            task.cancel()


async def _cut_off(send: Send, *, begun: bool) -> None:
    if begun:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return
    await send({"type": "http.response.start", "status": 503, "headers": _PLAIN})
    await send({"type": "http.response.body", "body": _CUT_OFF, "more_body": False})
