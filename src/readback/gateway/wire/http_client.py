"""Tool calls to a stateless server over plain HTTP, one POST each, on connections that are kept.

The SDK's transport does everything else, and this where anything is special: TLS, proxies, credentials in the address,
a redirect, a server that cannot be connected to. A call costs it several tasks, streams and models, which is more than
the call itself; here it is a socket. An answer that is plainly JSON of a length that is told is read as it stands; h11
reads every other. What a failure means is said in the SDK's words, which `attachment` judges.
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
    """One stream's. Those that hold nothing, or are no messages (to keep a stream open, or to name a place in it), are
    passed over. `held`: bytes of what is not whole yet.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """Of a line that has not ended."""
        self._data: list[bytes] = []
        self._kind = b""
        self._data_bytes = self.held = 0

    def take(self, part: bytes) -> list[bytes]:
        """What the messages say that end in this part."""
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
"""Calls of clients at a time, as with the SDK. More of them wait before they are begun: the time that a tool may take
is the tool's, and does not run while its call waits for others.
"""
OPEN_MAX: Final = 128
"""Connections at a time: what contracts read by other tools of the server never waits for clients' calls."""
CONNECT_S: Final = 30.0
CHUNK_BYTES: Final = 1 << 16
HEADS_MAX: Final = 256
"""So many heads of requests are kept as they are written: the same few, call for call."""
UNTAKEN: Final = (307, 308)
"""By these a server says that the call is to be made elsewhere as it is; by another redirect, that it may have been."""
DENIED: Final = {401: "it demands credentials (HTTP 401)", 403: "it denies access (HTTP 403)"}

_HEAD: Final = re.compile(rb"HTTP/1\.1 200 [ -~]*\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n)*)\r\n")
"""The head of an answer without anything that a reader of HTTP would have to think about."""
_NO_BODY: Final = b"0\r\n\r\n"
_LENGTH: Final = re.compile(rb"[0-9]{1,8}")

OnNotice = Callable[[str, Mapping[str, Any] | None], bool]


class NotOursError(Exception):
    """The server has not taken the call, and the SDK's transport has to make it."""


class Posts:
    """One server's, for one connection of ours. Make one with `to`."""

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
        """None where the SDK's transport knows more than this one."""
        found = urlsplit(url)
        plain = found.scheme == "http" and found.hostname and "@" not in found.netloc and not getproxies()
        return cls(found, headers) if plain else None

    async def call(
        self, params: Mapping[str, Any], headers: Mapping[str, str], timeout_s: float | None, on_notice: OnNotice
    ) -> dict[str, Any]:
        """The raw result of a `tools/call`. Raises MCPError, and NotOursError where nothing has been done yet."""
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
                wire.close()  # what it says next answers nobody
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
        """Head and body as they are written. Raises NotDispatchedError, and h11's error for what is no header."""
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
        """Ends every connection; whoever waits on one is told so."""
        self._idle.clear()
        for wire in tuple(self._open):
            self._drop(wire)


def _head(target: str, headers: Mapping[str, str]) -> bytes:
    """The head of a request, as h11 writes it once it has looked at all of it, up to the length of its body."""
    asked = h11.Request(method="POST", target=target, headers=[*headers.items(), ("content-length", "0")])
    written = h11.Connection(h11.CLIENT).send(asked)
    if not written.endswith(_NO_BODY):
        raise h11.LocalProtocolError("A header of its own says how long the body is.")
    return written.removesuffix(_NO_BODY)


class _Counting(asyncio.StreamReader):
    """Says how many bytes have come."""

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
        """Reads the answer, where that is not plainly one."""
        self._ended = True

    @classmethod
    async def to(cls, host: str, port: int) -> _Wire:
        """As `asyncio.open_connection`. Raises OSError."""
        loop = asyncio.get_running_loop()
        reader = _Counting(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.create_connection(lambda: protocol, host, port)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    @property
    def alive(self) -> bool:
        """Whether it is open, and holds nothing that nobody asked for: the next call would take it for its answer."""
        return self._reader.came == self._taken and not (self._reader.at_eof() or self._writer.is_closing())

    def reusable(self) -> bool:
        """Whether the exchange has ended on both sides, and another may follow."""
        http = self._http
        if http is not None:
            self._ended = http.our_state is h11.DONE and http.their_state is h11.DONE and not http.trailing_data[0]
        return self._ended and self.alive

    def close(self) -> None:
        """Ends it. A stateless server takes that for a cancellation of what it is still doing."""
        self._writer.close()

    async def exchange(self, head: bytes, body: bytes, asked: str, on_notice: OnNotice) -> dict[str, Any] | MCPError:
        """The answer to a request, whose id is `asked`. Raises OSError, h11.ProtocolError, NotOursError."""
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
        """The answer among the events of a stream; what is told before it is handed on."""
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
    """A reader of the answer to a request that has been written."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="POST", target="/", headers=[("host", "-"), ("content-length", str(len(body)))]))
    http.send(h11.Data(data=body))
    http.send(h11.EndOfMessage())
    return http


def _plain(answer: bytes) -> tuple[bytes, int, int] | None:
    """The content type of an answer, and where its body begins and ends; None where h11 has to say."""
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
    """The answer in an event; None for anything else. Raises ValueError for what is no message, and h11's error for an
    answer to another request.
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
    """What a body says that is no stream; what its status says where that is nothing."""
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
