"""What is checked of every HTTP request before anything reads it: the names by which the gateway was addressed.

A page in a browser can send requests to a server on loopback: under a name of its own that leads there (then `Host`
says that name), or across origins (then `Origin` says the page's). Source: Model Context Protocol, streamable HTTP
transport, "Security Warning"; RFC 9110, sections 5.5 and 7.2; RFC 6454, section 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from readback.canon import ReadbackError
from readback.domain.errors.gateway import ForeignRequestError
from readback.surfaces.mcp.http_lane import App, Receive, Scope, Send
from readback.surfaces.mcp.http_refusal import refuse

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_NAME: Final = rb"(?P<name>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z_.-]+)(?::[0-9]{1,5})?"
_HOST: Final = re.compile(_NAME)
_ORIGIN: Final = re.compile(rb"[Hh][Tt][Tt][Pp]://" + _NAME)
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
MISDIRECTED: Final = 421

Refusal = tuple[int, ReadbackError]


class HttpGuard:
    """An ASGI application in front of another one. `host`: the address that the gateway listens at.

    On loopback the `Host` has to name loopback, and an `Origin` has to be one of loopback. At another address the
    gateway does not know its own names: then the `Host` has to be there once, and nothing else is checked.
    """

    def __init__(self, app: App, host: str) -> None:
        self._app = app
        self._names = _names(host)

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
        """Return the status and the error for a request with these headers; None where it may pass."""
        hosts, origins = [], []
        for name, value in headers:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origins.append(value)
        if len(hosts) != 1:
            said = f"The request has {len(hosts)} Host headers; it needs exactly one."
            return BAD_REQUEST, ForeignRequestError(said)
        if self._names is None:
            return None
        if not _is_one_of(self._names, _HOST, hosts[0]):
            said = f"The gateway listens on loopback, and the Host {hosts[0][:200]!r} is no name of it."
            return MISDIRECTED, ForeignRequestError(said)
        if origins and not (len(origins) == 1 and _is_one_of(self._names, _ORIGIN, origins[0])):
            said = f"The gateway listens on loopback, and the Origin {b', '.join(origins)[:200]!r} is elsewhere."
            return FORBIDDEN, ForeignRequestError(said)
        return None


def _names(host: str) -> frozenset[str] | None:
    """The names of an address of loopback, in small letters; None for another address."""
    try:
        found = ip_address(host)
    except ValueError:
        return LOOPBACK if host.lower() == "localhost" else None
    shown = f"[{found}]" if found.version == 6 else str(found)
    return LOOPBACK | {shown} if found.is_loopback else None


def _is_one_of(names: frozenset[str], form: re.Pattern[bytes], value: bytes) -> bool:
    """Whether the whole value has the form, and its name is one of these. Case says nothing."""
    found = form.fullmatch(value)
    return found is not None and found["name"].decode("ascii").lower() in names
