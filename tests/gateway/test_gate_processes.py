"""Gateway, server and client as processes of their own; the gateway is killed where it hurts most."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from readback.mcp import Gateway, InProcess, Upstream
from tests.gateway.desk import CONTRACTS, Told, write_contracts
from tests.gateway.servers.book import Book, server_of
from tests.workers import forks

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


APART = {"database: book.db": "database: books/book.db"}
"""The server's folder is its own: none with contracts and a ledger is given to it."""


def books_in(folder: Path) -> Path:
    (folder / "books").mkdir()
    return folder / "books"


def _program(folder: Path, *, forked: bool) -> StdioServerParameters:
    """A gateway, and its server behind it. `forked`: both, from a Python that has everything loaded."""
    server = [sys.executable, "-m", "tests.gateway.servers.book", str(folder / "books")]
    gateway = [sys.executable, "-m", "tests.gateway.servers.gateway_program", str(folder)]
    program, *words = forks.launched([*gateway, *forks.launched(server)]) if forked else [*gateway, *server]
    return StdioServerParameters(
        command=program,
        args=words,
        cwd=str(ROOT),
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )


@pytest.mark.requirement("GATEWAY-unknown")
def test_a_server_that_dies_in_a_call_leaves_it_unknown_and_is_read_back(tmp_path: Path) -> None:
    write_contracts(tmp_path, {"within: 2s": "within: 100ms", **APART})
    book = Book(books_in(tmp_path))

    async def main() -> None:
        book_server = forks.launched([sys.executable, "-m", "tests.gateway.servers.book", str(tmp_path / "books")])
        server = Upstream.command(book_server, cwd=str(ROOT))
        url = f"sqlite:///{tmp_path}/readback.db"
        gateway = Gateway([server], [tmp_path / "book.yaml"], url=url, tenant="acme", principal="agent:books", hold=40)
        async with gateway, Client(gateway.server) as client:
            told = {}
            for lie in ("dies after", "dies before", ""):
                book.lie = lie
                told[lie] = Told(await client.call_tool("enter", {"name": lie or "honest", "amount": 3}))
            assert told["dies after"].outcome["verdict"] == "verified"
            assert told["dies before"].failed
            assert told["dies before"].outcome["verdict"] == "undetermined"
            assert not told["dies before"].outcome["may_repeat"]
            assert told[""].outcome["verdict"] == "verified"  # by the server that was started again
            assert (book.rows("dies after"), book.rows("dies before")) == ([3], [])

    asyncio.run(main())


@pytest.mark.requirement("GATEWAY-restart")
def test_a_gateway_killed_between_the_write_and_the_answer_is_finished_by_the_next_and_writes_once(
    tmp_path: Path,
) -> None:
    write_contracts(tmp_path, APART)
    book = Book(books_in(tmp_path))
    rent = {"name": "rent", "amount": 3}

    async def main() -> None:
        book.lie = "kills its caller"
        with pytest.raises((MCPError, ExceptionGroup)):
            async with Client(_program(tmp_path, forked=False)) as client:  # whose server's parent it is
                await client.call_tool("enter", rent)
        assert book.rows("rent") == [3]
        book.lie = ""
        async with Client(_program(tmp_path, forked=True)) as client:
            told = Told(await client.call_tool("enter", rent))
            assert (told.outcome["verdict"], told.outcome["replayed"]) == ("verified", True)
            assert not told.failed
            assert "own-content-7f" not in str(told.result)  # nobody heard the answer
            honest = Told(await client.call_tool("enter", {"name": "food", "amount": 4}))
            assert honest.outcome["verdict"] == "verified"
            assert "own-content-7f" in str(honest.result)
        assert (book.rows("rent"), book.rows("food")) == ([3], [4])

    asyncio.run(main())


BY_ANOTHER_SERVER = """
      - tool: {server: reading, name: total, arguments: {name: "{requested.name}"}}
        consistency: strong
    ensure:
      as asked: authoritative.total == requested.amount
    within: 200ms
"""


@pytest.mark.requirement("GATEWAY-several")
def test_a_server_that_only_a_contract_names_is_started_read_and_ended_with_the_gateway(tmp_path: Path) -> None:
    command = f"[{sys.executable}, -m, tests.gateway.servers.book, {tmp_path}/books]"
    text = CONTRACTS.read_text(encoding="utf-8")
    head, _, _ = text.partition("\n      - sql:")
    servers = f"\nservers: {{reading: {{command: {command}, cwd: {ROOT}}}}}\ncontracts:"
    (tmp_path / "book.yaml").write_text(head.replace("\ncontracts:", servers) + BY_ANOTHER_SERVER, encoding="utf-8")
    book = Book(books_in(tmp_path))

    async def main() -> None:
        url, said = f"sqlite:///{tmp_path}/readback.db", list[str]()
        options = {"url": url, "tenant": "acme", "principal": "agent:books", "say": said.append}
        gateway = Gateway([InProcess(server_of(book))], [tmp_path / "book.yaml"], **options)
        async with gateway, Client(gateway.server) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert not any("reading" in name for name in names)
            told = Told(await client.call_tool("enter", {"name": "rent", "amount": 3}))
            assert told.outcome["verdict"] == "verified"
            book.lie = "drop"
            lied = Told(await client.call_tool("enter", {"name": "food", "amount": 3}))
            assert lied.outcome["verdict"] != "verified"
            gateway.reload()
            book.lie = ""
            again = Told(await client.call_tool("enter", {"name": "heat", "amount": 3}))
            assert again.outcome["verdict"] == "verified"
        assert said == ["The contracts were reloaded (all contract files): 1 in force."]

    asyncio.run(main())
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed  # nothing that was started runs on
