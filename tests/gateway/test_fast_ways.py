"""The ways past the SDK that a tool call takes: they give up nothing that the SDK's way keeps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_PARAMS, REQUEST_TIMEOUT

from readback.canon import ReadbackError
from readback.canon.limits import DEPTH_MAX_LEVELS
from readback.client.proposal import Proposal
from readback.gateway.call import Call
from readback.gateway.policy.catalogue import Catalogue
from readback.gateway.policy.servers import Servers
from readback.gateway.policy.ungoverned import contract_for_all, kept, proposed
from readback.gateway.serving.stdio_fast_path import Admitted, CallLane
from readback.gateway.wire.http_client import Events, NotOursError, Posts
from readback.gateway.wire.jsonl import json_line, plain_json
from readback.gateway.wire.pipes import Outgoing
from readback.testing.runtime_virtual import VirtualRuntime
from tests.gateway.desk import until_asleep

RESULT = b'{"jsonrpc":"2.0","id":"c1","result":{"content":[],"big":1}}'
REFUSED = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no such name"}}'
NOTICE = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}'


def answer(body: bytes, status: str = "200 OK", kind: str = "application/json", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}content-length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def a_server(said: bytes, *, hangs: bool = False, later: bytes = b"") -> Any:
    """Answers every POST with these bytes, in which "c1" is the id of the request; says how many connections it had.
    `later`: what it says unasked, when the answer has been read.
    """
    opened: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            asked = json.dumps(json.loads(await reader.readexactly(length))["id"]).encode()
            writer.write(said.replace(b'"c1"', asked))
            if later:
                await until_asleep()
                writer.write(later)
            if b"content-length" not in said and not hangs:
                writer.close()
                return

    async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    server = await asyncio.start_server(quietly, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", opened
    finally:
        server.close()
        for writer in opened:
            writer.close()


def posted(said: bytes, work: Callable[[Callable[..., Awaitable[Any]], list[Any], list[Any]], Awaitable[None]]) -> None:
    async def main() -> None:
        heard: list[tuple[str, Mapping[str, Any] | None]] = []

        def hear(method: str, params: Mapping[str, Any] | None) -> bool:
            heard.append((method, params))
            return True

        async with a_server(said, hangs=said == b"") as (url, opened):
            posts = Posts.to(url, {"X-Key": "k"})
            assert posts is not None
            try:
                await work(lambda wait_s=5.0: posts.call({"name": "put"}, {}, wait_s, hear), heard, opened)
            finally:
                posts.close()

    asyncio.run(main())


@pytest.mark.requirement("GATEWAY-measured")
def test_calls_one_after_another_share_a_connection() -> None:
    async def work(call: Any, heard: list[Any], opened: list[Any]) -> None:
        assert [await call(), await call()] == [{"content": [], "big": 1}] * 2
        assert len(opened) == 1

    posted(answer(RESULT), work)


LARGE = b'{"jsonrpc":"2.0","id":"c1","result":{"content":[],"big":"' + b"x" * 300_000 + b'"}}'
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n"
    b"x-no: content-length\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
)


@pytest.mark.requirement("GATEWAY-unknown")
@pytest.mark.parametrize(
    ("said", "big", "connections"),
    [
        (answer(LARGE), "x" * 300_000, 1),  # in several pieces
        (answer(RESULT, more="Connection: close\r\n"), 1, 2),
        (answer(RESULT) + answer(REFUSED), 1, 2),  # what nobody asked for answers no other call
        (CHUNKED % (len(RESULT), RESULT), 1, 1),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer(RESULT), 1, 1),
        (answer(RESULT, "200"), 1, 1),
    ],
    ids=["large", "closed after it", "more than was asked for", "in chunks", "behind a hint", "without a reason"],
)
def test_an_answer_is_read_to_its_end_and_no_further(said: bytes, big: Any, connections: int) -> None:
    async def work(call: Any, heard: list[Any], opened: list[Any]) -> None:
        assert [await call(), await call()] == [{"content": [], "big": big}] * 2
        assert len(opened) == connections

    posted(said, work)


@pytest.mark.requirement("GATEWAY-unknown")
def test_an_answer_that_comes_twice_is_none_to_the_next_call() -> None:
    async def main() -> None:
        async with a_server(answer(RESULT), later=answer(RESULT.replace(b"1}", b"2}"))) as (url, opened):
            posts = Posts.to(url, {})
            assert posts is not None
            for _ in range(3):
                found = await posts.call({"name": "put"}, {}, 5.0, lambda method, params: True)
                assert found == {"content": [], "big": 1}
                await until_asleep()
                await until_asleep()
            assert len(opened) == 3  # no call goes where something was said that nobody asked for
            posts.close()

    asyncio.run(main())


@pytest.mark.requirement("GATEWAY-unknown")
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("body", [RESULT, REFUSED.replace(b"null", b'"c1"')], ids=["a result", "an error"])
def test_an_answer_to_another_request_is_none(body: bytes, kind: str) -> None:
    async def work(call: Any, heard: list[Any], opened: list[Any]) -> None:
        for _ in range(2):
            with pytest.raises(MCPError) as caught:
                await call()
            assert caught.value.code == CONNECTION_CLOSED
        assert len(opened) == 2

    posted(
        answer(
            b"data: %b\n\n" % body.replace(b"c1", b"c9") if "stream" in kind else body.replace(b"c1", b"c9"), kind=kind
        ),
        work,
    )


@pytest.mark.requirement("GATEWAY-unknown")
def test_a_value_adds_no_line_to_the_head_of_a_request() -> None:
    async def main() -> None:
        async with a_server(answer(RESULT)) as (url, _):
            posts = Posts.to(url, {})
            assert posts is not None
            for value in ("a\r\nx-other: b", "a\nb", "a\x00"):
                with pytest.raises(MCPError):
                    await posts.call({"name": "put"}, {"mcp-name": value}, 5.0, lambda method, params: True)
            assert await posts.call({"name": "put"}, {"mcp-name": "a"}, 5.0, lambda method, params: True)
            posts.close()

    asyncio.run(main())


@pytest.mark.requirement("GATEWAY-measured")
def test_what_is_told_on_a_stream_is_handed_on_before_its_answer() -> None:
    async def work(call: Any, heard: list[Any], opened: list[Any]) -> None:
        assert await call() == {"content": [], "big": 1}
        assert heard == [("notifications/progress", {"progressToken": "t", "progress": 1})]

    events = b": ping\r\n\r\nevent: message\r\ndata: " + NOTICE + b"\r\n\r\ndata: " + RESULT + b"\n\n"
    posted(answer(events, kind="text/event-stream"), work)


@pytest.mark.requirement("GATEWAY-measured")
@pytest.mark.parametrize(
    "before",
    [
        b"id: 7\nretry: 100\ndata: \n\n",  # names a place in the stream
        b"id: 7\ndata\n\n",
        b"event: ping\ndata: {}\n\n",
        b"event: endpoint\r\ndata: /other\r\n\r\n",
    ],
)
def test_an_event_that_is_no_message_is_passed_over(before: bytes) -> None:
    async def work(call: Any, heard: list[Any], opened: list[Any]) -> None:
        assert await call() == {"content": [], "big": 1}
        assert heard == []

    posted(answer(before + b"data: " + RESULT + b"\n\n", kind="text/event-stream"), work)


@pytest.mark.requirement("GATEWAY-measured")
@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_events_are_whole_however_they_are_cut_and_what_is_not_is_counted(piece: int) -> None:
    stream = b"data: one\ndata: line\r\n\r\n: no event\n\nevent: message\ndata:two\n\ndata: cut\ndata: off"
    events, found = Events(), list[bytes]()
    for begins in range(0, len(stream), piece):
        found += events.take(stream[begins : begins + piece])
    assert found == [b"one\nline", b"two"]
    assert events.held == len(b"data: cutdata: off")


@pytest.mark.requirement("GATEWAY-unknown")
@pytest.mark.parametrize(
    ("said", "code"),
    [
        (answer(REFUSED, "400 Bad Request"), INVALID_PARAMS),  # the server's own word
        (answer(b"oops", "500 Internal Server Error", "text/plain"), INTERNAL_ERROR),
        (answer(RESULT)[:-9], REQUEST_TIMEOUT),  # the rest never comes
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {", CONNECTION_CLOSED),
        (b"garbage\r\n\r\n", CONNECTION_CLOSED),
        (answer(RESULT).replace(b"content-length", b"Content-Length")[:-9], CONNECTION_CLOSED),  # it has gone
        (answer(RESULT, more="content-length: 3\r\n"), CONNECTION_CLOSED),  # nobody knows where it ends
        (answer(RESULT, more="x: \x00\r\n"), CONNECTION_CLOSED),
        (answer(b"", "303 See Other", more="location: /done\r\n"), CONNECTION_CLOSED),  # it may have been done
        (b"", REQUEST_TIMEOUT),
    ],
)
def test_a_call_without_an_answer_is_told_as_such(said: bytes, code: int) -> None:
    async def work(call: Any, heard: list[Any], opened: list[Any]) -> None:
        with pytest.raises(MCPError) as caught:
            await call(0.2)
        assert caught.value.code == code

    posted(said, work)


@pytest.mark.requirement("GATEWAY-unknown")
def test_what_was_not_taken_is_left_to_the_sdk() -> None:
    async def work(call: Any, heard: list[Any], opened: list[Any]) -> None:
        with pytest.raises(NotOursError):
            await call()

    posted(answer(b"", "307 Temporary Redirect", more="location: /mcp/\r\n"), work)
    assert Posts.to("https://127.0.0.1/mcp", None) is None
    assert Posts.to("http://me:secret@127.0.0.1/mcp", None) is None


@pytest.mark.requirement("GATEWAY-measured")
def test_only_a_call_like_one_that_was_let_through_goes_past_the_sdk() -> None:
    class Session:
        def __init__(self) -> None:
            self.calls: list[Any] = []

        async def answer(self, context: Any) -> dict[str, Any]:
            self.calls.append(context.params)
            return {}

    async def main() -> None:
        lane, session = CallLane(), Session()
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "put"}}
        assert not lane.take(json_line(call))  # nothing was let through yet
        relay: Any = session
        version = "io.modelcontextprotocol/protocolVersion"
        lane.admitted = Admitted(relay, None, {version: "2026-07-28"})
        assert not lane.take(json_line(call))  # has no envelope
        enveloped = {**call, "params": {"name": "put", "_meta": {version: "2026-07-28", "progressToken": 7}}}
        other = {**call, "params": {"name": "put", "_meta": {version: "2031-01-01"}}}
        for line in (json_line(other), json_line({**enveloped, "id": None}), json_line({**enveloped, "jsonrpc": "1"})):
            assert not lane.take(line)
        assert lane.take(json_line(enveloped))
        await lane.close()
        assert not lane.take(json_line(enveloped))

    asyncio.run(main())


@pytest.mark.requirement("WIRE-eras")
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_call_that_is_answered_for_now_goes_on_and_its_id_is_free(cancelled: bool) -> None:
    class Client(Outgoing):
        def __init__(self) -> None:
            super().__init__()
            self.told: list[Any] = []

        def write(self, data: bytes) -> bool:
            self.told.append(json.loads(data))
            return True

    class Session:
        def __init__(self) -> None:
            self.calls: list[Any] = []
            self.go_on = asyncio.Event()

        async def answer(self, context: Any, suspend: Any) -> dict[str, Any]:
            self.calls.append(context)
            if len(self.calls) == 1:
                suspend({"resultType": "input_required"})
                await self.go_on.wait()
            return {"call": len(self.calls)}

    async def main() -> None:
        lane, session, client = CallLane(), Session(), Client()
        relay: Any = session
        lane.admitted, lane.writer = Admitted(relay, None, {}), client
        line = json_line({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "put"}})
        assert lane.take(line)
        await checkpoint()
        asked = {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required"}}
        assert client.told == [asked]
        gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert not lane.take(json_line(gone))  # nothing of this id is under way
        first = session.calls[0].task
        if cancelled:
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert client.told == [asked]  # who asked for it has been answered
            return
        assert lane.take(line)
        await checkpoint()
        session.go_on.set()
        assert await first == {"call": 2}  # for the client's next request, and told to nobody by itself
        assert client.told == [asked, {"jsonrpc": "2.0", "id": 1, "result": {"call": 2}}]

    asyncio.run(main())


@pytest.mark.requirement("GATEWAY-measured")
def test_a_number_that_the_quick_reader_would_round_is_read_and_written_exactly() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{"n":12345678901234567890123}}\n'
    found = plain_json(line)
    assert found is not None
    assert found["result"]["n"] == 12345678901234567890123
    assert json_line(found) == line
    assert plain_json(json_line({"jsonrpc": "2.0", "id": 1, "result": {"n": 2**53}})) is not None
    assert json_line({"n": 2**70}) == b'{"n":1180591620717411303424}\n'


def deep(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels - 1):
        made = {"a": made}
    return made


@pytest.mark.parametrize("levels", [1, 2, DEPTH_MAX_LEVELS - 1, DEPTH_MAX_LEVELS, DEPTH_MAX_LEVELS + 1])
def test_a_call_without_a_contract_is_proposed_as_its_contract_would_have_it_to_the_last_level(levels: int) -> None:
    contract = contract_for_all(Servers(Catalogue(), VirtualRuntime()))
    call = Call("tool", "", "tool", deep(levels), {})

    def made(propose: Callable[[], Proposal]) -> object:
        try:
            proposal = propose()
            proposal.mark_run()
            return proposal.requested
        except ReadbackError as error:
            return error.code

    assert made(lambda: proposed(contract, call)) == made(lambda: contract("-", "tool", kept(call.arguments)))
