"""What a server over HTTP says in place of an answer, in both eras: nobody knows then what became of the call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from readback.agent_errors import ToolRefusedError, UpstreamLostError
from readback.canon import ReadbackError
from readback.gateway.upstream.upstream import Upstream

pytestmark = pytest.mark.requirement("GATEWAY-unknown")

INFO = {"name": "s", "version": "1"}
GREETINGS: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO},
    "server/discover": {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
}


def written(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


RESULT = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: LENGTH\r\n\r\n"
    b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"t"}],"said":"ok"}}'
)
"""An answer to the request with the id ID, once both words are replaced."""


class Answering:
    """A server that greets as it should, and answers each call with the same bytes."""

    def __init__(self, said: bytes, short: int = 0) -> None:
        self.said, self.short, self.calls = said, short, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).lower():
                lengths = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(sum(lengths))
                writer.write(self.answer(json.loads(body)) if head.startswith(b"post") else written(b"", "405 No"))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    def answer(self, message: dict[str, Any]) -> bytes:
        if message["method"] == "tools/call":
            self.calls += 1
            head, rest, body = self.said.replace(b"ID", json.dumps(message["id"]).encode()).partition(b"\r\n\r\n")
            return head.replace(b"LENGTH", b"%d" % len(body)) + rest + body[: len(body) - self.short]
        if "id" not in message:
            return written(b"", "202 Accepted")
        result = GREETINGS[message["method"]]
        return written(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())


@asynccontextmanager
async def called(answering: Answering, modern: bool) -> AsyncIterator[Callable[[], Awaitable[dict[str, Any]]]]:
    """A call to the server, with a short time limit."""
    server = await asyncio.start_server(answering.serve, "127.0.0.1", 0)
    upstream = Upstream.url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
    upstream.server.modern = modern
    try:
        yield lambda: upstream.call({"name": "put", "arguments": {}}, timeout_s=2)
    finally:
        await upstream.aclose()
        server.close()


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])
@pytest.mark.parametrize(
    ("said", "raised"),
    [
        (written(b"", "202 Accepted"), UpstreamLostError),  # it may be done later
        (written(b"", "303 See Other", "location: /done\r\n"), UpstreamLostError),  # it may have been done
        (written(b"", "204 No Content"), UpstreamLostError),
        (written(b"oops", "502 Bad Gateway"), UpstreamLostError),
        (written(b"", "404 Not Found"), ToolRefusedError),  # nobody is there who could do it
        (RESULT.replace(b"ID", b'"another"'), UpstreamLostError),
        (RESULT.replace(b'"ok"', b"NaN"), UpstreamLostError),
        (RESULT.replace(b"content-length", b"content-length: 3\r\ncontent-length"), UpstreamLostError),
        (RESULT.replace(b"content-length", b"x: \x00\r\ncontent-length"), UpstreamLostError),
        (b"garbage\r\n\r\n", UpstreamLostError),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {", UpstreamLostError),
        (b"", UpstreamLostError),
    ],
    ids=[
        "accepted",
        "elsewhere",
        "no content",
        "a gateway's",
        "nobody",
        "to another request",
        "no number",
        "of two lengths",
        "a forbidden character",
        "no HTTP",
        "a stream cut off",
        "silence",
    ],
)
def test_what_is_no_answer_is_told_as_unknown_and_the_call_is_made_once(
    said: bytes, raised: type[ReadbackError], modern: bool
) -> None:
    async def main() -> None:
        answering = Answering(said)
        async with called(answering, modern) as call:
            with pytest.raises(raised):
                await call()
        assert answering.calls == 1

    asyncio.run(main())


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])
@pytest.mark.parametrize("short", [0, 1, 9])
def test_an_answer_counts_when_it_is_whole(short: int, modern: bool) -> None:
    async def main() -> None:
        answering = Answering(RESULT, short)
        async with called(answering, modern) as call:
            if short:
                with pytest.raises(UpstreamLostError):
                    await call()
            else:
                assert (await call())["said"] == "ok"
        assert answering.calls == 1

    asyncio.run(main())
