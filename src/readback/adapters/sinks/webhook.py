"""Deliver messages to a webhook: CloudEvents JSON, signed like Standard Webhooks, with a constant id.

Chosen by bootstrap for a subscriber with `webhook` and `secret`. The sink follows no redirect, uses no proxy, and sends
no credential but the signature. Any 2xx means accepted; the body of the answer is not read. The sink uses its own
socket, so another thread can close the socket: the time limit also holds for a slow answer or a blocked connect. Only a
name lookup takes as long as the system's resolver.

``webhook-signature: v1,base64(HMAC-SHA256(secret, webhook-id + "." + webhook-timestamp + "." + body))``, the
timestamp in seconds, so that an old message cannot be replayed as new. See https://www.standardwebhooks.com.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from errno import EINPROGRESS
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from os import strerror
from selectors import EVENT_WRITE, DefaultSelector
from socket import SHUT_RDWR, SO_ERROR, SOCK_STREAM, SOL_SOCKET, getaddrinfo, socket
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from readback.canon import envelope_bytes
from readback.domain.records.message import MEDIA, Message
from readback.errors import SettingsError, SinkError

ID_HEADER: Final = "webhook-id"
TIME_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
SECRET_PREFIX: Final = "whsec_"
SECRET_MIN_BYTES: Final = 24
SECRET_MAX_BYTES: Final = 512
RETRY_AFTER_MAX_US: Final = 24 * 3600 * 1_000_000
"""Maximum pause for a receiver's request: a day. Longer requests count as a day."""
NEVER: Final = frozenset({400, 413, 415, 422})
"""Answers for a permanent rejection. All other answers may be temporary, and the message is retried."""
US: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_Address: TypeAlias = tuple[Any, Any, int, str, Any]


class WebhookSink:
    """Post to `url`. `secret` is shared with the verifier of the signature. `now_us` is the clock.

    Raises SettingsError for a URL that is neither https nor on this machine, and for a short secret.
    """

    def __init__(
        self, url: str, secret: bytes, *, now_us: Callable[[], int], timeout_s: float, tls: ssl.SSLContext | None = None
    ) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            parts, host, port = urlsplit(""), "", None
        here = parts.scheme == "http" and _is_here(host)
        if not host or parts.username or not url.isascii() or not (parts.scheme == "https" or here):
            raise SettingsError(
                "A webhook takes an https URL without credentials; http only on this machine.",
                remedy="Correct the URL; the secret belongs under secret.",
            )
        self._secret = secret_bytes(secret)
        self._now_us, self._timeout_s = now_us, timeout_s
        self._host, self._port = host, port or (80 if here else 443)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._tls = None if here else tls or ssl.create_default_context()
        self._lock = threading.Lock()
        self._socket: socket | None = None
        self._stopped = False

    def deliver(self, message: Message) -> None:
        """Raises SinkError without a 2xx answer in time."""
        body = envelope_bytes(message.as_json())
        try:
            with self._bounded() as connection:
                connection.request("POST", self._path, body, self._headers(message.id, body))
                with connection.getresponse() as answer:  # the body is not read
                    status, pause = answer.status, answer.getheader("Retry-After")
        except (HTTPException, OSError, ValueError) as error:
            raise SinkError(f"The webhook at {self._host} failed: {type(error).__name__}.") from error
        if not 200 <= status < 300:
            details = {"final": status in NEVER, "retry_after_us": self._pause(pause)}
            raise SinkError(f"The webhook at {self._host} answered {status}.", details=details)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            _shut(self._socket)

    @contextmanager
    def _bounded(self) -> Iterator[HTTPConnection]:
        """A connection under the time limit as a whole, from the first packet."""
        late = threading.Event()

        def end() -> None:
            late.set()
            with self._lock:
                _shut(self._socket)

        where = getaddrinfo(self._host, self._port, type=SOCK_STREAM)
        watch = threading.Timer(self._timeout_s, end)
        watch.daemon = True
        watch.start()
        try:
            made = self._connected(where, late)
            tls = self._tls
            if tls is not None:
                # Register before the handshake: a slow peer could stretch the handshake.
                made = tls.wrap_socket(made, False, False, server_hostname=self._host)
                self._register(made, late)
                made.do_handshake()
            kind = HTTPConnection if tls is None else HTTPSConnection
            connection = kind(self._host, self._port)
            connection.sock = made
            yield connection
            connection.close()
            if late.is_set():
                raise TimeoutError  # a cut answer may parse like a whole answer
        finally:
            watch.cancel()
            watch.join()
            with self._lock:
                made_last, self._socket = self._socket, None
            if made_last is not None:
                made_last.close()

    def _connected(self, where: Sequence[_Address], late: threading.Event) -> socket:
        """Connect to the first accepting address. The connect starts before the registration: only then does a close
        end the wait.
        """
        fault: OSError = OSError("the name has no address")
        for family, kind, protocol, _, address in where:
            made = socket(family, kind, protocol)
            try:
                made.setblocking(False)
                begun = made.connect_ex(address)
                self._register(made, late)
                if begun not in (0, EINPROGRESS):
                    raise OSError(begun, strerror(begun))
                _await(made, self._timeout_s)
                self._register(made, late)
                made.settimeout(self._timeout_s)
                return made
            except OSError as error:
                made.close()
                fault = error
                if late.is_set() or self._stopped:
                    break
        raise fault

    def _register(self, made: socket, late: threading.Event) -> None:
        """Let another thread close the socket from now on. Raises after an earlier close request."""
        with self._lock:
            self._socket = made
            if late.is_set() or self._stopped:
                raise TimeoutError

    def _headers(self, message_id: str, body: bytes) -> dict[str, str]:
        at = str(self._now_us() // US)
        return {
            "Content-Type": f"{MEDIA}; charset=utf-8",
            "Connection": "close",
            "User-Agent": "readback",
            ID_HEADER: message_id,
            TIME_HEADER: at,
            SIGNATURE_HEADER: signature(self._secret, message_id, at, body),
        }

    def _pause(self, asked: str | None) -> int:
        """Return the receiver's requested pause: seconds, or a date."""
        if asked is None:
            return 0
        text = asked.strip()
        if text.isascii() and text.isdigit():
            return min(int(text[:9]) * US, RETRY_AFTER_MAX_US)
        try:
            until = parsedate_to_datetime(text)
        except (TypeError, ValueError, OverflowError):
            return 0
        until = until.replace(tzinfo=UTC) if until.tzinfo is None else until  # `-0000` means UTC with an unknown zone
        until_us = (until - _EPOCH) // _SECOND * US
        return min(max(until_us - self._now_us(), 0), RETRY_AFTER_MAX_US)


def secret_bytes(secret: bytes) -> bytes:
    """Return the key of a secret: base64 behind `whsec_`, or the bytes unchanged. Raises SettingsError."""
    key = secret
    if secret.startswith(SECRET_PREFIX.encode()):
        try:
            key = base64.b64decode(secret[len(SECRET_PREFIX) :], validate=True)
        except binascii.Error as error:
            raise SettingsError(f"What follows {SECRET_PREFIX} in a webhook's secret is no base64.") from error
    if not SECRET_MIN_BYTES <= len(key) <= SECRET_MAX_BYTES:
        raise SettingsError(
            f"The secret of a webhook has not {SECRET_MIN_BYTES} to {SECRET_MAX_BYTES} bytes.",
            remedy="Use one as from `openssl rand -hex 32`.",
        )
    return key


def signature(key: bytes, message_id: str, at: str, body: bytes) -> str:
    """Return the signature header for a body sent at a time in seconds."""
    signed = hmac.new(key, f"{message_id}.{at}.".encode() + body, sha256).digest()
    return "v1," + base64.b64encode(signed).decode()


def _await(made: socket, timeout_s: float) -> None:
    """Wait for the connection. Raises OSError for a refusal, a close, or a timeout."""
    with DefaultSelector() as waiting:
        waiting.register(made, EVENT_WRITE)
        if not waiting.select(timeout_s):
            raise TimeoutError
    fault = made.getsockopt(SOL_SOCKET, SO_ERROR)
    if fault:
        raise OSError(fault, strerror(fault))


def _shut(found: socket | None) -> None:
    """End every wait on a socket. Skips TLS's goodbye, since TLS would wait for the other side."""
    if found is not None:
        with suppress(OSError):
            socket.shutdown(found, SHUT_RDWR)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


__all__ = ["ID_HEADER", "SIGNATURE_HEADER", "TIME_HEADER", "WebhookSink", "secret_bytes", "signature"]
