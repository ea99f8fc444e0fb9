"""What a program hands to the gateway is held to its kind, with what belongs there, before anything is opened."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import MCPServer

from readback.errors import SettingsError
from readback.mcp import Gateway, Upstream, verify_server

SERVER = Upstream.command([sys.executable, "-c", "pass"])


@pytest.mark.requirement("GATEWAY-start")
@pytest.mark.parametrize(
    ("upstreams", "contracts", "said"),
    [
        ([SERVER], "book.yaml", "contracts must be a list"),
        ([SERVER], Path("book.yaml"), "contracts must be a list"),
        ([SERVER], [7], "contracts contains a wrong item: int"),
        (SERVER, ["book.yaml"], "upstreams must be a list"),
        (["python server.py"], ["book.yaml"], "upstreams contains a wrong item: str"),
    ],
)
def test_a_gateway_takes_lists_of_servers_and_of_contract_files(upstreams: Any, contracts: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as raised:
        Gateway(upstreams, contracts)
    assert raised.value.remedy.startswith("Pass ")


@pytest.mark.requirement("GATEWAY-start")
@pytest.mark.parametrize("argv", ["python server.py", ["python", 7]])
def test_a_command_is_a_list_of_words_and_no_line_for_a_shell(argv: Any) -> None:
    with pytest.raises(SettingsError, match="argv"):
        Upstream.command(argv)


@pytest.mark.requirement("GATEWAY-own-server")
@pytest.mark.parametrize(
    ("server", "contracts", "said"),
    [(object(), ["book.yaml"], "got object"), (MCPServer("book"), "book.yaml", "contracts must be a list")],
)
def test_a_server_of_ones_own_is_one_of_the_sdk(server: Any, contracts: Any, said: str) -> None:
    async def governed() -> None:
        async with verify_server(server, contracts):
            pass

    with pytest.raises(SettingsError, match=said):
        anyio.run(governed)
