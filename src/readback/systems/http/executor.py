"""Act on a service over HTTP: one request, with the idempotency key and the stamp of the attempt.

Users construct the executor and call it inside actions. Every response is evidence: the executor does not verify,
repeat, or follow redirects. Its client is its own: no connection is shared with the HTTP source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from readback.canon import json_text, json_value
from readback.canon.limits import EVIDENCE_MAX_BYTES
from readback.domain.context import Context
from readback.errors import (
    NotDispatchedError,
    ToolError,
    ToolTimeoutError,
    UsageError,
)
from readback.systems.http.transport import Limit, Service, Values, check_headers
from readback.systems.trace_headers import TRACEPARENT, outgoing

if TYPE_CHECKING:
    import ssl

    import httpx

TIMEOUT_DEFAULT_S: Final = 30.0
KEY_HEADER: Final = "Idempotency-Key"
STAMP_HEADER: Final = "X-Stamp"


class HttpExecutor:
    """Send acting requests to one service.

    Safe from any thread. Call `close`, or use the executor in a `with` block.

    Args:
        base_url: Address of the service, `http://` or `https://`, without query and without credentials.
        name: Name in evidence and messages.
        hosts: Allowed host names, with or without a port. Default: the host of `base_url`.
        headers: Headers of every request.
        timeout_s: Seconds for one whole answer.
        key_header: Header for the idempotency key. None sends no key.
        stamp_header: Header for the stamp. None sends no stamp.
        sole: The action makes one request here and does nothing else. A connection that fails to open then
            proves that nothing was sent. Without `sole`, an earlier request may have landed.
        tls: TLS settings, such as a private certificate authority.

    Raises:
        UsageError: The address is malformed, has another scheme, or holds a credential.

    Example:
        >>> with HttpExecutor("https://orders.example", sole=True) as orders:
        ...     orders.name
        'http'
    """

    def __init__(
        self,
        base_url: str,
        *,
        name: str = "http",
        hosts: Collection[str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_DEFAULT_S,
        key_header: str | None = KEY_HEADER,
        stamp_header: str | None = STAMP_HEADER,
        sole: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self._service = Service(name, base_url, hosts, timeout_s, tls)
        self._headers = dict(headers or {})
        self._key_header = key_header
        self._stamp_header = stamp_header
        self._sole = sole

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._service.close()

    def request(
        self,
        ctx: Context,
        method: str,
        path: str,
        *,
        params: Values | None = None,
        query: Values | None = None,
        json: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send one request and return the response of any status, with at most 1 MiB of the body.

        Args:
            ctx: Context of the action.
            method: HTTP method.
            path: Path with `{placeholders}`.
            params: Values for the placeholders. Values are encoded.
            query: Query of the address.
            json: Value for a JSON body.
            content: JSON text, sent byte for byte. Excludes `json`.
            headers: More headers. The marks of the attempt cannot be overridden.

        Raises:
            ToolTimeoutError: The answer took too long. The effect may have landed.
            ToolError: No answer arrived. The effect may have landed.
            InputError: The request was rejected before sending.
        """
        if content is not None and json is not None:
            raise UsageError(f"{self.name!r} sends either `json` or `content`. Pass one of the two.")
        if json is not None:
            content = json_text(json_value(json), ensure_ascii=False, compact=True).encode()
        if content is not None and not any(name.lower() == "content-type" for name in headers or ()):
            headers = {"Content-Type": "application/json", **(headers or {})}
        request = self._service.client.build_request(
            method,
            self._service.address(path, params, query),
            content=content,
            headers=self._marks(ctx, headers),
        )
        limit = Limit(self._service.timeout_s)
        request.extensions["trace"] = limit.on_trace_event
        with ExitStack() as stack:
            try:
                stack.enter_context(limit)
            except OSError as error:
                raise self._unreached(error) from error
            return self._answered(request, limit)

    def _answered(self, request: httpx.Request, limit: Limit) -> httpx.Response:
        """Return the answer, within the bounds for its size and time. Raises ToolTimeoutError, ToolError."""
        import httpx

        late = ToolTimeoutError(f"{self.name!r} took over {self._service.timeout_s:g} s to answer.")
        try:
            response = self._service.client.send(request, stream=True)
            try:
                limit.attach(response.extensions["network_stream"])
                body = _bounded(response)
            finally:
                response.close()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, UnicodeError) as error:
            # UnicodeError: an invalid host name, detected before anything is sent.
            raise self._unreached(error) from error
        except httpx.TimeoutException as error:
            raise ToolTimeoutError(f"{self.name!r} did not answer in time: {type(error).__name__}.") from error
        except httpx.TransportError as error:
            if limit.late:
                raise late from error
            raise ToolError(
                f"The connection to {self.name!r} broke: {type(error).__name__}: {error}",
                remedy="Its effect is being read back.",
                code="tool.connection-lost",
            ) from error
        if limit.late:  # a cut answer may parse like a whole answer
            raise late
        return httpx.Response(response.status_code, headers=_plain(response.headers), content=body, request=request)

    def get(
        self, ctx: Context, path: str, *, params: Values | None = None, query: Values | None = None
    ) -> httpx.Response:
        """Send a GET, for actions of kind read. Readbacks belong in a source."""
        return self.request(ctx, "GET", path, params=params, query=query)

    def post(
        self,
        ctx: Context,
        path: str,
        *,
        params: Values | None = None,
        json: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Call `request` with POST."""
        return self.request(ctx, "POST", path, params=params, json=json, content=content, headers=headers)

    def put(
        self,
        ctx: Context,
        path: str,
        *,
        params: Values | None = None,
        json: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Call `request` with PUT."""
        return self.request(ctx, "PUT", path, params=params, json=json, headers=headers)

    def patch(
        self,
        ctx: Context,
        path: str,
        *,
        params: Values | None = None,
        json: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Call `request` with PATCH."""
        return self.request(ctx, "PATCH", path, params=params, json=json, headers=headers)

    def delete(
        self,
        ctx: Context,
        path: str,
        *,
        params: Values | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Call `request` with DELETE."""
        return self.request(ctx, "DELETE", path, params=params, headers=headers)

    def _marks(self, ctx: Context, more: Mapping[str, str] | None) -> dict[str, str]:
        """Return all headers of a request. The marks of the attempt cannot be overridden."""
        marks = {self._key_header: ctx.idempotency_key, self._stamp_header: ctx.stamp}
        sent = {**self._headers, **(more or {})}
        taken = {name.lower() for name in marks if name is not None}
        if taken & {name.lower() for name in sent}:
            raise UsageError(f"{self.name!r} sets {sorted(taken)} itself.")
        sent |= {name: mark for name, mark in marks.items() if name is not None}
        if TRACEPARENT not in {name.lower() for name in sent}:
            sent |= outgoing(ctx)
        check_headers(sent)
        return sent

    def _unreached(self, error: Exception) -> ToolError:
        said = f"{self.name!r} could not be reached: {type(error).__name__}: {error}"
        if self._sole:
            return NotDispatchedError(said)
        return ToolError(said, remedy="Its effect is being read back.", code="tool.unreachable")


def _bounded(response: httpx.Response) -> bytes:
    """Return the first part of the body as evidence. A truncated body no longer parses."""
    body = bytearray()
    for part in response.iter_raw():
        body += part
        if len(body) > EVIDENCE_MAX_BYTES:
            return bytes(body[:EVIDENCE_MAX_BYTES])
    return bytes(body)


def _plain(headers: httpx.Headers) -> dict[str, str]:
    """Drop the headers about the body's encoding in transit."""
    return {k: v for k, v in headers.items() if k not in ("content-encoding", "content-length", "transfer-encoding")}
