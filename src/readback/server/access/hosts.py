"""The server's own names: checked in `Host` and `Origin` before any other code reads a request.

A page in a browser can send requests to a server on loopback or in the same network. DNS rebinding shows the page's
name in `Host`; a request across origins shows the page in `Origin`.
Source: RFC 9110, sections 5.5 and 7.2; RFC 6454, section 7; OWASP "DNS rebinding".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from ipaddress import ip_address
from typing import Final

from readback.errors import SettingsError
from readback.server.errors import ForeignHostError

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
MISDIRECTED: Final = 421
SHOWN_MAX: Final = 200
_NAME: Final = rb"(?P<name>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z_.-]+)"
_HOST: Final = re.compile(_NAME + rb"(?P<port>:[0-9]{1,5})?")
_ORIGIN: Final = re.compile(rb"(?P<scheme>[Hh][Tt][Tt][Pp][Ss]?)://" + _NAME + rb"(?P<port>:[0-9]{1,5})?")

Headers = Iterable[tuple[bytes, bytes]]


class HostNames:
    """The names by which clients reach a server at `host`, and `allowed` names besides.

    Raises SettingsError for an invalid name, and for a wildcard address without allowed names.
    """

    def __init__(self, host: str, allowed: Collection[str] = ()) -> None:
        self.names = _names(host, allowed)
        self._seen: set[bytes] = set()
        """Accepted values of Host, bounded: most requests of a client repeat one value."""

    def check(self, headers: Headers) -> int:
        """Return 0 for a request addressed to this server, else the HTTP status of `refusal`."""
        hosts, origins = [], []
        for name, value in headers:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origins.append(value)
        if len(hosts) != 1:
            return BAD_REQUEST
        if hosts[0] not in self._seen:
            if not self._is_own(_HOST, hosts[0]):
                return MISDIRECTED
            if len(self._seen) < SHOWN_MAX:
                self._seen.add(hosts[0])
        if origins and not (len(origins) == 1 and self._is_same_origin(origins[0], hosts[0])):
            return FORBIDDEN
        return 0

    @staticmethod
    def refusal(status: int) -> ForeignHostError:
        """Return the error for a status of `check`."""
        said = {
            BAD_REQUEST: "The request needs exactly one Host header.",
            MISDIRECTED: "The request's Host is no name of this server.",
            FORBIDDEN: "The request's Origin is no origin of this server.",
        }
        return ForeignHostError(said[status])

    def _is_own(self, form: re.Pattern[bytes], value: bytes) -> bool:
        found = form.fullmatch(value)
        return found is not None and found["name"].decode("ascii").lower() in self.names

    def _is_same_origin(self, origin: bytes, host: bytes) -> bool:
        """Return whether the origin is the server's: the same name, and the same port unless a proxy hides the port."""
        found, own = _ORIGIN.fullmatch(origin), _HOST.fullmatch(host)
        if found is None or own is None or found["name"].lower() != own["name"].lower():
            return False
        if own["name"].decode("ascii").lower() in LOOPBACK:  # other programs of this machine have other ports
            return found["port"] == own["port"] and found["scheme"].lower() == b"http"
        return found["port"] == own["port"]


def is_loopback(host: str) -> bool:
    """Return whether an address accepts connections of this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _names(host: str, allowed: Collection[str]) -> frozenset[str]:
    found = {_allowed(each) for each in allowed}
    try:
        address = ip_address(host)
    except ValueError:
        return frozenset(found | (LOOPBACK if host.lower() == "localhost" else {host.lower()}))
    if address.is_unspecified:
        if not found:
            raise SettingsError(
                f"At {host} the server does not know its own names, so any page could reach the server.",
                remedy="Name them: --allow-host NAME for each; or serve at one address of this machine (--host).",
            )
        return frozenset(found)
    bare = str(address).partition("%")[0]  # clients leave the zone out
    shown = f"[{bare}]" if address.version == 6 else bare
    return frozenset(found | (LOOPBACK if address.is_loopback else set()) | {shown})


def _allowed(name: str) -> str:
    bare = f"[{name}]" if ":" in name and not name.startswith("[") else name
    found = _HOST.fullmatch(bare.encode("utf-8", "replace"))
    if found is None or found["name"].decode("ascii") != bare:
        raise SettingsError(
            f"{name!r:.200} is not a host name.",
            remedy="Write the name by which clients reach the server, without scheme or port.",
        )
    return bare.lower()
