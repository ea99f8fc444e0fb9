"""`readback mcp --actions MODULE`: actions and sagas for any host that speaks the Model Context Protocol."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from readback.cli.cli import main as command
from readback.gateway.call import OPERATION_KEY
from readback.kit.wording import OUTCOME_KEY
from tests.architecture.tree import ROOT
from tests.kit.shop import Shop, key_of
from tests.workers import forks

READBACK = str(Path(sys.executable).with_name("readback"))
MODULE = "tests.kit.served_shop"
END_S = 40
pytestmark = pytest.mark.slow


def arguments(shop: Shop, *more: str) -> list[str]:
    ledger = ("--ledger-url", f"sqlite:///{shop.home / 'ledger.db'}", "--tenant", "acme")
    return ["mcp", "--actions", MODULE, *ledger, *more]


def environment(shop: Shop) -> dict[str, str]:
    alice = key_of(shop.home).public_key
    config = shop.home / "config"
    (config / "readback").mkdir(parents=True, exist_ok=True)
    (config / "readback" / "readback.toml").write_text(
        f'[[approvers]]\nname = "alice"\nkey = "{alice}"\ntenants = ["acme"]\n'
    )
    return {**os.environ, "SHOP_HOME": str(shop.home), "XDG_CONFIG_HOME": str(config)}


@contextmanager
def started(shop: Shop, *more: str) -> Iterator[subprocess.Popen[str]]:
    with forks.start(
        [READBACK, *arguments(shop, *more)],
        cwd=ROOT, env=environment(shop), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


@asynccontextmanager
async def client(shop: Shop, way: str) -> AsyncIterator[Client]:
    if way == "stdio":
        given = StdioServerParameters(
            command=READBACK, args=arguments(shop, "--hold", "3"), env=environment(shop), cwd=ROOT
        )
        async with Client(stdio_client(given)) as found:
            yield found
        return
    with started(shop, "--serve", "http", "--port", "0", "--json", "--hold", "3") as process:
        assert process.stdout is not None
        async with Client(await asyncio.to_thread(address_of, process)) as found:
            yield found


def address_of(process: subprocess.Popen[str]) -> str:
    """The address, as the command prints it for programs."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    return str(json.loads("".join(lines))["url"])


def outcome_of(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = result.meta[OUTCOME_KEY]
    assert result.structured_content == {OUTCOME_KEY: found}
    return found


@pytest.mark.requirement("ACTIONS-served")
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_actions_are_tools_of_any_client(shop: Shop, way: str) -> None:
    async def main() -> None:
        async with client(shop, way) as found:
            tools = {each.name: each for each in (await found.list_tools()).tools}
            assert set(tools) == {
                "ship_order", "open_ticket", "pay", "hold_order", "settle", "readback_wait", "readback_status"
            }  # fmt: skip
            assert str(tools["ship_order"].description).startswith("Ship an order with a carrier.")
            done = await found.call_tool("ship_order", {"order_id": "o-1"})
            assert (done.is_error, outcome_of(done)["verdict"]) == (False, "verified")
            lie = await found.call_tool("ship_order", {"order_id": "o-2", "carrier": "dhl"})
            assert (lie.is_error, outcome_of(lie)["verdict"]) == (True, "undetermined")
            assert "Successfully" not in str(lie)
            wrong = await found.call_tool("ship_order", {"order_id": 7})
            assert (wrong.is_error, outcome_of(wrong)["code"]) == (True, "input.arguments")
            settled = await found.call_tool("settle", {"to": "bob", "amount": 5})
            assert (settled.is_error, shop.acted("pay")) == (False, 1)

    asyncio.run(main())
    assert shop.acted("ship_order") == 2


@pytest.mark.requirement("ACTIONS-served")
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_pending_parked_and_repeated_calls_over_the_wire(shop: Shop, way: str) -> None:
    async def main() -> None:
        async with client(shop, way) as found:
            once = {OPERATION_KEY: "t-1"}
            given = {"queue": "slow", "title": "t"}
            slow = await found.call_tool("open_ticket", given, meta=once)  # type: ignore[arg-type]
            action = outcome_of(slow)["action"]
            assert (slow.is_error, outcome_of(slow)["pending"]) == (True, True)
            again = await found.call_tool("open_ticket", given, meta=once)  # type: ignore[arg-type]
            assert (outcome_of(again)["action"], shop.acted("open_ticket")) == (action, 1)
            asked = await found.call_tool("readback_status", {"action": action})
            assert (asked.is_error, outcome_of(asked)["pending"]) == (False, True)
            parked = await found.call_tool("pay", {"to": "bob", "amount": 500}, meta={OPERATION_KEY: "p-1"})  # type: ignore[arg-type]
            assert (parked.is_error, shop.acted("pay")) == (True, 0)
            assert "It waits for an approval." in outcome_of(parked)["message"]

    asyncio.run(main())


@pytest.mark.requirement("ACTIONS-ended")
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_a_call_under_way_at_sigterm_is_answered_with_its_action(shop: Shop, way: str) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "hold_order", "arguments": {"order_id": "o-1"}},
    }
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    with started(shop, *(() if way == "stdio" else ("--serve", "http", "--port", "0", "--json"))) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if way == "stdio":
            for each in (first, {"jsonrpc": "2.0", "method": "notifications/initialized"}, call):
                process.stdin.write(json.dumps(each) + "\n")
                process.stdin.flush()
            assert json.loads(process.stdout.readline())["result"]["capabilities"] == {"tools": {"listChanged": False}}
            _until(shop, "hold_order")
            process.send_signal(signal.SIGTERM)
            result = json.loads(process.stdout.readline())["result"]
        else:
            result = _over_http(address_of(process), first, call, shop, process)
        assert process.wait(END_S) == 0
    told = result["_meta"][OUTCOME_KEY]
    assert (result["isError"], told["state"], told["code"], told["may_repeat"]) == (
        True,
        "unknown",
        "gateway.ended",
        False,
    )
    assert (bool(told["action"]), shop.acted("hold_order")) == (True, 1)


def _over_http(url: str, first: Any, call: Any, shop: Shop, process: subprocess.Popen[str]) -> dict[str, Any]:
    headers = {"accept": "application/json, text/event-stream"}
    with httpx.Client(headers=headers, timeout=END_S) as http:
        begun = http.post(url, json=first)
        headers = {"mcp-session-id": begun.headers["mcp-session-id"]}
        http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        answers: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: answers.append(http.post(url, json=call, headers=headers)))
        thread.start()
        _until(shop, "hold_order")
        process.send_signal(signal.SIGTERM)
        thread.join(END_S)
        data = next(line for line in answers[0].text.splitlines() if line.startswith(("data: {", "{")))
    found: dict[str, Any] = json.loads(data.removeprefix("data: "))["result"]
    return found


def _until(shop: Shop, tool: str) -> None:
    pause = threading.Event()
    for _ in range(END_S * 20):
        if shop.acted(tool):
            return
        pause.wait(0.05)
    raise AssertionError


@pytest.mark.requirement("ACTIONS-guarded")
def test_a_foreign_host_and_origin_are_refused(shop: Shop) -> None:
    with started(shop, "--serve", "http", "--port", "0", "--json") as process:
        url = address_of(process)
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            found = httpx.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)
            assert found.status_code in (403, 421)


@pytest.mark.requirement("ACTIONS-usage")
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--url", "http://127.0.0.1:1/mcp"], "--actions serves"),
        (["--contracts", "x.yaml"], "--actions serves"),
        (["--", "server"], "--actions serves"),
    ],
)
def test_a_server_beside_actions_is_a_usage_error(more: list[str], said: str) -> None:
    found = CliRunner().invoke(command, ["mcp", "--actions", MODULE, *more])
    assert found.exit_code != 0
    assert said in str(found.exception or "") + found.output


@pytest.mark.requirement("ACTIONS-usage")
@pytest.mark.parametrize("module", ["no.such.module", "json"])
def test_a_module_without_actions_is_told(shop: Shop, module: str) -> None:
    done = subprocess.run(
        [READBACK, "mcp", "--actions", module],
        cwd=ROOT,
        env=environment(shop),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (2, 5)
    assert module in done.stderr
    assert "Next: " in done.stderr or "next" in done.stderr.lower()
