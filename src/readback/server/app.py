"""The ASGI application: guards, authentication, the route table, and problem documents around every handler.

The order for each request: Host and Origin, the route, the token, the rate, the right, the query, the body, the
handler. A failed check ends the request before the next part is read.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import msgspec

from readback.canon import ReadbackError
from readback.drivers.driver_async import EagerCoroutine
from readback.errors import UnknownOutcomeError
from readback.host_names import FORBIDDEN
from readback.ports.runtime import Runtime
from readback.server.access.hosts import HostNames
from readback.server.access.oidc import Providers
from readback.server.access.principal import RIGHTS, Caller, Right
from readback.server.access.tokens import TOKEN_MAX_CHARS, TokenFile
from readback.server.errors import (
    BodyError,
    BodyTooLargeError,
    IdempotencyKeyError,
    InternalError,
    MediaTypeError,
    MethodError,
    MissingRightError,
    PreconditionRequiredError,
    RateLimitError,
    RouteError,
    ServerBusyError,
    UnauthenticatedError,
)
from readback.server.ledgers import Ledgers
from readback.server.problems import MEDIA, problem_bytes, status_of
from readback.server.routing import Call, Reply, Route, RouteTable
from readback.server.settings import ServerSettings, tokens_path

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOG: Final = logging.getLogger("readback.server")
RECHECK_S: Final = 1.0
"""How long a stream may go on without a check of its token, in seconds, while the stream has parts."""
BODY_S: Final = 60.0
"""Time limit in seconds for a request's body after its head."""
LENGTH_DIGITS_MAX: Final = 18
API_PATHS: Final = ("/v1/", "/metrics", "/healthz", "/openapi.json")
SINGLE: Final = frozenset({b"authorization", b"idempotency-key", b"if-match", b"content-length", b"content-type"})
"""Headers that must not be given twice."""
SECURITY: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
CHALLENGE: Final = (b"www-authenticate", b'Bearer realm="readback"')


def _exact(value: object) -> object:
    """An exact number as a number; anything else is a fault of ours."""
    if isinstance(value, Decimal):
        return Decimal(value)
    raise TypeError(type(value).__name__)


_ENCODE: Final = msgspec.json.Encoder(enc_hook=_exact, decimal_format="number").encode


MINUTE_US: Final = 60_000_000
BUCKETS_MAX: Final = 10_000
"""The number of remembered tokens. The bucket of the longest unused token is dropped first."""


class RateLimits:
    """Counts the requests of each token in this process: a bucket that fills at a constant rate.

    `per_minute`: the default; 0 for no limit. Source: RFC 6585, section 4 (status 429).
    """

    def __init__(self, runtime: Runtime, per_minute: int) -> None:
        self._runtime, self._default = runtime, per_minute
        self._buckets: dict[str, tuple[float, int]] = {}

    def wait_s(self, token: str, own_per_minute: int) -> int:
        """Count a request. Return 0 where the request may proceed, else the seconds until the next free place.

        A bucket holds one minute's requests, so a burst of that size passes.
        """
        rate = own_per_minute or self._default
        if not rate:
            return 0
        now_us = self._runtime.now_us()
        left, at_us = self._buckets.pop(token, (float(rate), now_us))
        left = min(float(rate), left + max(0, now_us - at_us) * rate / MINUTE_US)
        passes = left >= 1
        self._buckets[token] = (left - 1 if passes else left, now_us)
        while len(self._buckets) > BUCKETS_MAX:
            del self._buckets[next(iter(self._buckets))]
        return 0 if passes else max(1, -int(-(1 - left) * 60 // rate))


class Server:
    """One server: its settings, ledgers and authentication. The console and the API share it.

    Args:
        settings: The server's settings, checked.
        ledgers: The open ledgers.
        names: The server's own names.
    """

    def __init__(
        self,
        settings: ServerSettings,
        ledgers: Ledgers,
        *,
        names: HostNames | None = None,
    ) -> None:
        self.settings = settings.check()
        self.ledgers = ledgers
        self.names = names or HostNames(settings.host, settings.allow_hosts)
        self.tokens = TokenFile(settings.tokens_file or tokens_path())
        self.rates = RateLimits(ledgers.runtime, settings.rate_per_minute)
        self.stopping = asyncio.Event()
        self.in_flight = 0
        self.on_close: list[Callable[[], None]] = [ledgers.close]
        self._providers = Providers(dict(settings.issuers), ledgers.runtime.now_us) if settings.issuers else None
        self._open = Caller(ledgers.settings.tenant, ledgers.settings.principal, frozenset(RIGHTS), "open")

    async def caller(self, credential: str) -> Caller:
        """Return the caller of a bearer credential; "" for none.

        Raises:
            UnauthenticatedError: the credential is missing, unknown, revoked or expired.
            ProviderError: the keys of the identity provider cannot be read.
            SettingsError: the file of tokens cannot be used.
        """
        if not credential:
            if self.settings.open_access:
                return self._open
            raise UnauthenticatedError("The request has no bearer token.")
        if len(credential) > TOKEN_MAX_CHARS:
            raise UnauthenticatedError("The token is too long.")
        if self._providers is not None and credential.count(".") == 2:
            return await self._providers.authenticate(credential)
        return self.tokens.authenticate(credential, self.ledgers.runtime.now_us())

    def close(self) -> None:
        """Close the ledgers and everything else that the server has opened, the newest first."""
        while self.on_close:
            self.on_close.pop()()

    def count(self, caller: Caller) -> None:
        """Count a request of the caller. Raises RateLimitError beyond the token's rate."""
        wait_s = self.rates.wait_s(caller.token, caller.rate_per_minute)
        if wait_s:
            raise RateLimitError("The token has sent more requests than its limit.", details={"retry_after_s": wait_s})


def permit(caller: Caller, right: Right) -> None:
    """Raise MissingRightError where the caller lacks a right."""
    if right not in caller.rights:
        raise MissingRightError(f"This route requires the right `{right}`.")


class Application:
    """The ASGI application of a server: the API by its route table, and every other path by the console."""

    def __init__(self, server: Server, table: RouteTable, console: App | None = None) -> None:
        self.server, self.table, self._console = server, table, console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        refused = self.server.names.check(headers)
        request_id = secrets.token_hex(16)  # not a number in sequence: tenants share the server
        scope["readback.request_id"] = request_id
        if refused:
            error = HostNames.refusal(refused)
            await _send_problem(send, error, request_id, status=refused if refused != FORBIDDEN else 403)
            return
        path: str = scope["path"]
        if path.startswith(API_PATHS):
            await self._answer(scope, headers, receive, send, request_id)
        elif self._console is not None:
            await self._console(scope, receive, send)
        else:
            await _send_problem(send, RouteError("There is no such page."), request_id)

    async def _answer(
        self, scope: Scope, headers: list[tuple[bytes, bytes]], receive: Receive, send: Send, request_id: str
    ) -> None:
        server = self.server
        if server.in_flight >= server.settings.in_flight_max or server.stopping.is_set():
            await _send_problem(send, ServerBusyError("The server is at its limit, or is stopping."), request_id)
            return
        server.in_flight += 1
        try:
            reply = await self._reply(scope, headers, receive, request_id)
        except ReadbackError as error:
            await _send_problem(send, error, request_id)
            return
        except asyncio.CancelledError:
            raise
        except Exception as error:  # tidy: boundary -- the client gets a problem document
            LOG.error("request %s: unexpected %s", request_id, type(error).__name__, exc_info=_frames(error))
            await _send_problem(send, InternalError("The server met an unexpected error."), request_id)
            return
        finally:
            server.in_flight -= 1
        if reply.stream is not None:
            await _stream(send, receive, reply, request_id, only_head=scope["method"] == "HEAD")
        else:
            await _send(send, reply, request_id)

    async def _reply(
        self, scope: Scope, headers: list[tuple[bytes, bytes]], receive: Receive, request_id: str
    ) -> Reply:
        server, method = self.server, scope["method"]
        # The raw path: a decoded one would let `%2F` in an id change the route.
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        try:
            path = raw_path.decode("ascii")
        except UnicodeDecodeError as error:
            raise RouteError("There is no such route.") from error
        found = self.table.find(path)
        named = dict(headers)
        if len(named) != len(headers):
            _refuse_doubled(headers)
        if found is None:
            await self._authenticated(named)  # an unknown path says nothing to a caller without a token
            raise RouteError("There is no such route.")
        methods, parameters = found
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            raise MethodError(f"This route supports {', '.join(sorted(methods))}.", details={"allow": [*methods]})
        caller = await self._admitted(route, named)
        query = self.table.query(route, scope.get("query_string", b""))
        raw = await self._body(route, named, receive)
        body = self.table.body(route, raw) if route.body is not bytes else None
        call = Call(caller, server.ledgers, parameters, query, body, named, request_id, raw)
        if route.key and not named.get(b"idempotency-key", b"").strip():
            raise IdempotencyKeyError("The request has no Idempotency-Key.")
        if route.version and not named.get(b"if-match", b"").strip():
            raise PreconditionRequiredError("The decision has no If-Match.")
        reply = await route.handler(call)
        if reply.stream is not None:
            return replace(reply, stream=while_valid(reply.stream, lambda: self._is_valid(named, caller)))
        return reply

    async def _is_valid(self, headers: Mapping[bytes, bytes], caller: Caller) -> bool:
        return await self.server.caller(_credential(headers)) == caller

    async def _admitted(self, route: Route, headers: Mapping[bytes, bytes]) -> Caller:
        if route.right is None:
            return ANONYMOUS
        caller = await self._authenticated(headers)
        permit(caller, route.right)
        return caller

    async def _authenticated(self, headers: Mapping[bytes, bytes]) -> Caller:
        caller = await self.server.caller(_credential(headers))
        self.server.count(caller)
        return caller

    async def _body(self, route: Route, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Read the body. Raises BodyTooLargeError at the limit, and BodyError for a body that takes too long."""
        most = self.server.settings.body_max_bytes
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > LENGTH_DIGITS_MAX or int(length) > most:
            raise BodyTooLargeError(f"The body exceeds {most} bytes.")
        reading = EagerCoroutine(_whole(most, receive))  # most bodies are there with the head, and need no timer
        try:
            if not reading.over:
                async with asyncio.timeout(BODY_S):  # also of the first part: a client may send nothing for ever
                    reading.value = await reading
            body: bytes = reading.value
        except TimeoutError as error:
            raise BodyError(f"The body did not arrive within {BODY_S:.0f} seconds.") from error
        except asyncio.CancelledError as error:
            if not self.server.stopping.is_set():
                raise
            raise ServerBusyError("The server is stopping, and the body did not arrive.") from error
        if body and route.body is not None and route.body is not bytes:
            media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if media != b"application/json":
                raise MediaTypeError("The body is not application/json.")
        return body


def _credential(headers: Mapping[bytes, bytes]) -> str:
    """Return the bearer credential; "" for none. Raises UnauthenticatedError for another scheme."""
    given = headers.get(b"authorization", b"").decode("latin-1")
    scheme, _, credential = given.partition(" ")
    if given and scheme.lower() != "bearer":
        raise UnauthenticatedError("The Authorization header has another scheme than Bearer.")
    return credential.strip()


async def while_valid(
    stream: AsyncIterator[bytes], is_valid: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a stream until the caller's token is revoked, expires, or changes.

    A stream is one request, and so its token is checked again at the first part after each RECHECK_S. A stream without
    news has a comment at least as often. A check that fails ends the stream, too.
    """
    now = asyncio.get_running_loop().time
    checked = now()
    try:
        async for part in stream:
            if now() - checked >= RECHECK_S:
                checked = now()
                try:
                    if not await is_valid():
                        return
                except ReadbackError:
                    return
            yield part
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def _whole(most: int, receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BodyError("The client left before the end of the body.")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        more = bool(message.get("more_body"))
        if size > most:
            raise BodyTooLargeError(f"The body exceeds {most} bytes.")
    return b"".join(chunks)


def _refuse_doubled(headers: list[tuple[bytes, bytes]]) -> None:
    """Raise BodyError where a header that decides about the request is there twice: a proxy may have read the other."""
    names = [name for name, _ in headers if name in SINGLE]
    if len(set(names)) != len(names):
        raise BodyError("A header is given twice.", remedy="Send each header once.")


ANONYMOUS: Final = Caller("", "", frozenset())


def _frames(error: BaseException) -> tuple[type[BaseException], BaseException, Any]:
    """The place of an error for the log, without the error's text: the text may hold a caller's values."""
    return RuntimeError, RuntimeError(type(error).__name__), error.__traceback__


async def _send(send: Send, reply: Reply, request_id: str) -> None:
    headers = [(b"content-type", reply.media), (b"x-request-id", request_id.encode()), *SECURITY, *reply.headers]
    body = reply.body if isinstance(reply.body, bytes) else b"" if reply.body is None else _ENCODE(reply.body)
    headers.append((b"content-length", str(len(body)).encode("ascii")))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _stream(send: Send, receive: Receive, reply: Reply, request_id: str, *, only_head: bool) -> None:
    """Send a stream until its end, or until the client leaves."""
    assert reply.stream is not None
    headers = [(b"content-type", reply.media), (b"x-request-id", request_id.encode()), *SECURITY, *reply.headers]
    stream, task = reply.stream, asyncio.current_task()
    if only_head:
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if task is not None:
            task.cancel()

    leaving = asyncio.create_task(watch())
    try:
        first = await anext(stream, b"")
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": first, "more_body": True})
        async for chunk in stream:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except ReadbackError as error:
        await _send_problem(send, error, request_id)
    except asyncio.CancelledError:
        if not leaving.done() or leaving.cancelled() or task is None:
            raise
        task.uncancel()  # the client left
    finally:
        leaving.cancel()
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def _send_problem(send: Send, error: ReadbackError, request_id: str, *, status: int = 0) -> None:
    status = status or status_of(error)
    headers: list[tuple[bytes, bytes]] = []
    if status == 401:
        headers.append(CHALLENGE)
    if status in (429, 503):
        headers.append((b"retry-after", str(error.details.get("retry_after_s", 1)).encode("ascii")))
    if isinstance(error, MethodError):
        allow = error.details.get("allow")
        headers.append((b"allow", ", ".join(sorted(allow)).encode() if isinstance(allow, list) else b""))
    if isinstance(error, UnknownOutcomeError):
        LOG.error("request %s: the end of an attempt could not be recorded", request_id)
    body = problem_bytes(error, instance=request_id, status=status)
    await _send(send, Reply(status, body, tuple(headers), MEDIA), request_id)
