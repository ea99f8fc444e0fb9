"""The watching gateway before the servers of the packs: without a lie no contradiction, and each lie shown.

The gateway is a process, as an agent starts it, and a report is read from its ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from readback.shadow.report import ShadowReport, ToolCounts
from tests.packs.desk import PROXY, installed
from tests.packs.lying_proxy import LIE
from tests.shadow.notes import outcome_of, report_of
from tests.workers import forks
from tests.workers.limit import killed_after

pytestmark = pytest.mark.slow
Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the packs: its program, the reading tools, honest calls, and calls that a proxy lies about."""

    program: tuple[str, ...]
    args: Callable[[Path], list[str]]
    reads: str
    begin: Callable[[Path], None]
    honest: Callable[[Path], list[Call]]
    dropped: Callable[[Path], list[Call]]
    sighted: tuple[str, ...]
    """Tools whose effects the reading tools have shown."""


def filesystem(folder: Path) -> list[Call]:
    note, other = str(folder / "note.txt"), str(folder / "other.txt")
    return [
        ("write_file", {"path": note, "content": "The first text\nand more\n"}),
        ("write_file", {"path": note, "content": "The first text\nand more\n"}),
        ("write_file", {"path": other, "content": "Another text"}),
        ("edit_file", {"path": note, "edits": [{"oldText": "first text", "newText": "edited text"}]}),
        ("edit_file", {"path": note, "edits": [{"oldText": "edited text", "newText": "a trial"}], "dryRun": True}),
        ("create_directory", {"path": str(folder / "inner")}),
        ("create_directory", {"path": str(folder / "inner")}),
        ("move_file", {"source": other, "destination": str(folder / "moved.txt")}),
        ("write_file", {"path": str(folder / "no" / "such" / "place.txt"), "content": "Nowhere"}),
    ]


def git_begin(folder: Path) -> None:
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "the root"]):
        subprocess.run(["git", "-c", "user.name=Ada", "-c", "user.email=a@b.test", *words], cwd=folder, check=True)


def git(folder: Path) -> list[Call]:
    (folder / "a.txt").write_text("a\n")
    at = {"repo_path": str(folder)}
    return [
        ("git_add", {**at, "files": ["a.txt"]}),
        ("git_add", {**at, "files": ["a.txt"]}),
        ("git_commit", {**at, "message": "The first change"}),
        ("git_add", {**at, "files": ["a.txt"]}),
        ("git_create_branch", {**at, "branch_name": "side"}),
        ("git_checkout", {**at, "branch_name": "side"}),
        ("git_checkout", {**at, "branch_name": "side"}),
        ("git_reset", at),
    ]


def git_dropped(folder: Path) -> list[Call]:
    (folder / "b.txt").write_text("b\n")
    subprocess.run(["git", "add", "b.txt"], cwd=folder, check=True)
    at = {"repo_path": str(folder)}
    return [("git_commit", {**at, "message": "A change nobody made"}), ("git_checkout", {**at, "branch_name": "main"})]


def memory(folder: Path) -> list[Call]:
    ada = {"name": "Ada Lovelace", "entityType": "person", "observations": ["writes programs"]}
    return [
        ("create_entities", {"entities": [ada]}),
        ("create_entities", {"entities": [ada]}),
        ("add_observations", {"observations": [{"entityName": "Ada Lovelace", "contents": ["likes engines"]}]}),
        ("delete_observations", {"deletions": [{"entityName": "Ada Lovelace", "observations": ["likes engines"]}]}),
        ("delete_entities", {"entityNames": ["Never Known"]}),
    ]


def sqlite(folder: Path) -> list[Call]:
    return [
        ("create_table", {"query": "CREATE TABLE notes (name TEXT)"}),
        ("write_query", {"query": "INSERT INTO notes VALUES ('milk')"}),
        ("write_query", {"query": "DELETE FROM notes WHERE name = 'never there'"}),
        ("append_insight", {"insight": "Milk is out"}),
    ]


def nothing(folder: Path) -> None:
    """A folder as it is."""


SERVERS = {
    "filesystem": Server(
        ("npm", "node_modules", ".bin", "mcp-server-filesystem"),
        lambda folder: [str(folder)],
        "read_text_file,list_directory",
        nothing,
        filesystem,
        lambda folder: [
            ("write_file", {"path": str(folder / "lie.txt"), "content": "A text nobody wrote"}),
            ("write_file", {"path": str(folder / "note.txt"), "content": "A text that stays away"}),
        ],
        ("write_file", "edit_file", "create_directory"),
    ),
    "git": Server(
        ("git", "bin", "mcp-server-git"),
        lambda folder: ["--repository", str(folder)],
        "git_status,git_diff_staged,git_log",
        git_begin,
        git,
        git_dropped,
        ("git_add", "git_commit", "git_checkout"),
    ),
    "memory": Server(
        ("npm", "node_modules", ".bin", "mcp-server-memory"),
        lambda folder: [],
        "read_graph",
        nothing,
        memory,
        lambda folder: [
            ("create_entities", {"entities": [{"name": "Bob", "entityType": "person", "observations": ["is made up"]}]})
        ],
        ("create_entities", "add_observations", "delete_observations"),
    ),
    "sqlite": Server(
        ("sqlite", "bin", "mcp-server-sqlite"),
        lambda folder: ["--db-path", str(folder / "data.db")],
        "list_tables,read_query,describe_table",
        nothing,
        sqlite,
        lambda folder: [],
        ("create_table",),
    ),
}


def parameters(server: Server, folder: Path, *, proxied: bool) -> StdioServerParameters:
    """A watching gateway as a process, before the server or before the proxy."""
    command = [installed(*server.program), *server.args(folder)]
    behind = [sys.executable, str(PROXY), *command] if proxied else command
    argv = ["mcp", "--shadow", "--reads", server.reads, "--ledger-url", url_of(folder)]
    program, *words = forks.launched([forks.READBACK, *argv, "--", *behind])
    who = {f"GIT_{role}_{what}": said for role in ("AUTHOR", "COMMITTER") for what, said in WHO.items()}
    env = {**os.environ, **who, "MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return StdioServerParameters(command=program, args=words, env=env, cwd=folder.parent)


WHO = {"NAME": "Ada", "EMAIL": "a@b.test"}


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder.parent}/readback.db"


def with_client(server: Server, folder: Path, work: Callable[[Client], Awaitable[None]], *, proxied: bool) -> None:
    async def main(log: TextIO) -> None:
        async with Client(stdio_client(parameters(server, folder, proxied=proxied), errlog=log)) as client:
            await work(client)

    with open(folder.parent / "gateway.log", "a", encoding="utf-8") as log:
        asyncio.run(main(log))


async def made(client: Client, calls: list[Call], lie: str = "") -> None:
    meta: Any = {LIE: lie} if lie else None
    for tool, arguments in calls:
        try:
            result = await client.call_tool(tool, arguments, meta=meta)
        except RuntimeError:  # the client holds the proxy's answer against the tool's schema, and says so
            if not lie:
                raise
        else:
            assert outcome_of(result)["verdict"] == "undetermined"


def by_tool(report: ShadowReport) -> Mapping[str, ToolCounts]:
    return {each.tool: each for each in report.tools}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.mark.requirement("SHADOW-no-false-alarm")
@pytest.mark.parametrize("name", SERVERS)
def test_an_honest_server_has_no_contradiction(name: str, folder: Path) -> None:
    server = SERVERS[name]
    server.begin(folder)
    calls = server.honest(folder)

    async def work(client: Client) -> None:
        await made(client, calls)

    with_client(server, folder, work, proxied=False)
    report = report_of(url_of(folder))
    assert report.contradicted == 0, json.dumps(report.as_json(), indent=1)
    assert sum(each.calls for each in report.tools) == len(calls)
    found = by_tool(report)
    assert all(found[tool].changed for tool in server.sighted), json.dumps(report.as_json(), indent=1)


@pytest.mark.requirement("SHADOW-lie-shown")
@pytest.mark.parametrize("name", ["filesystem", "git", "memory"])
def test_a_lying_server_is_shown_lying(name: str, folder: Path) -> None:
    server = SERVERS[name]
    server.begin(folder)
    honest, dropped = server.honest(folder), list[Call]()

    async def work(client: Client) -> None:
        await made(client, honest)
        dropped.extend(server.dropped(folder))
        await made(client, dropped, "drop")

    with_client(server, folder, work, proxied=True)
    report = report_of(url_of(folder))
    lies = [(each.watched.tool, each.watched.arguments) for each in report.contradictions]
    assert lies == [(tool, arguments) for tool, arguments in lies_of(server, folder)], json.dumps(
        report.as_json(), indent=1
    )


def lies_of(server: Server, folder: Path) -> list[Call]:
    return server.dropped(folder) if server.begin is not git_begin else git_dropped(folder)


@pytest.mark.requirement("SHADOW-lost-server")
@pytest.mark.parametrize("lie", ["close", "elsewhere", "twice"])
def test_other_faults_are_never_taken_for_a_seen_change_of_the_call(lie: str, folder: Path) -> None:
    server = SERVERS["filesystem"]
    first = [("write_file", {"path": str(folder / "a.txt"), "content": "The first text"})]
    second = [("write_file", {"path": str(folder / "b.txt"), "content": "The second text"})]

    async def work(client: Client) -> None:
        await made(client, first)
        await made(client, second, lie)

    with_client(server, folder, work, proxied=True)
    found = by_tool(report_of(url_of(folder)))["write_file"]
    assert found.calls == 2
    # close: no answer, and no judgement. elsewhere: said done and not there. twice: there.
    assert (found.unanswered, found.contradicted, found.changed) == {
        "close": (1, 0, 1),
        "elsewhere": (0, 1, 1),
        "twice": (0, 0, 2),
    }[lie]


@contextmanager
def serving(server: Server, folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """A watching gateway over HTTP before the proxy: its address, and what kills it."""
    command = [sys.executable, str(PROXY), installed(*server.program), *server.args(folder)]
    argv = ["mcp", "--shadow", "--reads", server.reads, "--ledger-url", url_of(folder), "--serve", "http"]
    options: dict[str, Any] = {"cwd": folder.parent, "stdout": subprocess.PIPE, "text": True}
    process = forks.start([forks.READBACK, *argv, "--port", "0", "--json", "--", *command], **options)
    try:
        assert process.stdout is not None
        with killed_after(process):
            lines = [process.stdout.readline() for _ in range(3)]  # one JSON object
            url = json.loads("".join(lines))["url"]
        yield url, process.kill
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.requirement("SHADOW-restart")
def test_a_kill_in_the_middle_of_a_call_and_a_restart_lose_no_count(folder: Path) -> None:
    server = SERVERS["filesystem"]
    calls = [("write_file", {"path": str(folder / f"{n}.txt"), "content": f"The text of {n}"}) for n in range(4)]

    async def cut_off(url: str, kill: Callable[[], None]) -> None:
        async with Client(url) as client:
            await made(client, calls[:2])
            hanging = asyncio.create_task(made(client, calls[2:3], "hang"))
            while not (folder / "2.txt").exists():
                await asyncio.to_thread(os.sched_yield)
            kill()
            await asyncio.gather(hanging, return_exceptions=True)

    with serving(server, folder) as (url, kill), contextlib.suppress(BaseExceptionGroup, Exception):
        asyncio.run(cut_off(url, kill))
    found = by_tool(report_of(url_of(folder)))["write_file"]
    assert (found.calls, found.changed, found.unanswered) == (3, 2, 1)

    async def again(url: str) -> None:
        async with Client(url) as client:
            await made(client, calls[3:])

    with serving(server, folder) as (url, _):
        asyncio.run(again(url))
    report = report_of(url_of(folder))
    found = by_tool(report)["write_file"]
    assert (found.calls, found.changed, found.unanswered, report.contradicted) == (4, 3, 1, 0)
