"""Mark the messages of HTTP servers beneath the SDK's client (`text_marks`), by hooks of the HTTP client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2

from readback.gateway.wire.jsonl import MESSAGE_MAX_BYTES
from readback.gateway.wire.text_marks import MARK, marked, sent


async def to_server(request: httpx2.Request) -> None:
    """The hook before a request is sent."""
    request.headers["accept-encoding"] = "identity"  # the answer is looked at before it is decoded
    body = request.content if request.method == "POST" else b""
    if MARK.encode("ascii") in body:
        whole = sent(body)
        request.stream = httpx2.ByteStream(whole)
        request.headers["content-length"] = str(len(whole))


async def from_server(response: httpx2.Response) -> None:
    """The hook before a response is read."""
    kind = response.headers.get("content-type", "")
    if "content-encoding" not in response.headers and kind.startswith(("application/json", "text/event-stream")):
        stream: Any = response.stream
        response.stream = _Marking(stream, events=kind.startswith("text/event-stream"))


class _Marking(httpx2.AsyncByteStream):
    """A response body with marked messages: a whole body, or each stream line with an event's whole data."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, events: bool) -> None:
        self._stream, self._events = stream, events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held: list[bytes] = []
        size = 0
        async for part in self._stream:
            if self._events and b"\n" in part:
                *lines, rest = b"".join([*held, part]).split(b"\n")
                held, size = [rest], len(rest)
                yield b"".join(_event_line(line) + b"\n" for line in lines)
            else:
                held.append(part)
                size += len(part)
                if size > MESSAGE_MAX_BYTES:
                    yield b"".join(held)  # the reader says that it is too large
                    held, size = [], 0
        if held:
            whole = b"".join(held)
            yield _event_line(whole) if self._events else marked(whole, from_client=False)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _event_line(line: bytes) -> bytes:
    if not line.startswith(b"data:"):
        return line
    data = line[5:].strip()
    return b"data: " + marked(data, from_client=False) if data.startswith(b"{") and data.endswith(b"}") else line
