"""Tool calls to a stateless server over plain HTTP, one POST each, on connections that are kept.

The SDK's transport does everything else, and this where anything is special: TLS, proxies, credentials in the address,
a redirect, a server that cannot be connected to. A call costs it several tasks, streams and models, which is more than
the call itself; here it is h11 on a socket. What a failure means is said in the SDK's words, which `attachment` judges.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies

import h11
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, REQUEST_TIMEOUT
from mcp_types.jsonrpc import JSONRPCError, JSONRPCNotification, JSONRPCResponse, jsonrpc_message_adapter

from readback.domain.errors import NotDispatchedError
from readback.surfaces.mcp.line_dispatch import AS_TEXT
from readback.surfaces.mcp.lines import MESSAGE_MAX_BYTES, NO_JSON, NotJsonError, is_json, json_line, plain_json

CALLS_MAX: Final = 100
"""Calls of clients at a time, as with the SDK. More of them wait before they are begun: the time that a tool may take
is the tool's, and does not run while its call waits for others.
"""
OPEN_MAX: Final = 128
"""Connections at a time: what contracts read by other tools of the server never waits for clients' calls."""
CONNECT_S: Final = 30.0
CHUNK_BYTES: Final = 1 << 16

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
        message = {"jsonrpc": "2.0", "id": f"c{next(self._ids)}", "method": "tools/call", "params": params}
        async with self._room:
            wire = await self._wire()
            try:
                async with asyncio.timeout(timeout_s):
                    result = await wire.exchange(self._target, {**self._headers, **headers}, message, on_notice)
            except TimeoutError:
                raise MCPError(code=REQUEST_TIMEOUT, message="Request 'tools/call' timed out") from None
            except (OSError, h11.ProtocolError) as error:
                raise MCPError(code=CONNECTION_CLOSED, message=f"Connection closed: {error}") from error
            finally:
                if wire.reusable():
                    self._idle.append(wire)
                else:
                    self._drop(wire)
        if isinstance(result, MCPError):
            raise result
        return result

    async def _wire(self) -> _Wire:
        while self._idle:
            wire = self._idle.pop()
            if wire.alive:
                return wire
            self._drop(wire)
        try:
            async with asyncio.timeout(CONNECT_S):
                wire = _Wire(*await asyncio.open_connection(self._host, self._port))
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


class _Wire:
    """One connection, for one exchange at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)

    @property
    def alive(self) -> bool:
        return not (self._reader.at_eof() or self._writer.is_closing())

    def reusable(self) -> bool:
        """Whether the exchange has ended on both sides, and another may follow."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE or not self.alive:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        """Ends it. A stateless server takes that for a cancellation of what it is still doing."""
        self._writer.close()

    async def exchange(
        self, target: str, headers: Mapping[str, str], message: Mapping[str, Any], on_notice: OnNotice
    ) -> dict[str, Any] | MCPError:
        try:
            body = json_line(message)[:-1]
        except NotJsonError as error:
            raise NotDispatchedError(f"Nothing was sent: {error}", remedy=AS_TEXT) from error
        request = h11.Request(
            method="POST", target=target, headers=[*headers.items(), ("content-length", str(len(body)))]
        )
        parts = (self._http.send(request), self._http.send(h11.Data(data=body)), self._http.send(h11.EndOfMessage()))
        self._writer.write(b"".join(part for part in parts if part))
        await self._writer.drain()
        head = await self._event()
        while isinstance(head, h11.InformationalResponse):
            head = await self._event()
        if not isinstance(head, h11.Response):
            return MCPError(code=CONNECTION_CLOSED, message="Connection closed")
        kind = next((value for name, value in head.headers if name == b"content-type"), b"").lower()
        if 300 <= head.status_code < 400:
            raise NotOursError
        if head.status_code == 200 and kind.startswith(b"text/event-stream"):
            return await self._streamed(on_notice)
        whole = b""
        async for part in self._parts():
            whole += part
            if len(whole) > MESSAGE_MAX_BYTES:
                return MCPError(code=CONNECTION_CLOSED, message="The answer is too large.")
        return _answer(head.status_code, kind, whole)

    async def _streamed(self, on_notice: OnNotice) -> dict[str, Any] | MCPError:
        """The answer among the events of a stream; what is told before it is handed on."""
        rest, data = b"", b""
        async for part in self._parts():
            *lines, rest = (rest + part).split(b"\n")
            if len(rest) + len(data) > MESSAGE_MAX_BYTES:
                return MCPError(code=CONNECTION_CLOSED, message="The answer is too large.")
            for line in lines:
                line = line.rstrip(b"\r")
                if line.startswith(b"data:"):
                    data += line[5:].removeprefix(b" ") + b"\n"
                elif not line and data:
                    try:
                        found, data = _message(data, on_notice), b""
                    except ValueError as error:
                        return MCPError(code=PARSE_ERROR, message=f"Failed to parse SSE message: {error}")
                    if found is not None:
                        return found
        return MCPError(code=CONNECTION_CLOSED, message="Connection closed")

    async def _parts(self) -> Any:
        while isinstance(event := await self._event(), h11.Data):
            yield event.data

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(CHUNK_BYTES))
        return event


def _message(data: bytes, on_notice: OnNotice) -> dict[str, Any] | MCPError | None:
    """The answer in an event; None for anything else. Raises ValueError for what is no message."""
    plain = plain_json(data)
    if plain is not None and isinstance(plain.get("result"), dict) and "method" not in plain:
        found: dict[str, Any] = plain["result"]
        return found
    message = jsonrpc_message_adapter.validate_json(data, by_name=False)
    if isinstance(message, JSONRPCNotification):
        on_notice(message.method, message.params)
    if isinstance(message, JSONRPCError):
        return MCPError(code=message.error.code, message=message.error.message, data=message.error.data)
    if isinstance(message, JSONRPCResponse) and not is_json(message.result):
        return MCPError(code=CONNECTION_CLOSED, message=f"The answer {NO_JSON}.")
    return message.result if isinstance(message, JSONRPCResponse) else None


def _answer(status: int, kind: bytes, whole: bytes) -> dict[str, Any] | MCPError:
    """What a body says that is no stream; what its status says where that is nothing."""
    if status == 202:
        return MCPError(code=INVALID_REQUEST, message="server answered a request with 202 Accepted")
    found: dict[str, Any] | MCPError | None = None
    said = f"Unexpected content type: {kind.decode('latin-1')}"
    if kind.startswith(b"application/json"):
        said = "Failed to parse JSON response"
        with suppress(ValueError):
            found = _message(whole, lambda method, params: True)
    if status < 400:
        code = PARSE_ERROR if kind.startswith(b"application/json") else INVALID_REQUEST
        return found if found is not None else MCPError(code=code, message=said)
    if isinstance(found, MCPError):
        return found
    if status == 404:
        return MCPError(code=METHOD_NOT_FOUND, message="Not Found")
    return MCPError(code=INTERNAL_ERROR, message="Server returned an error response")
