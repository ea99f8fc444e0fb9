"""Progress of calls reaches a client in the same program, of either era, that listens for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server.mcpserver import Context, MCPServer

from readback.mcp import verify_server
from readback.testing.runtime_virtual import VirtualRuntime
from tests.gateway.desk import Told, a_desk, write_contracts
from tests.gateway.servers.book import Book

ERAS = ("auto", "legacy")
TOLD = [[1.0, 2.0, "looking for the book"], [2.0, 2.0, "writing"]]


def slow_server(folder: Path, wanted: list[bool]) -> MCPServer:
    """Its tools tell how far they are. `wanted`: whether each call came with a wish for that."""
    folder.mkdir(exist_ok=True)
    book = Book(folder)
    server = MCPServer("book", version="1.0", log_level="CRITICAL")

    async def tell(ctx: Context[Any, Any]) -> None:
        wanted.append("progressToken" in str((ctx.request_context.params or {}).get("_meta")))
        for step, (done, total, message) in enumerate(TOLD, 1):
            assert done == step
            await ctx.report_progress(float(str(done)), float(str(total)), str(message))

    @server.tool()
    async def enter(name: str, amount: int, ctx: Context[Any, Any]) -> dict[str, object]:
        """Enters an amount under a name."""
        await tell(ctx)
        book.write(name, amount)
        return {"entered": name}

    @server.tool()
    async def shred(name: str, ctx: Context[Any, Any]) -> str:
        """Does nothing, slowly."""
        await tell(ctx)
        return name

    return server


class Listener:
    """What a client's function for progress is told."""

    def __init__(self) -> None:
        self.steps: list[list[object]] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.steps.append([progress, total, message])


@pytest.mark.requirement("WIRE-http", "WIRE-eras")
@pytest.mark.parametrize("mode", ERAS)
def test_a_client_in_the_same_program_is_told_how_far_its_calls_are(tmp_path: Path, mode: str) -> None:
    wanted: list[bool] = []

    async def main() -> None:
        async with a_desk(tmp_path, server=slow_server(tmp_path, wanted), mode=mode) as desk:
            governed, passed = Listener(), Listener()
            given = {"name": "rent", "amount": 3}
            told = Told(await desk.client.call_tool("enter", given, progress_callback=governed))
            assert told.outcome["verdict"] == "verified", told.text
            assert governed.steps == TOLD
            await desk.client.call_tool("shred", {"name": "rent"}, progress_callback=passed)
            assert passed.steps == TOLD
            assert wanted == [True, True]
            await desk.enter("gas", 4)
            assert wanted == [True, True, False]  # nobody asked for it, and so is the server told

    asyncio.run(main())


@pytest.mark.requirement("GATEWAY-own-server")
@pytest.mark.parametrize("mode", ERAS)
def test_a_server_of_one_s_own_tells_its_progress_as_before(tmp_path: Path, mode: str) -> None:
    async def main() -> None:
        write_contracts(tmp_path, {})
        server = slow_server(tmp_path, [])
        options = {"url": f"sqlite:///{tmp_path}/readback.db", "tenant": "acme", "principal": "agent:books"}
        runtime = VirtualRuntime()
        async with (
            verify_server(server, [tmp_path / "book.yaml"], **options, runtime=runtime),
            Client(server, mode=mode) as client,
        ):
            listener = Listener()
            given = {"name": "rent", "amount": 3}
            told = Told(await client.call_tool("enter", given, progress_callback=listener))
            assert told.outcome["verdict"] == "verified", told.text
            assert listener.steps == TOLD

    asyncio.run(main())
