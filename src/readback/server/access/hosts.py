"""The check of `Host` and `Origin` before the server reads a request. `host_names` describes the attacks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from readback.host_names import BAD_REQUEST, FORBIDDEN, HOST, LOOPBACK, MISDIRECTED, ORIGIN, names_of
from readback.server.errors import ForeignHostError

SHOWN_MAX: Final = 200

Headers = Iterable[tuple[bytes, bytes]]


class HostNames:
    """The names by which clients reach a server at `host`, and `allowed` names besides.

    Raises SettingsError for an invalid name, and for a wildcard address without allowed names.
    """

    def __init__(self, host: str, allowed: Collection[str] = ()) -> None:
        self.names = names_of(host, allowed)
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
            if not self._is_own(HOST, hosts[0]):
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
        found, own = ORIGIN.fullmatch(origin), HOST.fullmatch(host)
        if found is None or own is None or found["name"].lower() != own["name"].lower():
            return False
        if own["name"].decode("ascii").lower() in LOOPBACK:  # other programs of this machine have other ports
            return found["port"] == own["port"] and found["scheme"].lower() == b"http"
        return found["port"] == own["port"]
