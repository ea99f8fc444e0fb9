"""An anchor behind HTTP: PUT and GET of the last checkpoint at a URL.

Chosen by bootstrap for `https:` URLs, and for `http:` on this machine. The anchor follows no redirect and trusts only a
status and a bounded body. A write replaces only the version read before where the server names versions (ETag), and
nothing where none was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from readback.adapters.log.anchor_http_client import Answer, ask
from readback.errors import AnchorError, AnchorRefusedError, SettingsError
from readback.log.note import NOTE_MAX_BYTES
from readback.ports.anchor import Proof


def http_anchor(url: str, token: str = "") -> HttpAnchor:
    """Return the anchor at a URL. Raises SettingsError where the URL is neither https nor on this machine."""
    parts = urlsplit(url)
    here = parts.scheme == "http" and _is_here(parts.hostname or "")
    if not parts.hostname or parts.username or parts.fragment or not (parts.scheme == "https" or here):
        raise SettingsError(
            f"The anchor {parts.hostname or url!r} is no https URL without credentials; http only on this machine.",
            remedy="Correct the URL; a bearer token belongs under `secret` of [seal].",
        )
    return HttpAnchor(url, url, token)


class HttpAnchor:
    """Implements `Anchor`. `token`: a bearer token, or ""."""

    __slots__ = ("_empty", "_etag", "_headers", "_url", "name")

    def __init__(self, name: str, url: str, token: str = "") -> None:
        self.name = name
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._etag = ""
        self._empty = False

    @property
    def shows(self) -> bool:
        return True

    def last(self) -> bytes | None:
        status, body, headers = self._ask("GET", more={"Cache-Control": "no-cache"})
        if headers.get("age", "0").strip() != "0":
            raise AnchorError(
                f"The anchor {self.name} was shown by a cache: what is kept there may be newer.",
                remedy="Let nothing on the way to the anchor keep its answers.",
            )
        self._etag = headers.get("ETag", "") if status == 200 else ""
        self._empty = status in (404, 410)
        if self._empty:
            return None
        if status != 200:
            raise _refused(self.name, status)
        return body

    def take(self, note: bytes, size: int, proof: Proof) -> bytes:
        only_if = {"If-Match": self._etag} if self._etag else {"If-None-Match": "*"} if self._empty else {}
        status, _, _ = self._ask("PUT", note, {"Content-Type": "text/plain; charset=utf-8", **only_if})
        if not 200 <= status < 300:
            raise _refused(self.name, status)
        self._etag, self._empty = "", False
        return b""

    def _ask(self, method: str, body: bytes | None = None, more: Mapping[str, str] | None = None) -> Answer:
        headers = {**self._headers, **(more or {})}
        return ask(f"The anchor {self.name}", method, self._url, body, headers, NOTE_MAX_BYTES)


def _refused(name: str, status: int) -> AnchorRefusedError:
    return AnchorRefusedError(f"The anchor {name} answered {status}.")


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
