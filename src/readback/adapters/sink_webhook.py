"""Tells an incident to a webhook: JSON, signed with HMAC-SHA256, under an id that stays the same.

Chosen by bootstrap from the settings' keys `incident_webhook` and `incident_secret`. It follows no redirect, sends no
credential but the signature, and takes any 2xx for "taken". The answer's body is not read as anything.

The signature is over the time and the body, so that an old notice cannot be sent again as a new one:
``hex(HMAC-SHA256(secret, X-Readback-Time + "." + body))``.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from readback.canon import envelope_bytes
from readback.domain.errors import SettingsError, SinkError
from readback.ports.sink import IncidentNotice

TIMEOUT_SECONDS: Final = 10.0
ID_HEADER: Final = "Idempotency-Key"
TIME_HEADER: Final = "X-Readback-Time"
SIGNATURE_HEADER: Final = "X-Readback-Signature"
SECRET_MIN_BYTES: Final = 16


class WebhookSink:
    """Posts to `url`. `secret` is shared with whoever checks the signature; `now_us` is the clock.

    Raises SettingsError for a URL that is neither https nor on this machine, or a secret under 16 bytes.
    """

    def __init__(
        self, url: str, secret: bytes, *, now_us: Callable[[], int], timeout_s: float = TIMEOUT_SECONDS
    ) -> None:
        parts = urlsplit(url)
        here = parts.scheme == "http" and _is_here(parts.hostname or "")
        if not parts.hostname or parts.username or not (parts.scheme == "https" or here):
            raise SettingsError(
                "incident_webhook takes an https URL without credentials; http only on this machine.",
                remedy="Correct the URL; the secret belongs under incident_secret.",
            )
        if len(secret) < SECRET_MIN_BYTES:
            raise SettingsError(
                f"The secret of incident_webhook has under {SECRET_MIN_BYTES} bytes.",
                remedy="Use a longer one, as from `openssl rand -hex 32`.",
            )
        self._url, self._secret, self._now_us, self._timeout_s = url, secret, now_us, timeout_s
        self._host = parts.hostname

    def tell(self, notice: IncidentNotice) -> None:
        """Raises SinkError where it is not answered with 2xx in time."""
        import httpx

        body = envelope_bytes(notice.as_json())
        try:
            answer = self._post(body, notice.id)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise SinkError(f"The incident webhook at {self._host} failed: {type(error).__name__}.") from error
        if not 200 <= answer < 300:
            raise SinkError(f"The incident webhook at {self._host} answered {answer}.")

    def _post(self, body: bytes, incident_id: str) -> int:
        import httpx

        at = str(self._now_us())
        headers = {
            "Content-Type": "application/json",
            ID_HEADER: incident_id,
            TIME_HEADER: at,
            SIGNATURE_HEADER: signature(self._secret, at, body),
        }
        limit = httpx.Timeout(self._timeout_s)
        with (
            httpx.Client(timeout=limit, follow_redirects=False, trust_env=False) as client,
            client.stream("POST", self._url, content=body, headers=headers) as response,
        ):
            return int(response.status_code)  # whatever else it says is not read


def signature(secret: bytes, at: str, body: bytes) -> str:
    """What stands in the signature header for a body sent at a time."""
    return hmac.new(secret, at.encode() + b"." + body, sha256).hexdigest()


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


__all__ = ["ID_HEADER", "SIGNATURE_HEADER", "TIME_HEADER", "WebhookSink", "signature"]
