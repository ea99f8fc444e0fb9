"""What a contract file gives a server by reference is in no record and in nothing that is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError

from readback.gateway.gateway import upstream_of
from readback.gateway.upstream.target import Endpoint, Server
from readback.mcp import Gateway, InProcess
from readback.ports.system_factory import Reference, ServerTerms
from readback.systems.configured.settings import HIDDEN, Credentials
from readback.testing.runtime_virtual import VirtualRuntime
from tests.contract_files.writing import loaded

TOKEN = "tok-51c0a9"
CONTRACT = """\
apiVersion: readback/v1
kind: Contracts
contracts:
  put:
    kind: set
    side_effect: ephemeral_write
    target: value/{requested.name}
    readers:
      - tool: {name: get, arguments: {name: "{requested.name}"}}
        consistency: strong
    ensure: {there: authoritative.value == requested.value}
    within: 200ms
"""


def _server(kept: dict[str, str]) -> MCPServer:
    """A server that repeats its token wherever it says anything."""
    server = MCPServer("shelf")

    def act(name: str, value: str) -> dict[str, str]:
        if value == "raises":
            raise ToolError(f"no login with {TOKEN}")
        if value == "refuses":
            raise MCPError(code=-32000, message=f"no login with {TOKEN}")
        kept[name] = value
        return {"by": f"Bearer {TOKEN}", TOKEN: "x"}

    def get(name: str) -> dict[str, str]:
        if kept.get(name) == "unread":
            raise ToolError(f"no login with {TOKEN}")
        return {"value": kept.get(name, ""), "by": TOKEN}

    server.add_tool(act, name="put")
    server.add_tool(act, name="free")
    server.add_tool(get, name="get")
    return server


@pytest.mark.requirement("FILE-credentials")
@pytest.mark.parametrize("value", ["kept", "raises", "refuses", "unread"])
@pytest.mark.parametrize("tool", ["put", "free"])
def test_what_a_server_was_given_by_reference_is_in_no_record_and_no_governed_answer(
    tool: str, value: str, tmp_path: Path
) -> None:
    (tmp_path / "shelf.yaml").write_text(CONTRACT, encoding="utf-8")
    url = f"sqlite:///{tmp_path / 'readback.db'}"

    async def main() -> str:
        upstream = InProcess(_server({}))
        upstream.server.secrets = Credentials([f"Bearer {TOKEN}"])
        terms: dict[str, Any] = {"url": url, "runtime": VirtualRuntime(), "tenant": "acme", "principal": "agent:a"}
        async with Gateway([upstream], [tmp_path / "shelf.yaml"], **terms) as gateway, Client(gateway.server) as client:
            try:
                return str(await client.call_tool(tool, {"name": "a", "value": value}))
            except MCPError as error:  # of a tool that no contract governs it passes as it came
                return str(error)

    told = asyncio.run(main())
    held = b"".join(each.read_bytes() for each in tmp_path.glob("readback.db*"))
    assert tool.encode() in held
    assert TOKEN.encode() not in held
    if tool == "put":
        assert TOKEN not in told
        assert HIDDEN in told
    elif value != "refuses":
        assert TOKEN in told  # what nobody governs passes as it is


@pytest.mark.requirement("FILE-credentials")
def test_a_server_of_a_file_knows_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_AUTH", f"Bearer {TOKEN}")
    by_command = ServerTerms("a", ".", ("x",), env={"SHOP_TOKEN": Reference("env", "SHOP_AUTH")})
    by_address = ServerTerms("a", ".", (), "http://h/mcp", headers={"Authorization": Reference("env", "SHOP_AUTH")})
    for terms in (by_command, by_address):
        assert upstream_of("a", terms).secrets.text(f"no login with {TOKEN}") == f"no login with {HIDDEN}"


@pytest.mark.requirement("FILE-credentials")
def test_a_server_is_named_without_the_path_of_its_address_which_may_be_its_key() -> None:
    assert Server(Endpoint("https://ann:x@mcp.example/s/k-0a1b/mcp?token=y")).said == "server 'https://mcp.example'"


LITERAL: Mapping[str, str] = {
    "a key in the address's query": "{url: 'https://h/mcp?shopApiKey=abc'}",
    "a key among the headers": "{url: 'https://h/mcp', headers: {X-Api-Token: abc}}",
    "an address in the environment": "{command: [x], env: {DATABASE_URL: 'postgresql://u:p@h/d'}}",
    "an address among the arguments": "{command: [x, 'postgresql://u:p@h/d']}",
}


@pytest.mark.requirement("FILE-credentials")
@pytest.mark.parametrize("named", LITERAL)
def test_a_credential_of_a_server_that_is_written_out_is_a_fault(named: str) -> None:
    faults = loaded(CONTRACT.replace("contracts:", f"server: {LITERAL[named]}\ncontracts:")).faults
    assert [fault.path.partition(".")[0] for _, fault in faults] == ["server"]
    assert "credential" in str(faults[0][1])
