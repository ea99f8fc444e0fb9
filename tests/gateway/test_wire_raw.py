"""What a client is told, looked at as it comes over the wire: nothing of it is lost that only a model would lose."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tree import ROOT
from tests.gateway.processes import END_S, EVERYTHING, ROUGH, gateway, listening
from tests.gateway.transcript import STATELESS
from tests.workers import forks
from tests.workers.forks import launched
from tests.workers.limit import killed_after

pytestmark = [pytest.mark.slow, pytest.mark.requirement("WIRE-unchanged")]

Json = dict[str, Any]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"sampling": {}}, "clientInfo": {"name": "c", "version": "1"}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class OverPipes:
    """A client of a gateway over stdio."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._writes, self._reads = process.stdin, process.stdout
        self.said: list[Json] = []
        """What came that was no answer to the last request."""

    def say(self, message: Mapping[str, Any]) -> None:
        self.write(json.dumps(message))

    def write(self, line: str) -> None:
        self._writes.write(line.encode() + b"\n")
        self._writes.flush()

    def ask(self, message: Mapping[str, Any]) -> Json:
        """The answer."""
        self.say(message)
        self.said.clear()
        while "method" in (found := self.heard()):
            self.said.append(found)
        return found

    def heard(self) -> Json:
        """The next message."""
        found: Json = json.loads(self._reads.readline())
        return found

    @contextmanager
    def begun(self, message: Mapping[str, Any]) -> Iterator[Json]:
        """What is told first of a request, and the request goes on meanwhile."""
        self.say(message)
        yield self.heard()


class OverHttp:
    """The same over HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: dict[str, str] = {}
        self.said: list[Json] = []

    def say(self, message: Mapping[str, Any]) -> None:
        self._posted(message)

    def ask(self, message: Mapping[str, Any]) -> Json:
        *self.said, answer = self._posted(message)
        return answer

    @contextmanager
    def begun(self, message: Mapping[str, Any]) -> Iterator[Json]:
        with urllib.request.urlopen(self._request(message), timeout=END_S) as answer:
            yield next(json.loads(line[6:]) for line in answer if line.startswith(b"data: {"))

    def _posted(self, message: Mapping[str, Any]) -> list[Json]:
        with urllib.request.urlopen(self._request(message), timeout=END_S) as answer:
            if "mcp-session-id" in answer.headers:
                self._session = {"mcp-session-id": answer.headers["mcp-session-id"]}
            body = answer.read().decode()
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                lines = [line[6:] for line in body.splitlines() if line.startswith("data: ")]
                return [json.loads(line) for line in lines if line]
            return [json.loads(body)] if body else []

    def _request(self, message: Mapping[str, Any]) -> urllib.request.Request:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", **self._session}
        if "io.modelcontextprotocol/protocolVersion" in message.get("params", {}).get("_meta", {}):
            headers |= {"mcp-protocol-version": STATELESS, "mcp-method": message["method"]}
            headers |= {"mcp-name": message["params"]["name"]} if "name" in message["params"] else {}
        return urllib.request.Request(self._url, json.dumps(message).encode(), headers)


Client = OverPipes | OverHttp


@contextmanager
def over_pipes(server: Sequence[str] = EVERYTHING, **env: str) -> Iterator[OverPipes]:
    command = gateway([{"command": launched(server), "env": env}])
    started = forks.start(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdin is not None
    assert started.stdout is not None
    try:
        with killed_after(started):
            yield OverPipes(started)
    finally:
        started.stdin.close()
        started.wait(END_S)
        started.stdout.close()


@contextmanager
def over_http() -> Iterator[OverHttp]:
    with listening([*EVERYTHING, "--http"]) as server, listening(gateway([{"url": server}], serve="http")) as url:
        yield OverHttp(url)


WAYS = {"pipes": over_pipes, "http": over_http}


@contextmanager
def a_client(way: str, era: str) -> Iterator[Client]:
    """It has been greeted, if it is one of those that are."""
    with WAYS[way]() as client:
        if era == "handshake":
            client.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
            client.say(INITIALIZED)
        yield client


def call(number: Any, tool: str, era: str, meta: Mapping[str, Any] | None = None, **arguments: Any) -> Json:
    said = {**(ENVELOPE if era == "stateless" else {}), **(meta or {})}
    params = {"name": tool, "arguments": arguments, **({"_meta": said} if said else {})}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.mark.requirement("WIRE-http")
@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize("way", WAYS)
def test_a_progress_report_comes_as_the_server_made_it_by_the_client_s_own_token(way: str, era: str) -> None:
    with a_client(way, era) as client:
        for number, token in enumerate(("mine", 7), 1):  # the first of an era is read by the SDK, the next is not
            answer = client.ask(call(number, "report", era, {"progressToken": token}))
            assert answer["id"] == number
            assert answer["result"]["content"] == [{"type": "text", "text": "reported"}]
            told = {"progress": 1, "total": None, "stage": {"of": [2, None]}, "_meta": {"example/x": 1.5}}
            assert [each["params"] for each in client.said] == [{"progressToken": token, **told}]


def test_what_a_client_reports_of_a_question_comes_to_the_server_as_the_client_made_it() -> None:
    with over_pipes(ROUGH) as client:
        client.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
        client.say(INITIALIZED)
        client.say(call(1, "asks", "handshake"))
        asked = client.heard()
        assert asked["method"] == "sampling/createMessage"
        assert asked["params"]["_meta"]["example/x"] == 1
        report = {"progress": 0.5, "message": None, "stage": [1], "_meta": {"example/y": {}}}
        token = asked["params"]["_meta"]["progressToken"]
        for params in ({**report, "progressToken": "another"}, {**report, "progressToken": token}):
            client.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        sampled = {"role": "assistant", "content": {"type": "text", "text": "said"}, "model": "m"}
        answer = client.ask({"jsonrpc": "2.0", "id": asked["id"], "result": sampled})
        assert json.loads(answer["result"]["content"][0]["text"]) == {**report, "progressToken": 7}


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list"])
def test_what_a_client_answers_comes_to_the_server_as_the_client_made_it(method: str) -> None:
    """Such as a task, which in the revision 2025-11-25 may stand in the place of any result."""
    task = {"result": {"task": {"taskId": "t", "status": "working", "ttl": None}, "_meta": {"x": None}}}
    odd = {"result": {"action": 7, "roots": {"uri": 1}, "_meta": []}}
    error = {"error": {"code": -32042, "message": "no", "data": [None]}}
    with over_pipes(ROUGH) as client:
        client.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
        client.say(INITIALIZED)
        for number, said in enumerate((task, odd, error, task), 1):  # the first call is read by the SDK, the next not
            client.say(call(number, "asks for a task", "handshake", method=method))
            asked = client.heard()
            assert (asked["method"], asked["params"]) == (method, {"message": None, "task": {"ttl": 60}})
            answer = client.ask({"jsonrpc": "2.0", "id": asked["id"], **said})
            told = json.loads(answer["result"]["content"][0]["text"])
            assert {key: value for key, value in told.items() if value is not None} == said


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("completion/complete", {"ref": {"type": "ref/own", "path": ["a", None]}, "argument": {"name": "n"}}),
        ("completion/complete", {"ref": {"type": "ref/resource", "name": 1}, "x": None}),
        ("completion/complete", {"ref": "own:a"}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "greet", "title": "T", "_meta": {}}}),
        ("prompts/get", {"id": 7}),
        ("prompts/get", {"name": "greet", "version": 2}),
    ],
)
def test_what_is_asked_in_words_that_nobody_here_knows_comes_to_the_only_server_as_it_is(
    method: str, params: Json
) -> None:
    with over_pipes(ROUGH) as client:
        client.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
        client.say(INITIALIZED)
        answer = client.ask({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        assert answer["error"]["data"] == params


@pytest.mark.requirement("GATEWAY-ungoverned")
@pytest.mark.parametrize("number", ["", '"id": null, ', '"id": 1.5, ', '"id": true, ', '"id": [1], '])
def test_a_call_that_has_no_id_goes_past_the_gate_to_no_server(tmp_path: Path, number: str) -> None:
    written = tmp_path / "written"
    arguments = json.dumps({"name": str(written), "text": "past it"})
    params = f'{{"name": "write", "arguments": {arguments}}}'
    with over_pipes([*ROUGH, "lax"]) as client:
        client.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
        client.say(INITIALIZED)
        client.write(f'{{"jsonrpc": "2.0", {number}"method": "tools/call", "params": {params}}}')
        refused = client.heard() if number else {}
        assert client.ask(call(1, "hello", "handshake"))["id"] == 1  # which the server answers after all before it
    assert not written.exists()
    assert refused.get("error", {}).get("code") == (-32600 if number else None)
    assert "id" not in refused or refused["id"] == {"1.5": 1.5, "true": True}.get(number[6:-2])


def test_a_word_to_the_server_may_bear_an_id_of_null() -> None:
    with over_pipes(ROUGH) as client:
        client.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
        client.say({**INITIALIZED, "id": None})
        assert client.ask({"jsonrpc": "2.0", "id": 1, "method": "ping"})["result"] == {}


@pytest.mark.requirement("WIRE-eras")
def test_a_client_that_asked_for_no_stream_is_told_of_none() -> None:
    with over_pipes(EVERYTHING, ERA="stateless") as client:
        client.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
        client.say(INITIALIZED)
        heard = list(client.said)
        for number, tool in enumerate(("echo", "change", "echo"), 1):
            client.ask(call(number, tool, "handshake"))
            heard += client.said
        assert [each["method"] for each in heard] == ["notifications/tools/list_changed"]


@pytest.mark.requirement("WIRE-ends", "WIRE-http")
@pytest.mark.parametrize(("way", "era"), [("pipes", "handshake"), ("pipes", "stateless"), ("http", "handshake")])
@pytest.mark.parametrize("said", [{"reason": "it takes too long", "_meta": {"example/x": 1}, "own": None}, {}])
def test_a_server_is_told_of_a_cancellation_in_the_client_s_words(way: str, era: str, said: Json) -> None:
    with a_client(way, era) as client:
        for number in (1, 2):  # the first of an era is read by the SDK, the next is not
            with client.begun(call(number, "wait", era, {"progressToken": "t"})) as told:
                assert told["params"]["message"] == "waiting"
                params = {"requestId": number, **said}
                client.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
                heard: list[Json] = []
                for asked in range(100):
                    if len(heard) < number:
                        answer = client.ask(call(number * 1000 + asked, "cancelled", era))
                        heard = json.loads(answer["result"]["content"][0]["text"])
        assert len(heard) == 2
        assert [{key: each[key] for key in each if key != "requestId"} for each in heard] == [said, said]
