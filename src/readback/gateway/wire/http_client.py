"""Send tool calls to a stateless server over plain HTTP: one POST for each call, on persistent connections.

The SDK's transport handles everything else, and special cases: TLS, proxies, credentials in the address, redirects, an
unreachable server. The SDK spends several tasks, streams and models on a call, more than the call itself. This client
uses a plain socket. A JSON answer with a content length is read directly; h11 reads every other answer. Errors use the
SDK's words, since `attachment` classifies these.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies

import h11
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, REQUEST_TIMEOUT
from mcp_types.jsonrpc import JSONRPCError, JSONRPCNotification, JSONRPCResponse, jsonrpc_message_adapter

from readback.agent_errors import UpstreamDeniedError
from readback.errors import NotDispatchedError
from readback.gateway.wire.jsonl import MESSAGE_MAX_BYTES, NO_JSON, NotJsonError, is_json, json_line, plain_json
from readback.gateway.wire.line_dispatch import AS_TEXT

# The events of a stream over HTTP, each as soon as it is whole, in time that grows with what comes.


class Events:
    """The events of one stream. Events without a message, such as keep-alives, are skipped. `held`: bytes of the
    unfinished part.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The unfinished line."""
        self._data: list[bytes] = []
        self._kind = b""
        self._data_bytes = self.held = 0

    def take(self, part: bytes) -> list[bytes]:
        """Return the data of events completed by this part."""
        self.held += len(part)
        self._rest.append(part)
        if b"\n" not in part:
            return []
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._rest = [rest]
        whole: list[bytes] = []
        for line in lines:
            self._take_line(line.removesuffix(b"\r"), whole)
        self.held = self._data_bytes + len(rest)
        return whole

    def _take_line(self, line: bytes, whole: list[bytes]) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            self._data_bytes += len(line)
        elif line.startswith(b"event:"):
            self._kind = line[6:].strip()
        elif not line:
            said = b"\n".join(self._data)
            if said and self._kind in (b"", b"message"):
                whole.append(said)
            self._data, self._kind, self._data_bytes = [], b"", 0


CALLS_MAX: Final = 100
"""Most concurrent client calls, as in the SDK. Further calls wait before their start, so that a tool's time limit does
not run during the wait.
"""
OPEN_MAX: Final = 128
"""Most connections. More than CALLS_MAX, so that reads by contracts never wait for clients' calls."""
CONNECT_S: Final = 30.0
CHUNK_BYTES: Final = 1 << 16
HEADS_MAX: Final = 256
"""Most cached request heads. Calls repeat a few heads."""
UNTAKEN: Final = (307, 308)
"""Redirects of an untaken call. After any other redirect the call may have run."""
DENIED: Final = {401: "it demands credentials (HTTP 401)", 403: "it denies access (HTTP 403)"}

_HEAD: Final = re.compile(rb"HTTP/1\.1 200 [ -~]*\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n)*)\r\n")
"""The head of a plain answer, without any special HTTP feature."""
_NO_BODY: Final = b"0\r\n\r\n"
_LENGTH: Final = re.compile(rb"[0-9]{1,8}")

OnNotice = Callable[[str, Mapping[str, Any] | None], bool]


class NotOursError(Exception):
    """The server did not take the call. The SDK's transport must send it."""


class Posts:
    """The connections to one server, for one of our connections. Create with `to`."""

    def __init__(self, url: SplitResult, headers: Mapping[str, str] | None) -> None:
        self._host, self._port = url.hostname or "", url.port or 80
        self._target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._headers = {
            "host": url.netloc,
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **{name.lower(): value for name, value in (headers or {}).items()},
        }
        self._heads: dict[tuple[tuple[str, str], ...], bytes] = {}
        self._idle: list[_Wire] = []
        self._open: set[_Wire] = set()
        self._room = asyncio.Semaphore(OPEN_MAX)
        self._ids = itertools.count(1)

    @classmethod
    def to(cls, url: str, headers: Mapping[str, str] | None) -> Posts | None:
        """Return the client, or None for a target needing the SDK's transport."""
        found = urlsplit(url)
        plain = found.scheme == "http" and found.hostname and "@" not in found.netloc and not getproxies()
        return cls(found, headers) if plain else None

    async def call(
        self, params: Mapping[str, Any], headers: Mapping[str, str], timeout_s: float | None, on_notice: OnNotice
    ) -> dict[str, Any]:
        """Return the raw result of a `tools/call`. Raises MCPError, and NotOursError if nothing was done."""
        asked = f"c{next(self._ids)}"
        message = {"jsonrpc": "2.0", "id": asked, "method": "tools/call", "params": params}
        async with self._room:
            wire = await self._wire()
            try:
                async with asyncio.timeout(timeout_s):
                    result = await wire.exchange(*self._request(headers, message), asked, on_notice)
            except TimeoutError:
                raise MCPError(code=REQUEST_TIMEOUT, message="Request 'tools/call' timed out") from None
            except (OSError, h11.ProtocolError) as error:
                wire.close()  # any later bytes belong to no request
                raise MCPError(code=CONNECTION_CLOSED, message=f"Connection closed: {error}") from error
            finally:
                if wire.reusable():
                    self._idle.append(wire)
                else:
                    self._drop(wire)
        if isinstance(result, MCPError):
            raise result
        return result

    def _request(self, headers: Mapping[str, str], message: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """Return head and body as written. Raises NotDispatchedError, and h11's error for an invalid header."""
        try:
            body = json_line(message)[:-1]
        except NotJsonError as error:
            raise NotDispatchedError(f"Nothing was sent: {error}", remedy=AS_TEXT) from error
        key = tuple(headers.items())
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= HEADS_MAX:
                self._heads.clear()
            head = self._heads[key] = _head(self._target, {**self._headers, **headers})
        return b"%b%d\r\n\r\n" % (head, len(body)), body

    async def _wire(self) -> _Wire:
        while self._idle:
            wire = self._idle.pop()
            if wire.alive:
                return wire
            self._drop(wire)
        try:
            async with asyncio.timeout(CONNECT_S):
                wire = await _Wire.to(self._host, self._port)
        except OSError as error:  # TimeoutError is one
            raise NotOursError from error
        self._open.add(wire)
        return wire

    def _drop(self, wire: _Wire) -> None:
        self._open.discard(wire)
        wire.close()

    def close(self) -> None:
        """Close every connection, and notify waiting calls."""
        self._idle.clear()
        for wire in tuple(self._open):
            self._drop(wire)


def _head(target: str, headers: Mapping[str, str]) -> bytes:
    """Return the request head written and validated by h11, up to the body length."""
    asked = h11.Request(method="POST", target=target, headers=[*headers.items(), ("content-length", "0")])
    written = h11.Connection(h11.CLIENT).send(asked)
    if not written.endswith(_NO_BODY):
        raise h11.LocalProtocolError("A header of its own says how long the body is.")
    return written.removesuffix(_NO_BODY)


class _Counting(asyncio.StreamReader):
    """A stream reader counting its received bytes."""

    came = 0

    def feed_data(self, data: Any) -> None:
        self.came += len(data)
        super().feed_data(data)


class _Wire:
    """One connection, for one exchange at a time."""

    def __init__(self, reader: _Counting, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._taken = 0
        self._http: h11.Connection | None = None
        """Reads an answer unsuited for direct reading."""
        self._ended = True

    @classmethod
    async def to(cls, host: str, port: int) -> _Wire:
        """Connect like `asyncio.open_connection`. Raises OSError."""
        loop = asyncio.get_running_loop()
        reader = _Counting(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.create_connection(lambda: protocol, host, port)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    @property
    def alive(self) -> bool:
        """Whether the connection is open without unexpected bytes.

        The next call would read such bytes as its answer.
        """
        return self._reader.came == self._taken and not (self._reader.at_eof() or self._writer.is_closing())

    def reusable(self) -> bool:
        """Return whether the exchange has ended on both sides, so that another may follow."""
        http = self._http
        if http is not None:
            self._ended = http.our_state is h11.DONE and http.their_state is h11.DONE and not http.trailing_data[0]
        return self._ended and self.alive

    def close(self) -> None:
        """Close the connection. A stateless server treats this as a cancellation of running work."""
        self._writer.close()

    async def exchange(self, head: bytes, body: bytes, asked: str, on_notice: OnNotice) -> dict[str, Any] | MCPError:
        """Return the answer to the request with id `asked`. Raises OSError, h11.ProtocolError, NotOursError."""
        self._ended, self._http = False, None
        self._writer.write(head + body)
        await self._writer.drain()
        answer = await self._read()
        plain = _plain(answer)
        if plain is not None:
            (kind, begins, ends), first = plain, len(answer)
            try:
                answer += await self._reader.readexactly(max(ends - len(answer), 0))
            except asyncio.IncompleteReadError as cut:
                answer += cut.partial
            self._taken += len(answer) - first
            if len(answer) == ends:
                self._ended = True
                return _answer(200, kind, answer[begins:], asked)
        self._http = _asked(body)
        self._http.receive_data(answer)
        return await self._by_h11(asked, on_notice)

    async def _read(self) -> bytes:
        found = await self._reader.read(CHUNK_BYTES)
        self._taken += len(found)
        return found

    async def _by_h11(self, asked: str, on_notice: OnNotice) -> dict[str, Any] | MCPError:
        head = await self._event()
        while isinstance(head, h11.InformationalResponse):
            head = await self._event()
        if not isinstance(head, h11.Response):
            return MCPError(code=CONNECTION_CLOSED, message="Connection closed")
        kind = next((value for name, value in head.headers if name == b"content-type"), b"").lower()
        if head.status_code in UNTAKEN:
            raise NotOursError
        if 300 <= head.status_code < 400:
            return MCPError(code=CONNECTION_CLOSED, message=f"The server leads elsewhere: status {head.status_code}")
        if head.status_code == 200 and kind.startswith(b"text/event-stream"):
            return await self._streamed(asked, on_notice)
        whole, size = [], 0
        async for part in self._parts():
            whole.append(part)
            size += len(part)
            if size > MESSAGE_MAX_BYTES:
                return MCPError(code=CONNECTION_CLOSED, message="The answer is too large.")
        return _answer(head.status_code, kind, b"".join(whole), asked)

    async def _streamed(self, asked: str, on_notice: OnNotice) -> dict[str, Any] | MCPError:
        """Return the answer from a stream's events, and deliver earlier notifications."""
        events = Events()
        async for part in self._parts():
            for data in events.take(part):
                try:
                    found = _message(data, asked, on_notice)
                except ValueError as error:
                    return MCPError(code=PARSE_ERROR, message=f"Failed to parse SSE message: {error}")
                if found is not None:
                    return found
            if events.held > MESSAGE_MAX_BYTES:
                return MCPError(code=CONNECTION_CLOSED, message="The answer is too large.")
        return MCPError(code=CONNECTION_CLOSED, message="Connection closed")

    async def _parts(self) -> Any:
        while isinstance(event := await self._event(), h11.Data):
            yield event.data

    async def _event(self) -> Any:
        http = self._http
        assert http is not None
        while (event := http.next_event()) is h11.NEED_DATA:
            http.receive_data(await self._read())
        return event


def _asked(body: bytes) -> h11.Connection:
    """Return an h11 reader for the answer to a request already written."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="POST", target="/", headers=[("host", "-"), ("content-length", str(len(body)))]))
    http.send(h11.Data(data=body))
    http.send(h11.EndOfMessage())
    return http


def _plain(answer: bytes) -> tuple[bytes, int, int] | None:
    """Return content type, start and end of the body; None if h11 must read the answer."""
    found = _HEAD.match(answer)
    if found is None:
        return None
    lines = [line.partition(b":") for line in found[1].split(b"\r\n")[:-1]]
    headers = {name.lower(): value.strip() for name, _, value in lines}
    kind, length = headers.get(b"content-type", b"").lower(), headers.get(b"content-length", b"")
    plain = kind.startswith(b"application/json") and _LENGTH.fullmatch(length) and len(headers) == len(lines)
    kept = headers.get(b"connection", b"keep-alive").lower() == b"keep-alive"
    if not plain or not kept or b"transfer-encoding" in headers or int(length) > MESSAGE_MAX_BYTES:
        return None
    return kind, found.end(), found.end() + int(length)


def _message(data: bytes, asked: str, on_notice: OnNotice) -> dict[str, Any] | MCPError | None:
    """Return the answer in an event, else None.

    Raises ValueError for an invalid message, and h11's error for the answer to another request.
    """
    plain = plain_json(data)
    if (
        plain is not None
        and isinstance(plain.get("result"), dict)
        and "method" not in plain
        and plain.get("id") == asked
    ):
        found: dict[str, Any] = plain["result"]
        return found
    message = jsonrpc_message_adapter.validate_json(data, by_name=False)
    if isinstance(message, JSONRPCNotification):
        on_notice(message.method, message.params)
    if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id not in (asked, None):
        raise h11.RemoteProtocolError("The answer is to another request.")
    if isinstance(message, JSONRPCError):
        return MCPError(code=message.error.code, message=message.error.message, data=message.error.data)
    if isinstance(message, JSONRPCResponse) and not is_json(message.result):
        return MCPError(code=CONNECTION_CLOSED, message=f"The answer {NO_JSON}.")
    return message.result if isinstance(message, JSONRPCResponse) else None


def _answer(status: int, kind: bytes, whole: bytes, asked: str) -> dict[str, Any] | MCPError:
    """Return the answer in a plain body, or an error from the status."""
    if status == 202:
        return MCPError(code=INVALID_REQUEST, message="server answered a request with 202 Accepted")
    found: dict[str, Any] | MCPError | None = None
    said = f"Unexpected content type: {kind.decode('latin-1')}"
    if kind.startswith(b"application/json"):
        said = "Failed to parse JSON response"
        with suppress(ValueError):
            found = _message(whole, asked, lambda method, params: True)
    if status < 400:
        code = PARSE_ERROR if kind.startswith(b"application/json") else INVALID_REQUEST
        return found if found is not None else MCPError(code=code, message=said)
    if isinstance(found, MCPError):
        return found
    if status == 404:
        return MCPError(code=METHOD_NOT_FOUND, message="Not Found")
    if status in DENIED:
        return MCPError(code=INTERNAL_ERROR, message=f"{DENIED[status]}. {UpstreamDeniedError.remedy_default}")
    return MCPError(code=INTERNAL_ERROR, message="Server returned an error response")
