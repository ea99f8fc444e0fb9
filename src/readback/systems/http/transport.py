"""The transport of the HTTP executor and the HTTP source: addresses confined to the allowed hosts, and one time limit.

The transport uses no cookies, redirects, retries or environment settings, and judges no answer.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from socket import SHUT_RDWR, socket
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

from readback.canon.limits import PAYLOAD_MAX_BYTES
from readback.errors import (
    ArgumentError,
    HeaderInjectionError,
    ReaderFailedError,
    ReaderTypeError,
    UsageError,
)
from readback.systems.http.answer import Answer

if TYPE_CHECKING:
    import ssl

    import httpx


# One time limit for a whole answer.

_CONNECTED: Final = frozenset({"connection.connect_tcp.complete", "connection.start_tls.complete"})


class Limit:
    """Close a connection at the end of the time limit, in every state of the connection. `late` records the expiry.

    httpx limits each read of a socket alone. A server sending a byte now and then could hold the caller forever.
    """

    def __init__(self, seconds: float) -> None:
        self.late = False
        self._lock = threading.Lock()
        self._socket: socket | None = None
        self._watch = threading.Timer(seconds, self._end)
        self._watch.daemon = True

    def __enter__(self) -> Limit:
        """Start the timer. Raises OSError where the system starts no thread: nothing was sent."""
        try:
            self._watch.start()
        except RuntimeError as error:
            raise OSError("the system starts no more threads") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.cancel()
        self._watch.join()

    def on_trace_event(self, event: str, info: Mapping[str, Any]) -> None:
        """Receive httpx's trace events of the connection."""
        if event in _CONNECTED:
            self.attach(info["return_value"])

    def attach(self, stream: Any) -> None:
        """Set the connection of the answer. For a reused connection, httpx reports it with the head of the answer."""
        with self._lock:
            self._socket = stream.get_extra_info("socket")
            if self.late:
                self._shut()

    def _end(self) -> None:
        with self._lock:
            self.late = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                socket.shutdown(self._socket, SHUT_RDWR)  # skip TLS's goodbye: TLS would wait for the peer


Values: TypeAlias = Mapping[str, str | int]

PLACEHOLDER: Final = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_PATH_SAFE: Final = "/%:@!$&'()*+,;=~"
_UP: Final = re.compile(r"(?:^|[/\\])\.{1,2}(?:[/\\]|$)")
"""Path steps to another resource, also where a proxy decodes the address before parsing."""


class Service:
    """A service, and a client for this service alone. `hosts`: allowed names, with or without a port.

    Executor and source each have a `Service`: they share code, and no connection.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        hosts: Collection[str] | None,
        timeout_s: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        import httpx

        self._name = name
        try:
            self._base = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            raise UsageError(f"The address of {name!r} is malformed: {error}") from error
        if self._base.scheme not in ("http", "https") or not self._base.host or self._base.query:
            raise UsageError(f"{name!r} needs an address that begins with http:// or https:// and has no query.")
        if self._base.userinfo:
            raise UsageError(
                f"The address of {name!r} contains a credential. Pass the credential as a header, by reference."
            )
        own = self._base.netloc.decode("ascii")
        self._hosts = frozenset(host.lower() for host in ({own} if hosts is None else hosts))
        # Plain addresses skip loading certificates (0.1 s). https is then refused.
        self._plain = self._base.scheme == "http" and hosts is None
        self.timeout_s = timeout_s
        self.client = _client(timeout_s, False if self._plain else tls or True)

    def close(self) -> None:
        self.client.close()

    def address(self, path: str, params: Values | None = None, query: Values | None = None) -> httpx.URL:
        """Return the path with its placeholders filled, below the base address or at a listed host."""
        import httpx

        filled = _fill(path, params or {})
        if filled.startswith("/") and not filled.startswith("//"):
            below = self._base.raw_path.rstrip(b"/") + quote(filled, safe=_PATH_SAFE).encode("ascii")
            target = self._base.copy_with(raw_path=below)
        elif filled.startswith(("http://", "https://")):
            target = httpx.URL(filled)
        else:
            raise UsageError(f"A path begins with one slash; {path!r} does not.")
        if self._plain and target.scheme != "http":
            raise UsageError(f"{self._name!r} has an address without TLS and reaches no other host.")
        if target.userinfo or not self._hosts & {target.host, target.netloc.decode("ascii")}:
            raise UsageError(f"{self._name!r} may not reach the host {target.host!r}.")
        return target.copy_merge_params(dict(query)) if query else target


class HttpTransport(Service):
    """The source's way to a service: a GET request with a bounded answer."""

    def ask(self, target: httpx.URL, headers: Mapping[str, str]) -> Answer:
        """Send one GET. Status 0 carries the reason for a missing answer. Raises ReaderTypeError for an answer over
        bounds.
        """
        import httpx

        check_headers(headers)
        limit = Limit(self.timeout_s)
        try:
            traced = {"trace": limit.on_trace_event}
            with limit, self.client.stream("GET", target, headers=headers, extensions=traced) as response:
                limit.attach(response.extensions["network_stream"])
                answer = Answer(response.status_code, response.headers, self._body(response))
        except (httpx.LocalProtocolError, httpx.UnsupportedProtocol) as error:
            raise ReaderFailedError(f"{self._name!r} cannot be asked this: {error}") from error
        except (httpx.TransportError, OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
            answer = Answer(0, {}, b"", f"gave no answer: {type(error).__name__}: {error}")
        if limit.late:  # a cut answer may parse like a whole answer
            return Answer(0, {}, b"", f"took over {self.timeout_s:g} s to answer")
        return answer

    def _body(self, response: httpx.Response) -> bytes:
        coding = response.headers.get("content-encoding", "").strip().lower() or "identity"
        if coding != "identity":  # A compressed bomb expands before the size check.
            raise ReaderTypeError(f"{self._name!r} sent {coding!r}, which was not requested.")
        body = bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) > PAYLOAD_MAX_BYTES:
                raise ReaderTypeError(f"{self._name!r} sent over {PAYLOAD_MAX_BYTES} bytes.")
        return bytes(body)


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise HeaderInjectionError for a control character, and ArgumentError outside ASCII."""
    for name, text in headers.items():
        if _CONTROL.search(name) or _CONTROL.search(text):
            raise HeaderInjectionError(f"The header {name!r} holds a control character.")
        if not (name.isascii() and text.isascii()):
            raise ArgumentError(f"The header {name!r} holds characters outside ASCII.")


def _client(timeout_s: float, tls: ssl.SSLContext | bool) -> httpx.Client:
    """No cookies, redirects, retries or environment. HTTP/1.1, so a request is never multiplied."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx

    return httpx.Client(
        timeout=timeout_s,
        verify=tls,
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers={"Accept": "application/json", "Accept-Encoding": "identity"},
    )


def _fill(path: str, params: Values) -> str:
    """Encode each value as one path segment, so that no other resource is named."""
    names = set(PLACEHOLDER.findall(path))
    if names != set(params):
        raise UsageError(f"The path {path!r} needs the parameters {sorted(names)} (got {sorted(params)}).")
    return PLACEHOLDER.sub(lambda found: _segment(found[1], params[found[1]]), path)


def _segment(name: str, value: object) -> str:
    if type(value) not in (str, int) or value == "" or _UP.search(str(value)):
        raise ArgumentError(f"{name!r} cannot stand in an address: {value!r}.")
    try:
        return quote(str(value), safe="")
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{name!r} is not Unicode text.") from error
