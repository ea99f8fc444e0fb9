"""An anchor behind HTTP: the last checkpoint is put under a URL, and got from there.

Chosen by bootstrap for `https:` URLs (`http:` on this machine alone). It follows no redirect, believes no answer but a
status and a bounded body, and replaces only what it read before where the server names versions (ETag), and nothing
where it found nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from readback.domain.errors import SettingsError
from readback.domain.errors.anchor import AnchorError, AnchorRefusedError
from readback.ledger.note import NOTE_MAX_BYTES
from readback.ports.anchor import Proof

if TYPE_CHECKING:
    import httpx

TIMEOUT_SECONDS: Final = 5.0


def http_anchor(url: str, token: str = "") -> HttpAnchor:
    """The anchor at a URL. Raises SettingsError where that is neither https nor on this machine."""
    parts = urlsplit(url)
    here = parts.scheme == "http" and _is_here(parts.hostname or "")
    if not parts.hostname or parts.username or parts.fragment or not (parts.scheme == "https" or here):
        raise SettingsError(
            f"The anchor {parts.hostname or url!r} is no https URL without credentials; http only on this machine.",
            remedy="Correct the URL; a bearer token belongs under `secret` of [seal].",
        )
    return HttpAnchor(url, url, token)


class HttpAnchor:
    """Keeps `Anchor`. `token`: sent as a bearer token where it is not empty."""

    __slots__ = ("_empty", "_etag", "_headers", "_timeout_s", "_url", "name")

    def __init__(self, name: str, url: str, token: str = "", *, timeout_s: float = TIMEOUT_SECONDS) -> None:
        self.name = name
        self._url, self._timeout_s = url, timeout_s
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

    def _ask(
        self, method: str, body: bytes | None = None, more: dict[str, str] | None = None
    ) -> tuple[int, bytes, Mapping[str, str]]:
        import httpx

        limit = httpx.Timeout(self._timeout_s)
        try:
            with (
                httpx.Client(timeout=limit, follow_redirects=False, trust_env=False) as client,
                client.stream(method, self._url, content=body, headers={**self._headers, **(more or {})}) as answer,
            ):
                return answer.status_code, _bounded(answer, self.name), answer.headers
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise AnchorError(f"The anchor {self.name} cannot be reached: {type(error).__name__}.") from error


def _bounded(answer: httpx.Response, name: str) -> bytes:
    found = b""
    for piece in answer.iter_bytes(NOTE_MAX_BYTES):
        found += piece
        if len(found) > NOTE_MAX_BYTES:
            raise AnchorRefusedError(f"The anchor {name} answered with over {NOTE_MAX_BYTES} bytes.")
    return found


def _refused(name: str, status: int) -> AnchorRefusedError:
    return AnchorRefusedError(f"The anchor {name} answered {status}.")


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
