"""Numbers that JSON has not, and those that are larger than a machine word: handed on as they came, or not at all."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from readback.gateway.wire.http_client import _message
from readback.gateway.wire.jsonl import NotJsonError, answer_line, is_json, json_line
from tests.architecture.tree import ROOT
from tests.gateway.processes import ROUGH, gateway
from tests.gateway.rogue import Den, in_a_den
from tests.gateway.test_guard import HELLO, end
from tests.workers import forks

LARGE = "123456789012345678901234567890"


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[bytes]]:
    made = forks.start(gateway([{"command": ROUGH}]), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        asked(made, json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}))
        yield made
    finally:
        end(made)


def asked(process: subprocess.Popen[bytes], line: str) -> bytes:
    """The very line that answers one."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line.encode() + b"\n")
    process.stdin.flush()
    return process.stdout.readline()


def call(process: subprocess.Popen[bytes], name: str, arguments: str) -> bytes:
    params = f'{{"name": "{name}", "arguments": {arguments}}}'
    return asked(process, f'{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {params}}}')


@pytest.mark.slow
@pytest.mark.parametrize("number", ["NaN", "-Infinity"])
def test_an_answer_with_a_number_that_json_has_not_is_no_answer(process: subprocess.Popen[bytes], number: str) -> None:
    found = json.loads(call(process, "number", json.dumps({"n": number})))
    assert "holds a number that JSON has not" in found["error"]["message"]
    assert json.loads(call(process, "number", '{"n": "7"}'))["result"]["n"] == 7  # and the session goes on


@pytest.mark.slow
@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_a_call_with_such_a_number_is_refused_and_not_sent(process: subprocess.Popen[bytes], number: str) -> None:
    found = json.loads(call(process, "echo", f'{{"n": {number}}}'))
    assert "holds a number that JSON has not" in found["error"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [LARGE, f"-{LARGE}", "18446744073709551616", "9007199254740993"])
def test_a_large_integer_passes_digit_by_digit_both_ways(process: subprocess.Popen[bytes], number: str) -> None:
    assert f'"n":{number}'.encode() in call(process, "number", json.dumps({"n": number}))
    assert f'"n": {number}'.encode() in call(process, "echo", f'{{"n": {number}}}')


def test_no_line_holds_what_is_no_json() -> None:
    for value in (float("nan"), float("inf"), [{"deep": float("-inf")}], {"n": float("nan"), "large": 2**70}):
        assert not is_json(value)
        with pytest.raises(NotJsonError):
            json_line({"value": value})
        assert json.loads(answer_line({"id": 3, "result": value}))["error"]["code"] == -32603
    assert json_line({"none": None, "n": 1.5, "large": 2**70}) == f'{{"none":null,"n":1.5,"large":{2**70}}}\n'.encode()


def test_an_answer_over_http_with_such_a_number_is_none_either() -> None:
    found = _message(b'{"jsonrpc": "2.0", "id": "c1", "result": {"n": NaN}}', "c1", lambda method, params: True)
    assert isinstance(found, MCPError)
    large = f'{{"jsonrpc": "2.0", "id": "c1", "result": {{"n": {LARGE}}}}}'.encode()
    assert _message(large, "c1", lambda *_: True) == {"n": int(LARGE)}


@pytest.mark.requirement("WIRE-unchanged")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_what_a_server_tells_with_such_a_number_is_told_to_nobody(tmp_path: Path, mode: str) -> None:
    async def work(den: Den) -> None:
        plain = den.rogue.answers

        def report(message: Any, progress: float) -> Any:
            params = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": progress}
            return {"method": "notifications/progress", "params": params}

        def answers(message: Any) -> Any:
            told = [report(message, each) for each in (float("nan"), 1.0)] if message["method"] == "tools/call" else []
            return [*told, *plain(message)]

        den.rogue.answers = answers  # type: ignore[method-assign]
        steps: list[float] = []

        async def step(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        await den.client.call_tool("any", {}, progress_callback=step)
        assert steps == [1.0]

    in_a_den(tmp_path, work, mode=mode)
