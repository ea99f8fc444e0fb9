"""`readback mcp`: the gateway as a client's configuration starts it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from readback.cli.agents.mcp import _contracts, _event_loop, _of_files, _upstreams
from readback.config import Settings
from readback.errors import ReadbackError
from readback.gateway.upstream.upstream import Endpoint
from readback.kit.wording import OUTCOME_KEY
from tests.gateway.processes import END_S, ROUGH, none_left
from tests.workers import forks

READBACK = str(Path(sys.executable).with_name("readback"))
SOON_S = 40.0
pytestmark = pytest.mark.requirement("WIRE-command")

FILE = """\
apiVersion: readback/v1
kind: Contracts
metadata: {{name: rough, version: 1.0.0}}
server: {{command: {command}}}
contracts:
  write:
    kind: set
    side_effect: ephemeral_write
    target: note/{{requested.name}}
    readers:
      - file: {{root: ., path: "{{requested.name}}"}}
    ensure:
      there: authoritative != null
      same bytes: authoritative.sha256 == sha256(requested.text)
    within: 2s
"""


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "MARK": str(folder)}
    with forks.start(
        [READBACK, "mcp", *arguments],
        cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1", "x" * 70])
def test_an_address_that_cannot_be_listened_at_is_named_with_a_next_step(tmp_path: Path, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["--serve", "http", "--host", host, "--port", str(port), "--", *ROUGH]
        with started(tmp_path, *arguments) as process:
            out, err = process.communicate(timeout=SOON_S)
    assert process.returncode == 5, err
    assert out == ""
    *_, said, remedy = err.splitlines()
    assert said.startswith(f"Error: The gateway cannot listen at {host} port {port}: ")
    assert remedy.startswith("Next: Name another port (--port; 0 takes a free one)")
    assert none_left(str(tmp_path))


@pytest.mark.slow
def test_a_client_s_configuration_with_the_command_behind_two_dashes_is_enough(tmp_path: Path) -> None:
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    arguments = ["mcp", "--ledger-url", ledger, "--", *ROUGH]
    server = StdioServerParameters(command=READBACK, args=arguments, cwd=tmp_path, env={"MARK": str(tmp_path)})

    async def run() -> Any:
        async with asyncio.timeout(SOON_S), Client(stdio_client(server), mode="legacy") as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            return names, await client.call_tool("next", {})

    names, told = asyncio.run(run())
    assert "readback_status" in names
    assert told.meta[OUTCOME_KEY]["verdict"] == "not_checked"
    assert none_left(str(tmp_path))
    listed = subprocess.run(
        [READBACK, "list", "--url", ledger, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert told.meta[OUTCOME_KEY]["action"] in listed.stdout


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_http_is_served_on_loopback_until_a_signal_and_nothing_is_left(tmp_path: Path, number: int) -> None:
    (tmp_path / "rough.yaml").write_text(FILE.format(command=json.dumps(ROUGH)))
    serving = ("--serve", "http", "--port", "0", "--ungoverned", "deny", "--json")
    with started(tmp_path, "--contracts", "rough.yaml", *serving) as process:
        assert process.stdout is not None
        url = json.loads("".join(process.stdout.readline() for _ in range(3)))["url"]
        assert url.startswith("http://127.0.0.1:")

        async def run() -> Any:
            async with asyncio.timeout(SOON_S), Client(url, mode="auto") as client:
                return await client.call_tool("write", {"name": "a", "text": "b"}), await client.call_tool("who", {})

        governed, denied = asyncio.run(run())
        assert governed.meta[OUTCOME_KEY]["verdict"] == "verified"
        assert not governed.is_error
        assert (tmp_path / "a").read_text() == "b"
        assert denied.is_error
        process.send_signal(number)
        assert process.wait(END_S) == 0
    assert none_left(str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["gone", "unlisted"])
def test_a_server_that_cannot_be_asked_for_its_tools_ends_the_start_with_words(tmp_path: Path, mode: str) -> None:
    with started(tmp_path, "--", *ROUGH, mode) as process:
        _, said = process.communicate(timeout=END_S)
        assert process.returncode == 3
        assert "does not list its tools" in said
        assert said.count("Next: ") == 1
        assert "Next: Nothing was called." in said
        assert "Do not repeat" not in said
    assert none_left(str(tmp_path))


@pytest.mark.slow
def test_a_signal_ends_a_start_that_hangs(tmp_path: Path) -> None:
    silent = "import sys; open('up', 'w').close(); sys.stdin.read()"
    with started(tmp_path, "--", sys.executable, "-S", "-c", silent) as process:
        for _ in range(END_S * 20):
            if (tmp_path / "up").exists():
                break
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0
    assert none_left(str(tmp_path))


@pytest.mark.parametrize(
    ("command", "urls", "said"),
    [
        ((), (), "No server is named"),
        (("server",), ("http://127.0.0.1:1/mcp",), "A command and a --url"),
        ((), ("http://127.0.0.1:1/mcp", "two=http://127.0.0.1:2/mcp"), "each needs a name"),
        ((), ("one=127.0.0.1",), "no address"),
    ],
)
def test_servers_that_are_not_clear_are_refused(command: Sequence[str], urls: Sequence[str], said: str) -> None:
    with pytest.raises(ReadbackError, match=said) as raised:
        _upstreams(command, urls, [], Settings())
    assert raised.value.exit_code == 2


def test_several_addresses_are_named_and_a_query_is_no_name() -> None:
    urls = ("one=http://127.0.0.1:1/mcp", "two=http://127.0.0.1:2/mcp?a=b")
    assert [(each.key, each.target) for each in _upstreams((), urls, [], Settings())] == [
        ("one", Endpoint("http://127.0.0.1:1/mcp")),
        ("two", Endpoint("http://127.0.0.1:2/mcp?a=b")),
    ]
    assert [each.key for each in _upstreams((), ("http://127.0.0.1:2/mcp?a=b",), [], Settings())] == [""]


def test_a_module_is_no_contract_of_a_gateway() -> None:
    with pytest.raises(ReadbackError, match="no contract file"):
        _contracts(Settings(contracts=("package.module",)), ())


def test_servers_of_several_files_are_named_by_their_files_and_one_that_two_name_is_one(tmp_path: Path) -> None:
    for name, command in (("left", "one"), ("right", "two"), ("again", "two")):
        text = (
            FILE.format(command=json.dumps([command]))
            .replace("  write:", f"  {name}:")
            .replace("name: rough", f"name: {name}")
        )
        (tmp_path / f"{name}.yaml").write_text(text)
    files = [str(tmp_path / f"{name}.yaml") for name in ("left", "right", "again")]
    assert [each.key for each in _of_files(files, Settings())] == ["left", "right"]
    assert [each.key for each in _of_files(files[:1], Settings())] == [""]


@pytest.mark.requirement("GATEWAY-measured")
def test_the_gateway_runs_on_the_quick_loop_and_on_python_s_own_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = _event_loop()()
    assert isinstance(quick, uvloop.Loop)
    quick.close()
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert _event_loop() is asyncio.new_event_loop
