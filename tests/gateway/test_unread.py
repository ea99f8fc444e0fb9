"""Lines that cannot be read as they are: whoever waits for an answer to one is told so, and nobody else is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from readback.gateway.wire.jsonl import TooLong, from_client, from_server, unread, written
from tests.architecture.tree import ROOT
from tests.gateway.processes import END_S, ROUGH, gateway
from tests.workers import forks
from tests.workers.limit import killed_after

pytestmark = pytest.mark.requirement("WIRE-upstream")

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
HALF = rb'"\ud83d"'


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    started = forks.start(gateway([{"command": ROUGH}]), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdin is not None
    assert started.stdout is not None
    with killed_after(started):
        yield started
    started.stdin.close()
    started.wait(END_S)
    started.stdout.close()


def told(process: subprocess.Popen[bytes], line: bytes) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def begin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    told(process, json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}).encode())
    process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')


@pytest.mark.parametrize(
    "request_line",
    [
        b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"text":"\xff"}}}',
        b'{"jsonrpc":"2.0","id":5,"method":"own/method","params":[1]}',
        b'{"id":5,"method":"ping"}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":5,"method":"ping"}',
    ],
)
def test_a_request_that_cannot_be_read_is_refused_by_its_id_and_the_next_is_answered(
    process: subprocess.Popen[bytes], request_line: bytes
) -> None:
    begin(process)
    refused = told(process, request_line)
    assert (refused["id"], refused["error"]["code"]) == (5, -32600)
    assert told(process, b'{"jsonrpc":"2.0","id":6,"method":"ping"}') == {"jsonrpc": "2.0", "id": 6, "result": {}}


def test_each_request_of_a_batch_is_refused_by_its_id(process: subprocess.Popen[bytes]) -> None:
    """The revision 2025-03-26 had batches, and whoever sends one would wait for ever."""
    begin(process)
    told_first = b'{"jsonrpc":"2.0","method":"notifications/x"},[],7,{"id":[]},{"id":4,"result":{}}'
    asked = b'{"jsonrpc":"2.0","id":5,"method":"tools/list"},{"jsonrpc":"2.0","id":"six","method":"ping"}'
    refused = told(process, b" [%b,%b]" % (told_first, asked))
    assert (refused["id"], refused["error"]["code"]) == (5, -32600)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["id"] == "six"
    assert told(process, b'[]\n[{"id":\n{"jsonrpc":"2.0","id":7,"method":"ping"}')["id"] == 7


@pytest.mark.parametrize("meta", [b'"x"', b"[1]", b"0"])
@pytest.mark.parametrize("method", [b"tools/call", b"own/method"])
def test_a_request_whose_meta_is_no_object_is_refused(
    process: subprocess.Popen[bytes], method: bytes, meta: bytes
) -> None:
    begin(process)
    line = b'{"jsonrpc":"2.0","id":5,"method":"%b","params":{"name":"echo","arguments":{},"_meta":%b}}' % (method, meta)
    assert told(process, line) == {
        "jsonrpc": "2.0",
        "id": 5,
        "error": {"code": -32602, "message": "_meta must be an object."},
    }


@pytest.mark.parametrize("read", [from_client, from_server])
def test_an_answer_that_cannot_be_read_ends_the_wait_for_it_whatever_stands_in_it(read: Any) -> None:
    line = b'{"jsonrpc":"2.0","result":{"request":{"method":"GET","id":3},"text":"\xff"},"id":7}\n'
    assert read(line).message.id == 7
    assert read(line).message.error.code == -32000


@pytest.mark.parametrize(
    "line",
    [b'{"level":"info","id":7,"msg":"asked"}\n', b'{"jsonrpc":"2.0","id":7,"method":"ping","params":%b}\n' % HALF],
)
def test_neither_a_log_nor_a_request_answers_whoever_waits(line: bytes) -> None:
    assert isinstance(from_server(line), ValueError)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"debugging {\n",
        b'{"level":"info","id":7}\n',
        b'{"method":"x"}\n',
        b'{"method":"notifications/x","id":null,"params":%b}\n' % HALF,
    ],
)
def test_nobody_is_answered_who_has_not_asked(line: bytes) -> None:
    assert unread(line) is None


@pytest.mark.parametrize(("number", "told"), [(b"1.5", b"1.5"), (b"true", b"true"), (b"NaN", b"null"), (HALF, b"null")])
@pytest.mark.parametrize("read", [from_client, from_server])
def test_a_request_whose_id_is_none_is_refused_by_that_id_as_far_as_it_can_be_written(
    read: Any, number: bytes, told: bytes
) -> None:
    line = b'{"jsonrpc":"2.0","id":%b,"method":"ping"}\n' % number
    assert isinstance(read(line), ValueError)
    refused = unread(line)
    assert refused is not None
    assert written(refused).startswith(b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32600,' % told)


@pytest.mark.parametrize("number", [b"1.5", b"1e3", b"1234567890123456789012"])
def test_a_part_of_a_number_is_nobody_s_id(number: bytes) -> None:
    assert TooLong(b'{"jsonrpc":"2.0","id":%b,"method":"tools/call"' % number, b"}").request_id is None


def test_a_server_whose_request_cannot_be_read_is_told_so(process: subprocess.Popen[bytes]) -> None:
    begin(process)
    answer = told(
        process, b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"asks badly","arguments":{}}}'
    )
    assert answer["result"]["content"] == [{"type": "text", "text": "-32600"}]
