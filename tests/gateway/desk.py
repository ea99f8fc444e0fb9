"""A gateway in this process with a real client before it and a real server behind it, under virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyio.lowlevel import checkpoint
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult

from readback.gateway.call import OPERATION_KEY
from readback.kit.wording import OUTCOME_KEY
from readback.mcp import Gateway, InProcess
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.gateway.servers.book import Book, server_of

CONTRACTS = Path(__file__).parent / "book.yaml"


@dataclass(slots=True)
class Told:
    """A result as the client sees it."""

    result: CallToolResult

    @property
    def outcome(self) -> dict[str, Any]:
        """The outcome; the same in both places, where both have it."""
        meta = (self.result.meta or {}).get(OUTCOME_KEY)
        inside = (self.result.structured_content or {}).get(OUTCOME_KEY)
        assert inside is None or inside == meta
        assert isinstance(meta, dict)
        return meta

    @property
    def texts(self) -> list[str]:
        return [block.text for block in self.result.content if block.type == "text"]

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    @property
    def failed(self) -> bool:
        return self.result.is_error


@dataclass(slots=True)
class Desk:
    """What a test works with."""

    gateway: Gateway
    client: Client
    book: Book
    runtime: VirtualRuntime
    store: Any
    folder: Path
    server: MCPServer
    said: list[str] = field(default_factory=list)

    async def call(self, tool: str, operation: str | None = None, /, **arguments: Any) -> Told:
        meta: Any = None if operation is None else {OPERATION_KEY: operation}
        return Told(await self.client.call_tool(tool, arguments, meta=meta))

    async def enter(self, name: str = "rent", amount: int = 3, operation: str | None = None) -> Told:
        return await self.call("enter", operation, name=name, amount=amount)

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}


async def until_asleep() -> None:
    """Until whatever can go on has gone on, and waits: for the clock, or for an answer."""
    for _ in range(300):
        await checkpoint()


def write_contracts(folder: Path, changes: Mapping[str, str]) -> None:
    """The contract file, with some of its text in other words."""
    folder.mkdir(exist_ok=True)
    text = CONTRACTS.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "book.yaml").write_text(text, encoding="utf-8")


@asynccontextmanager
async def gateway_over(book: Book, server: MCPServer, **options: Any) -> AsyncIterator[tuple[Gateway, Client]]:
    """A gateway over the book's server, and a client of it."""
    contracts = options.pop("contracts", [book.folder / "book.yaml"])
    mode = options.pop("mode", "auto")
    gateway = Gateway([InProcess(server)], contracts, tenant="acme", principal="agent:books", **options)
    async with gateway, Client(gateway.server, mode=mode) as client:
        yield gateway, client


@asynccontextmanager
async def a_desk(folder: Path, **options: Any) -> AsyncIterator[Desk]:
    write_contracts(folder, options.pop("changes", {}))
    book, said = Book(folder), list[str]()
    server = options.pop("server", None) or server_of(book, annotations=options.pop("annotations", None))
    given = {"store": MemoryStore(), "runtime": VirtualRuntime(), "say": said.append, **options}
    async with gateway_over(book, server, **given) as (gateway, client):
        yield Desk(gateway, client, book, given["runtime"], given["store"], folder, server, said)


def at_a_desk(folder: Path, work: Callable[[Desk], Awaitable[None]], **options: Any) -> None:
    """Runs a test's work at a desk of its own."""

    async def main() -> Exception | None:
        async with a_desk(folder, **options) as desk:
            try:
                await work(desk)
            except Exception as error:  # raised outside of the task groups, which would wrap it
                return error
        return None

    failed = asyncio.run(main())
    if failed is not None:
        raise failed
