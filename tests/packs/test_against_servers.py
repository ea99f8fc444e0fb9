"""Each pack held against what its server says of itself; and the settings and the session that the page shows."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from readback.cli.cli import main
from readback.contracts.packs import PACKS, completed, is_pack, pack_content
from tests.architecture.tree import ROOT
from tests.packs.desk import installed
from tests.packs.test_packs import TOOLS
from tests.workers.limit import killed_after

ASKED = (
    {
        "method": "initialize",
        "id": 1,
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"method": "tools/list", "id": 2, "params": {}},
)
ONLY_READS = {"read_query", "list_tables", "describe_table", "append_insight"}
"""Of the SQLite server, which says nothing of it; an insight is kept in its memory and nowhere else."""
SETTINGS = ("claude-desktop-config.json", "claude-code.mcp.json")


def command(name: str, folder: Path) -> list[str]:
    binaries = ("npm", "node_modules", ".bin")
    if name == "filesystem":
        return [installed(*binaries, "mcp-server-filesystem"), str(folder)]
    if name == "memory":
        return [installed(*binaries, "mcp-server-memory")]
    if name == "git":
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        return [installed("git", "bin", "mcp-server-git"), "--repository", str(folder)]
    return [installed("sqlite", "bin", "mcp-server-sqlite"), "--db-path", str(folder / "data.db")]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORY_FILE_PATH", str(tmp_path / "memory.jsonl"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def listed(argv: list[str]) -> dict[str, Any]:
    """The tools of a server, by name."""
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ}
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with killed_after(process):
            for message in ASKED:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
                process.stdin.flush()
                answer = json.loads(process.stdout.readline()) if "id" in message else {}
        return {tool["name"]: tool for tool in answer["result"]["tools"]}
    finally:
        with killed_after(process, 10):
            process.terminate()
            process.communicate()


@pytest.mark.slow
@pytest.mark.requirement("PACK-at-hand")
@pytest.mark.parametrize("name", PACKS)
def test_no_tool_that_changes_something_is_left_out(name: str, told: Path) -> None:
    tools = listed(command(name, told))
    reads = {tool for tool, said in tools.items() if (said.get("annotations") or {}).get("readOnlyHint") is True}
    assert set(tools) - reads - (ONLY_READS if name == "sqlite" else set()) == TOOLS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKS)
def test_the_contracts_fit_the_schemas_of_the_tools(name: str, told: Path) -> None:
    done = CliRunner().invoke(main, ["contracts", "check", f"pack:{name}", "--json", "--", *command(name, told)])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["faults"] == []


@pytest.mark.requirement("PACK-parameters")
@pytest.mark.parametrize("name", SETTINGS)
def test_in_the_settings_for_clients_each_pack_is_told_by_its_command(name: str) -> None:
    servers = json.loads(Path(ROOT, "examples", name).read_text(encoding="utf-8"))["mcpServers"]
    for server in servers.values():
        arguments = server["args"]
        pack = arguments[arguments.index("--contracts") + 1]
        whole = completed(pack, arguments[arguments.index("--") + 1 :], server.get("env"))
        assert (server["command"], arguments[0]) == ("readback", "mcp")
        assert is_pack(pack)
        assert pack_content(whole)


def test_the_page_shows_the_session_that_the_example_has() -> None:
    example = ast.parse(Path(ROOT, "examples", "24-filesystem-pack.py").read_text(encoding="utf-8"))
    printed = (ast.get_docstring(example) or "").partition("Prints:\n")[2].strip()
    page = Path(ROOT, "docs", "packs.md").read_text(encoding="utf-8")
    for line in printed.splitlines():
        assert line.strip() in page
