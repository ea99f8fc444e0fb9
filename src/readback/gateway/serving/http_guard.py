"""Check each HTTP request before any other code reads the request: the gateway's name in `Host` and `Origin`.

A page in a browser can send requests to a server on loopback or in the same network. The page uses either its own name
for the address (`Host` shows the name) or another origin (`Origin` shows the page's). Source: Model Context Protocol,
streamable HTTP transport, "Security Warning"; RFC 9110, sections 5.5 and 7.2; RFC 6454, section 7.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable

from mcp_types import INVALID_REQUEST
from starlette.types import ASGIApp, Receive, Scope, Send

from readback.agent_errors import ForeignRequestError
from readback.canon import ReadbackError
from readback.host_names import BAD_REQUEST, FORBIDDEN, HOST, LOOPBACK, MISDIRECTED, ORIGIN, names_of

# A refusal over HTTP, as a JSON-RPC error without a request's id: nothing of the request was read.


async def refuse(send: Send, status: int, error: ReadbackError) -> None:
    """Answer a request with a status and an error."""
    said = {"code": INVALID_REQUEST, "message": str(error), "data": {"code": error.code, "remedy": error.remedy}}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": said}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


Refusal = tuple[int, ReadbackError]


class HttpGuard:
    """An ASGI application in front of another application.

    `host`: the gateway's listening address. `allowed`: more names used by clients.

    `Host` must be one of these names. `Origin` must be an `http` or `https` origin of such a name (of loopback:
    `http`). Raises SettingsError for an invalid name in `allowed`, and for a wildcard address without `allowed`.
    """

    def __init__(self, app: ASGIApp, host: str, allowed: Collection[str] = ()) -> None:
        self._app = app
        self._names = names_of(host, allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            # Blanks around a value are no part of it; llhttp hands them on.
            scope["headers"] = headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
            refusal = self.refusal(headers)
            if refusal is not None:
                await refuse(send, *refusal)
                return
        await self._app(scope, receive, send)

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
        """Return the status and error for a request with these headers, or None to pass the request."""
        hosts, origins = [], []
        for name, value in headers:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origins.append(value)
        if len(hosts) != 1:
            said = f"The request has {len(hosts)} Host headers; it needs exactly one."
            return BAD_REQUEST, ForeignRequestError(said)
        if not self._is_own(HOST, hosts[0]):
            said = f"The Host {hosts[0][:200]!r} is no name of this gateway."
            return MISDIRECTED, ForeignRequestError(said)
        if origins and not (len(origins) == 1 and self._is_own(ORIGIN, origins[0])):
            said = f"The Origin {b', '.join(origins)[:200]!r} is no origin of this gateway."
            return FORBIDDEN, ForeignRequestError(said)
        return None

    def _is_own(self, form: re.Pattern[bytes], value: bytes) -> bool:
        """Return whether the whole value matches the form and names the gateway, in any case."""
        found = form.fullmatch(value)
        if found is None:
            return False
        name = found["name"].decode("ascii").lower()
        is_secure = found.groupdict().get("scheme", b"").lower() == b"https"
        return name in self._names and not (is_secure and name in LOOPBACK)
