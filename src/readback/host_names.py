"""The names by which clients reach an HTTP server of ours: the gateway, or the server of the API.

A page in a browser can send requests to a server on loopback or in the same network. DNS rebinding shows the page's
name in `Host`, and a request across origins shows the page in `Origin`. Both headers are compared with these names.
Source: RFC 9110, sections 5.5 and 7.2; RFC 6454, section 7; OWASP "DNS rebinding".
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_address
from typing import Final

from readback.errors import SettingsError

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
MISDIRECTED: Final = 421
_NAME: Final = rb"(?P<name>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z_.-]+)"
_PORT: Final = rb"(?P<port>:[0-9]{1,5})?"
HOST: Final = re.compile(_NAME + _PORT)
"""The form of a `Host` header."""
ORIGIN: Final = re.compile(rb"(?P<scheme>[Hh][Tt][Tt][Pp][Ss]?)://" + _NAME + _PORT)
"""The form of an `Origin` header."""


def names_of(host: str, allowed: Collection[str] = ()) -> frozenset[str]:
    """Return the names of a server, in lower case.

    Args:
        host: The listening address, or a name of it.
        allowed: More names used by clients, such as "gateway.example".

    Raises:
        SettingsError: a name is invalid, or a wildcard address has no allowed name.
    """
    found = {_checked(each) for each in allowed}
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


def is_loopback(host: str) -> bool:
    """Return whether an address accepts connections of this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _checked(name: str) -> str:
    bare = f"[{name}]" if ":" in name and not name.startswith("[") else name
    found = HOST.fullmatch(bare.encode("utf-8", "replace"))
    if found is None or found["name"].decode("ascii") != bare:
        raise SettingsError(
            f"{name!r:.200} is not a host name.",
            remedy="Write the name by which clients reach the server, such as gateway.example, without scheme or port.",
        )
    return bare.lower()
