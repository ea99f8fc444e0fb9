"""What is checked of every HTTP request before anything reads it: the names by which the gateway was addressed.

A page in a browser can send requests to a server on loopback or in the same network: under a name of its own that
leads there (then `Host` says that name), or across origins (then `Origin` says the page's). Source: Model Context
Protocol, streamable HTTP transport, "Security Warning"; RFC 9110, sections 5.5 and 7.2; RFC 6454, section 7.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from ipaddress import ip_address
from typing import Final

from mcp_types import INVALID_REQUEST

from readback.agent_errors import ForeignRequestError
from readback.canon import ReadbackError
from readback.errors import SettingsError
from readback.gateway.serving.http_fast_path import App, Receive, Scope, Send

# A refusal over HTTP, as a JSON-RPC error without a request's id: nothing of the request was read.


async def refuse(send: Send, status: int, error: ReadbackError) -> None:
    """Answer a request with a status and an error of ours."""
    said = {"code": INVALID_REQUEST, "message": str(error), "data": {"code": error.code, "remedy": error.remedy}}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": said}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
NAME_REMEDY: Final = "Write the name by which clients reach it, such as gateway.example, without scheme or port."
_NAME: Final = rb"(?P<name>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z_.-]+)"
_PORT: Final = rb"(?::[0-9]{1,5})?"
_HOST: Final = re.compile(_NAME + _PORT)
_ORIGIN: Final = re.compile(rb"(?P<scheme>[Hh][Tt][Tt][Pp][Ss]?)://" + _NAME + _PORT)
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
MISDIRECTED: Final = 421

Refusal = tuple[int, ReadbackError]


class HttpGuard:
    """An ASGI application in front of another one. `host`: the address that the gateway listens at; `allowed`: more
    names by which clients reach it.

    The `Host` has to be one of these names, and an `Origin` has to be an `http` or `https` origin of one (of loopback:
    `http`). Raises SettingsError for an `allowed` that is no name, and at every address at once without one.
    """

    def __init__(self, app: App, host: str, allowed: Collection[str] = ()) -> None:
        self._app = app
        self._names = names(host, allowed)

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
        if not self._is_own(_HOST, hosts[0]):
            said = f"The Host {hosts[0][:200]!r} is no name of this gateway."
            return MISDIRECTED, ForeignRequestError(said)
        if origins and not (len(origins) == 1 and self._is_own(_ORIGIN, origins[0])):
            said = f"The Origin {b', '.join(origins)[:200]!r} is no origin of this gateway."
            return FORBIDDEN, ForeignRequestError(said)
        return None

    def _is_own(self, form: re.Pattern[bytes], value: bytes) -> bool:
        """Whether the whole value has the form, and its name is one of the gateway's. Case says nothing."""
        found = form.fullmatch(value)
        if found is None:
            return False
        name = found["name"].decode("ascii").lower()
        is_secure = found.groupdict().get("scheme", b"").lower() == b"https"
        return name in self._names and not (is_secure and name in LOOPBACK)


def names(host: str, allowed: Collection[str] = ()) -> frozenset[str]:
    """The names by which a gateway at this address may be called, in small letters. Raises SettingsError."""
    found = {_allowed(each) for each in allowed}
    try:
        address = ip_address(host)
    except ValueError:
        return frozenset(found | (LOOPBACK if host.lower() == "localhost" else {host.lower()}))
    if address.is_unspecified:
        if not found:
            raise SettingsError(
                f"At {host} the gateway does not know by which names it is reached, so any page could reach it too.",
                remedy="Name them: --allow-host NAME for each; or serve at one address of this machine (--host).",
            )
        return frozenset(found)
    bare = str(address).partition("%")[0]  # clients leave the zone out
    shown = f"[{bare}]" if address.version == 6 else bare
    return frozenset(found | (LOOPBACK if address.is_loopback else set()) | {shown})


def _allowed(name: str) -> str:
    """Raises SettingsError."""
    bare = f"[{name}]" if ":" in name and not name.startswith("[") else name
    found = _HOST.fullmatch(bare.encode("utf-8", "replace"))
    if found is None or found["name"].decode("ascii") != bare:
        raise SettingsError(f"{name!r:.200} is no name of a host.", remedy=NAME_REMEDY)
    return bare.lower()
