"""`readback mcp` is told to end while a call is under way: its caller is told what is known, and by which id to ask."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from readback.kit.wording import OUTCOME_KEY
from tests.architecture.tree import ROOT
from tests.gateway.desk import write_contracts
from tests.gateway.processes import END_S
from tests.gateway.servers.book import Book
from tests.workers import forks

READBACK = str(Path(sys.executable).with_name("readback"))
RENT = {"name": "rent", "amount": 3}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
pytestmark = [pytest.mark.slow, pytest.mark.requirement("GATEWAY-ended")]


@contextmanager
def gateway(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A gateway before the book's server, by the command."""
    server = forks.launched([sys.executable, "-m", "tests.gateway.servers.book", str(folder / "books")])
    contracts = () if "--ungoverned" in arguments else ("--contracts", str(folder / "book.yaml"))
    ledger = ("--ledger-url", f"sqlite:///{folder}/readback.db", "--tenant", "acme")
    with forks.start(
        [READBACK, "mcp", *contracts, *ledger, *arguments, "--", *server],
        cwd=ROOT, env={**os.environ}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def book_apart(folder: Path) -> Book:
    """A book in a folder of its server's own: none with contracts and a ledger is given to it."""
    write_contracts(folder, {"database: book.db": "database: books/book.db"})
    (folder / "books").mkdir()
    return Book(folder / "books")


def until_written(book: Book) -> None:
    """The server has written, and does not answer."""
    pause = threading.Event()
    for _ in range(END_S * 20):
        if book.rows("rent"):
            return
        pause.wait(0.05)
    raise AssertionError


def told_of(result: dict[str, Any], folder: Path) -> None:
    """The caller is told that the result is unknown, not to repeat the call, and the action by which to ask."""
    outcome, text = result["_meta"][OUTCOME_KEY], result["content"][0]["text"]
    assert result["isError"] is True
    assert (outcome["state"], outcome["verdict"], outcome["may_repeat"]) == ("unknown", "undetermined", False)
    assert (outcome["pending"], outcome["code"]) == (True, "gateway.ended")
    assert "do not repeat this action; its result is unknown" in text
    assert outcome["action"] in text
    found = subprocess.run(
        [READBACK, "show", outcome["action"], "--url", f"sqlite:///{folder}/readback.db", "--tenant", "acme", "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert json.loads(found.stdout)["outcome"]["id"] == outcome["action"], found.stderr


@pytest.mark.parametrize(
    ("era", "policy"), [("handshake", "governed"), ("stateless", "governed"), ("stateless", "recorded")]
)
def test_over_stdio_a_call_under_way_is_answered_with_its_action_when_the_gateway_is_told_to_end(
    tmp_path: Path, era: str, policy: str
) -> None:
    book = book_apart(tmp_path)
    book.lie = "hang after"
    params = {"name": "enter", "arguments": RENT, **({"_meta": ENVELOPE} if era == "stateless" else {})}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    asked = [{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}]
    if era == "handshake":
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        asked = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, initialized, *asked]
    with gateway(tmp_path, *(("--ungoverned", "unverified") if policy == "recorded" else ())) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{json.dumps(each)}\n" for each in asked))
        process.stdin.flush()
        until_written(book)
        process.send_signal(signal.SIGTERM)
        answers = [json.loads(line) for line in process.stdout]
        assert process.wait(END_S) == 0
    (result,) = [each["result"] for each in answers if each.get("id") == 2]
    told_of(result, tmp_path)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_over_http_a_call_under_way_is_answered_with_its_action_when_the_gateway_is_told_to_end(
    tmp_path: Path, mode: str
) -> None:
    book = book_apart(tmp_path)
    book.lie = "hang after"
    with gateway(tmp_path, "--serve", "http", "--port", "0", "--json") as process:
        assert process.stdout is not None
        url = json.loads("".join(process.stdout.readline() for _ in range(3)))["url"]

        async def run() -> dict[str, Any]:
            async with asyncio.timeout(END_S), Client(url, mode=mode) as client:
                asked = asyncio.ensure_future(client.call_tool("enter", RENT))
                await asyncio.to_thread(until_written, book)
                process.send_signal(signal.SIGTERM)
                found = await asked
                return found.model_dump(by_alias=True, mode="json")

        told_of(asyncio.run(run()), tmp_path)
        assert process.wait(END_S) == 0
