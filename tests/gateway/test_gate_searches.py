"""Contracts behind the gateway whose search, and whose look-up by key, are tools of the very server that acts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from readback.domain.events import open_envelope
from readback.errors import SettingsError
from tests.gateway.desk import Desk, at_a_desk
from tests.gateway.servers.book import Book, server_of

READS = ToolAnnotations(read_only_hint=True)
COUNTED = {
    "kind: set": "kind: create",
    "      entered once: authoritative.n == 1\n": "",
    "    ensure:": """    find:
      tool: {name: entries_of, arguments: {name: "{requested.name}"}, items: /entries, complete: /whole}
      consistency: strong
    ensure:""",
}
ASKED = {
    "kind: set": "kind: create",
    "    ensure:": """    lookup:
      tool:
        name: became_of
        arguments: {name: "{requested.name}"}
        status: /state
        landed: [entered]
        absent: {error_matches: "Error executing tool became_of: nobody asked for *"}
    ensure:""",
}


def searchable(folder: Path) -> MCPServer:
    """The book, with two tools that only look."""
    folder.mkdir(exist_ok=True)
    book = Book(folder)
    server = server_of(book)

    @server.tool(annotations=READS)
    def entries_of(name: str) -> dict[str, object]:
        """Every entry under a name."""
        with closing(sqlite3.connect(book.path)) as looked:
            rows = looked.execute("select n, name, amount from entries where name = ?", (name,)).fetchall()
        return {"entries": [{"n": n, "name": of, "amount": amount} for n, of, amount in rows], "whole": True}

    @server.tool(annotations=READS)
    def became_of(name: str) -> dict[str, str]:
        """What became of what was asked for."""
        if not book.rows(name):
            raise ToolError(f"nobody asked for {name}")
        return {"state": "entered"}

    return server


def recorded(desk: Desk, action: str, **wanted: str) -> list[Any]:
    found = [open_envelope(each.envelope).event.data for each in desk.store.events(action)]
    return [data for data in found if all(data.get(key) == value for key, value in wanted.items())]


@pytest.mark.requirement("FILE-tool-search")
def test_a_second_effect_is_found_by_another_tool_of_the_server_and_its_path_is_on_record(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        honest = await desk.enter("rent", 3)
        assert honest.outcome["verdict"] == "verified", honest.text
        seen = recorded(desk, honest.outcome["action"], role="find")
        assert [(each["source"], each["independence"], each["count"]) for each in seen] == [
            ("tool:entries_of", "same_client", 1)
        ]
        desk.book.lie = "twice"
        told = await desk.enter("gas", 4)
        assert told.failed
        assert told.outcome["discrepancy"] == "duplicate_side_effect"
        assert desk.book.rows("gas") == [4, 4]

    at_a_desk(tmp_path, work, changes=COUNTED, server=searchable(tmp_path))


@pytest.mark.requirement("FILE-tool-search")
def test_what_became_of_a_call_is_asked_of_another_tool_of_the_server(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        told = await desk.enter("rent", 3)
        assert told.outcome["verdict"] == "verified", told.text
        said = recorded(desk, told.outcome["action"], status="landed", source="tool:became_of")
        assert [each["independence"] for each in said] == ["same_client"]
        desk.book.lie = "drop"
        lost = await desk.enter("gas", 4)
        assert lost.failed
        assert recorded(desk, lost.outcome["action"], status="unknown_key")

    at_a_desk(tmp_path, work, changes=ASKED, server=searchable(tmp_path))


@pytest.mark.requirement("FILE-tool-search")
def test_a_contract_that_searches_with_the_tool_that_it_governs_is_refused(tmp_path: Path) -> None:
    changes = {
        **COUNTED,
        "    ensure:": """    lookup:
      tool: {name: enter, arguments: {name: "{requested.name}", amount: 1}, status: /entered, landed: [rent]}
    ensure:""",
    }

    async def work(desk: Desk) -> None:
        pytest.fail("it began")

    with pytest.raises(SettingsError, match="reads with its own governed tool"):
        at_a_desk(tmp_path, work, changes=changes)
