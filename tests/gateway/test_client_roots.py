"""The folders that a client offers to servers: those in which Readback's own files lie go to no server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ListRootsResult, Root
from pydantic import FileUrl

from readback.contracts.documents import own_files
from readback.gateway.serving.serve import sdk_server
from readback.gateway.upstream.upstream import Upstream
from readback.gateway.wire.client_roots import permitted, permitted_in
from tests.gateway.passing import Passing
from tests.gateway.processes import EVERYTHING

pytestmark = pytest.mark.requirement("SEC-own-files")


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a ledger in it, and beside that a folder that a server may have."""
    for name in ("ops room/keys", "notes"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ops room" / "readback.db").write_text("")
    (tmp_path / "way").symlink_to(tmp_path / "ops room")
    own_files.keep(tmp_path / "ops room" / "readback.db")
    own_files.keep_folder(tmp_path / "ops room" / "keys")
    return tmp_path


@pytest.mark.parametrize(
    "uri",
    [
        "file://{}",
        "file://{}/ops%20room",
        "file://{}/ops room",
        "FILE://localhost{}/ops%20room/",
        "file:{}/ops%20room",
        "file://{}/notes/../ops%20room",
        "file://{}/notes/%2e%2e/ops%20room",
        "file://{}/way",
        "file://{}/ops%20room/readback.db",
        "file://{}/ops%20room/keys",
        "file://{}/ops%20room?x#y",
        "{}/ops room",
    ],
)
def test_no_root_that_leads_to_own_files_is_offered_to_a_server(desk: Path, uri: str) -> None:
    reaching, harmless = {"uri": uri.format(desk)}, {"uri": f"file://{desk}/notes", "name": "w"}
    others: list[Any] = [harmless, {"uri": "https://a.example/x"}, {"uri": 5}, "none"]
    assert permitted({"roots": [reaching, *others], "_meta": {"a": 1}}) == {"roots": others, "_meta": {"a": 1}}
    answered = permitted_in({"name": "x", "inputResponses": {"r": {"roots": [reaching, harmless]}, "e": {"a": 1}}})
    assert answered == {"name": "x", "inputResponses": {"r": {"roots": [harmless]}, "e": {"a": 1}}}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_server_that_asks_for_roots_is_not_told_of_a_folder_with_own_files(desk: Path, mode: str) -> None:
    async def offered(_: object) -> ListRootsResult:
        named = ("ops room", "notes")
        return ListRootsResult(roots=[Root(uri=FileUrl(f"file://{desk}/{name}".replace(" ", "%20"))) for name in named])

    async def run() -> str:
        upstream = Upstream.command(EVERYTHING)
        try:
            server = sdk_server(Passing(), [upstream])
            async with Client(server, mode=mode, list_roots_callback=offered) as client:
                told = await client.call_tool("roots", {})
                return str(told.content[0].text)
        finally:
            await upstream.aclose()

    assert asyncio.run(run()) == f"file://{desk}/notes"
