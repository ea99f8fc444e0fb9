"""A server of notes that lies as a note's text says, and a gateway that watches the server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult

from readback import Readback
from readback.kit.wording import OUTCOME_KEY
from readback.mcp import Gateway, InProcess
from readback.shadow.report import ShadowReport, shadow_report
from readback.testing.runtime_virtual import VirtualRuntime

READS = ("list_notes", "read_note")


@dataclass(slots=True)
class Notes:
    """The notes, and the readings so far. `gate`: holds a call of `write_note` back until set."""

    kept: dict[str, str] = field(default_factory=dict)
    looks: int = 0
    gate: asyncio.Event | None = None
    entered: asyncio.Event = field(default_factory=asyncio.Event)


def server_of(notes: Notes, **hints: Any) -> MCPServer:
    """The server. A text with `lost` is not written, and one with `late` is written at the second reading after."""
    server = MCPServer("notes")
    pending: dict[str, str] = {}

    @server.tool()
    async def write_note(name: str, text: str) -> str:
        """Writes a note."""
        notes.entered.set()
        if notes.gate is not None:
            await notes.gate.wait()
        if "half" in text:
            notes.kept[name] = text
            raise ValueError("The note is half written.")
        if "refused" in text:
            raise ValueError("The note is refused.")
        if "late" in text:
            pending[name] = text
        elif "lost" not in text:
            notes.kept[name] = text
        return f"Saved {name}."

    @server.tool()
    def delete_note(name: str) -> str:
        """Deletes a note. A name with `stays` is not deleted."""
        if "stays" not in name:
            notes.kept.pop(name, None)
        return f"Deleted {name}."

    @server.tool(annotations=hints.get("list_notes"))
    def list_notes() -> dict[str, str]:
        """Lists all notes."""
        notes.looks += 1
        if notes.looks % 2 == 0:
            notes.kept.update(pending)
            pending.clear()
        return dict(notes.kept)

    @server.tool()
    def read_note(name: str) -> str:
        """Reads one note."""
        if name not in notes.kept:
            raise ValueError("There is no such note.")
        return notes.kept[name]

    @server.tool()
    def count_visits() -> int:
        """Reads, and writes by reading."""
        notes.looks += 1
        return notes.looks

    @server.tool()
    async def wait_notes() -> str:
        """Never answers."""
        notes.looks += 1
        await asyncio.Event().wait()
        return ""

    @server.tool()
    def ring_bell(loud: bool = False) -> str:
        """Leaves nothing behind."""
        return "Rung."

    return server


@dataclass(slots=True)
class Desk:
    """A watching gateway with a client."""

    gateway: Gateway
    client: Client
    notes: Notes
    url: str
    said: list[str]

    async def call(self, tool: str, /, **arguments: Any) -> CallToolResult:
        return await self.client.call_tool(tool, arguments)

    async def write(self, name: str, text: str) -> CallToolResult:
        return await self.call("write_note", name=name, text=text)

    def report(self) -> ShadowReport:
        return report_of(self.url)


def report_of(url: str) -> ShadowReport:
    """The report of a ledger."""
    with Readback.open(url) as rb:
        return shadow_report(rb._session)


def outcome_of(result: CallToolResult) -> dict[str, Any]:
    found = (result.meta or {})[OUTCOME_KEY]
    assert isinstance(found, dict)
    return found


@asynccontextmanager
async def a_desk(folder: Path, notes: Notes, **options: Any) -> AsyncIterator[Desk]:
    url, said = f"sqlite:///{folder}/readback.db", list[str]()
    server = options.pop("server", None) or server_of(notes)
    given = {"shadow": True, "reads": READS, "url": url, "say": said.append, "runtime": VirtualRuntime(), **options}
    gateway = Gateway([InProcess(server)], given.pop("contracts", []), **given)
    async with gateway, Client(gateway.server) as client:
        yield Desk(gateway, client, notes, url, said)


def at_a_desk(folder: Path, work: Callable[[Desk], Awaitable[None]], **options: Any) -> ShadowReport:
    """Run a test's work at a desk, and return the report afterwards."""
    notes = options.pop("notes", None) or Notes()

    async def main() -> tuple[Exception | None, str]:
        async with a_desk(folder, notes, **options) as desk:
            try:
                await work(desk)
            except Exception as error:  # raised outside of the task groups, which would wrap it
                return error, desk.url
        return None, desk.url

    failed, url = asyncio.run(main())
    if failed is not None:
        raise failed
    return report_of(url)
