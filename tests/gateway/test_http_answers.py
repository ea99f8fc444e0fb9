"""What a server over HTTP says in place of an answer, in both eras: nobody knows then what became of the call."""

from __future__ import annotations

import asyncio
import json
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


class Answering:
    """A server that greets as it should, and answers each call with the same bytes."""

    def __init__(self, said: bytes) -> None:
        self.said, self.calls = said, 0

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
            return self.said
        if "id" not in message:
            return written(b"", "202 Accepted")
        result = GREETINGS[message["method"]]
        return written(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])
@pytest.mark.parametrize(
    ("said", "raised"),
    [
        (written(b"", "202 Accepted"), UpstreamLostError),  # it may be done later
        (written(b"", "303 See Other", "location: /done\r\n"), UpstreamLostError),  # it may have been done
        (written(b"", "204 No Content"), UpstreamLostError),
        (written(b"oops", "502 Bad Gateway"), UpstreamLostError),
        (written(b"", "404 Not Found"), ToolRefusedError),  # nobody is there who could do it
    ],
    ids=["accepted", "elsewhere", "no content", "a gateway's", "nobody"],
)
def test_what_is_no_answer_is_told_as_unknown_and_the_call_is_made_once(
    said: bytes, raised: type[ReadbackError], modern: bool
) -> None:
    async def main() -> None:
        answering = Answering(said)
        server = await asyncio.start_server(answering.serve, "127.0.0.1", 0)
        upstream = Upstream.url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
        upstream.server.modern = modern
        try:
            with pytest.raises(raised):
                await upstream.call({"name": "put", "arguments": {}}, timeout_s=5)
            assert answering.calls == 1
        finally:
            await upstream.aclose()
            server.close()

    asyncio.run(main())
