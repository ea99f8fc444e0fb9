"""Requests over HTTP, by each reader: what has no end is refused, and what is large and has one is read."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from importlib.util import find_spec

import pytest

from readback.gateway.serving.http_reader import HEAD_MAX_BYTES, http_reader
from readback.gateway.serving.serve import serve_http
from readback.gateway.upstream.upstream import Upstream
from tests.gateway.passing import Passing
from tests.gateway.processes import ROUGH
from tests.gateway.transcript import SOON_S

HEAD = (
    b"POST /mcp HTTP/1.1\r\nhost: %b\r\n"
    b"content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
)
NAMES = {"httptools": "HttpToolsProtocol", "h11": "H11Protocol"}
pytestmark = pytest.mark.requirement("GATEWAY-measured")


@pytest.fixture(params=["httptools", "h11"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "h11":
        monkeypatch.setitem(sys.modules, "httptools", None)
    else:
        assert find_spec("httptools") is not None
    assert any(reader.__name__ == NAMES[request.param] for reader in http_reader().__mro__)
    return str(request.param)


def answered(parts: Callable[[bytes], list[bytes]]) -> bytes:
    """What a server says before it closes, or all of its first answer. `parts`: what is sent, for its host."""

    async def main() -> bytes:
        upstream = Upstream.command(ROUGH)
        stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(
            serve_http(Passing(), [upstream], port=0, stop=stop, on_listening=listening.set_result)
        )
        try:
            async with asyncio.timeout(SOON_S):
                host = (await listening).split("/")[2]
                reads, writes = await asyncio.open_connection(*host.split(":"))
                try:
                    for part in parts(host.encode()):
                        writes.write(part)
                        await writes.drain()
                    return await reads.read(1 << 16)
                except ConnectionError:
                    return b""  # it was closed before it had read everything
                finally:
                    writes.close()
        finally:
            stop.set()
            async with asyncio.timeout(SOON_S):
                await serving
                await upstream.aclose()

    return asyncio.run(main())


def refused(answer: bytes) -> bool:
    return answer == b"" or b" 400 " in answer.split(b"\r\n")[0]


@pytest.mark.parametrize("endless", [b"x-%d: " + b"a" * 1000 + b"\r\n", b"a" * 1000], ids=["headers", "one header"])
def test_a_head_without_an_end_is_refused(reader: str, endless: bytes) -> None:
    def parts(host: bytes) -> list[bytes]:
        more = [endless % n if b"%d" in endless else endless for n in range(4 * HEAD_MAX_BYTES // 1000)]
        return [HEAD % host, b"x: ", *more] if b"%d" not in endless else [HEAD % host, *more]

    assert refused(answered(parts))


def test_trailers_without_an_end_are_refused(reader: str) -> None:
    def parts(host: bytes) -> list[bytes]:
        more = [b"x-%d: " % n + b"a" * 1000 + b"\r\n" for n in range(4 * HEAD_MAX_BYTES // 1000)]
        return [HEAD % host, b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", *more]

    assert refused(answered(parts))


def test_a_body_far_larger_than_a_head_may_be_is_read_to_its_end(reader: str) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"nothing","params":{"x":"' + b"y" * (8 * HEAD_MAX_BYTES) + b'"}}'

    def parts(host: bytes) -> list[bytes]:
        pieces = [body[n : n + 10_000] for n in range(0, len(body), 10_000)]
        return [HEAD % host, b"content-length: %d\r\n\r\n" % len(body), *pieces]

    answer = answered(parts)
    assert answer.startswith(b"HTTP/1.1 ")
    assert b'"jsonrpc"' in answer
