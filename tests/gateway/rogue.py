"""A server that answers with whatever a test says, in this process: raw messages, of either era of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import LATEST_MODERN_VERSION

from readback.canon.frozen import dataclass
from readback.gateway.upstream.attachment import Attachment
from readback.gateway.upstream.target import Command, Server
from readback.mcp import Gateway, Upstream
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.gateway.desk import Told, write_contracts
from tests.gateway.servers.book import Book

Json = dict[str, Any]
ENTER: Json = {
    "name": "enter",
    "inputSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "amount": {"type": "integer"}},
        "required": ["name", "amount"],
    },
}
ANY: Json = {"name": "any", "inputSchema": {"type": "object"}}


@dataclass(slots=True)
class _Within(Server):
    rogue: Any = None

    def streams(self) -> AbstractAsyncContextManager[Any]:
        return _memory(self.rogue)


class Rogue(Upstream):
    """`result`: what a call is answered with. `more`: messages that come after it; `calls`: the parameters of all."""

    def __init__(self, book: Book, *, modern: bool = False, key: str = "") -> None:
        super().__init__(Command(("in process",)), key=key)
        self.server = _Within(self.target, key, rogue=self)  # type: ignore[assignment]
        self.own = Attachment(self.server)
        self.book, self.modern = book, modern
        self.tools_listed: list[Json] = [ENTER, ANY]
        self.writes = True
        self.result: Json = {"content": [{"type": "text", "text": "done"}]}
        self.more: Callable[[Any], list[Json]] = lambda _: []
        self.calls: list[Json] = []

    def answers(self, message: Json) -> list[Json]:
        """The messages that a request is answered with."""
        number, method = message.get("id"), message.get("method")
        if number is None:
            return []
        result: Json = {}
        match method:
            case "initialize":
                version = message["params"]["protocolVersion"]
                about = {"serverInfo": {"name": "rogue", "version": "1"}, "capabilities": {"tools": {}}}
                result = {"protocolVersion": version, **about}
            case "server/discover":
                result = {"supportedVersions": [LATEST_MODERN_VERSION], "capabilities": {"tools": {}}}
            case "tools/list":
                result = {"tools": self.tools_listed}
            case "tools/call":
                params = message["params"]
                self.calls.append(params)
                if self.writes and params["name"] == "enter":
                    self.book.write(params["arguments"]["name"], params["arguments"]["amount"])
                result = self.result
                return [{"id": number, "result": result}, *self.more(message)]
        if method in ("initialize", "server/discover") and (method == "server/discover") is not self.modern:
            return [{"id": number, "error": {"code": -32601, "message": "Method not found"}}]
        return [{"id": number, "result": result}]


@asynccontextmanager
async def _memory(rogue: Rogue) -> AsyncIterator[Any]:
    async with create_client_server_memory_streams() as (near, far), anyio.create_task_group() as tasks:

        async def serve() -> None:
            async for said in far[0]:
                message = said.message.model_dump(by_alias=True, exclude_unset=True)
                for answer in rogue.answers(message):
                    raw = jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **answer}, by_name=False)
                    await far[1].send(SessionMessage(raw))

        tasks.start_soon(serve)
        try:
            yield near
        finally:
            tasks.cancel_scope.cancel()


@dataclass(slots=True)
class Den:
    """What a test works with."""

    gateway: Gateway
    client: Client
    rogue: Rogue
    book: Book
    store: Any
    runtime: VirtualRuntime
    said: list[str] = field(default_factory=list)

    async def call(self, tool: str, meta: Any = None, /, **arguments: Any) -> Told:
        # The session's own call, since the client's looks at the result once more.
        return Told(await self.client.session.call_tool(tool, arguments, meta=meta))

    async def raw(self, tool: str, meta: Any = None, /, **arguments: Any) -> Json:
        """The result as it went out."""
        return (await self.call(tool, meta, **arguments)).result.model_dump(by_alias=True, exclude_unset=True)


def in_a_den(folder: Path, work: Callable[[Den], Awaitable[None]], **options: Any) -> None:
    """Runs a test's work at a gateway with a rogue behind it."""

    async def main() -> Exception | None:
        write_contracts(folder, options.pop("changes", {}))
        book, said = Book(folder), list[str]()
        rogue = Rogue(book, modern=options.pop("modern", False))
        for name, value in options.pop("rogue", {}).items():
            setattr(rogue, name, value)
        store, runtime = MemoryStore(), VirtualRuntime()
        mode = options.pop("mode", "auto")
        gateway = Gateway(
            [rogue], [folder / "book.yaml"], tenant="acme", principal="agent:books",
            store=store, runtime=runtime, say=said.append, **options,
        )  # fmt: skip
        async with gateway, Client(gateway.server, mode=mode) as client:
            try:
                await work(Den(gateway, client, rogue, book, store, runtime, said))
            except Exception as error:  # raised outside of the task groups, which would wrap it
                return error
        return None

    failed = asyncio.run(main())
    if failed is not None:
        raise failed
