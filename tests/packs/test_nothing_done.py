"""Calls that change nothing: every tool of every pack before a server that says yes and does nothing, and the list of
no-ops and refusals before the real servers. None of them is told as completed.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from readback.client.files import contract_files
from tests.packs.desk import Desk, desk_of, installed, nothing_was_changed
from tests.packs.test_git import begun, git
from tests.packs.test_memory import entity, relation
from tests.packs.test_packs import TOOLS

pytestmark = pytest.mark.slow
YES = Path(__file__).with_name("yes_server.py")
FAILED, OPEN = "failed", "not failed"


@dataclass(frozen=True, slots=True)
class Idle:
    """A call that changes nothing.

    `ends`: FAILED, or OPEN where the reading does not show the whole region: the server may
    have acted elsewhere. `said`: words of the tool or of the reading in the answer.
    """

    name: str
    pack: str
    tool: str
    given: Mapping[str, Any]
    ends: str = FAILED
    said: str = ""

    def __str__(self) -> str:
        return self.name


# --- what lies there -------------------------------------------------------------------------------------------------


def lay(pack: str, folder: Path) -> None:
    """What each call finds: a file, a graph, a repository with a change and one without, a table with one row."""
    if pack == "filesystem":
        (folder / "a.txt").write_text("one\n")
        (folder / "here").mkdir(exist_ok=True)
    elif pack == "memory":
        known = [entity("ada", "kind"), entity("bob"), relation("ada", "bob")]
        (folder / "memory").write_text("\n".join(map(json.dumps, known)))
    elif pack == "git":
        if not (folder / ".git").exists():
            begun(folder)
            begun(folder / "clean")
            begun(folder / "staged")
            (folder / "staged" / "a.txt").write_text("more\n")
            git(folder / "staged", "add", "a.txt")
            (folder / "staged" / "b.txt").write_text("b\n")
    else:
        (folder / "data.db").unlink(missing_ok=True)
        with closing(sqlite3.connect(folder / "data.db")) as database:
            database.executescript(
                "create table orders (id integer primary key, n text unique); insert into orders values (1, 'open');"
            )


def now(pack: str, folder: Path) -> Any:
    """What there is, by the test's own look."""
    if pack == "filesystem":
        return sorted((str(path), path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*"))
    if pack == "memory":
        return [json.loads(line) for line in (folder / "memory").read_text().split("\n")]
    if pack == "git":
        asked = (("status", "--porcelain"), ("for-each-ref",), ("rev-parse", "HEAD"))
        return [git(folder / at, *args) for at in ("clean", "staged") for args in asked]
    with closing(sqlite3.connect(folder / "data.db")) as database:
        return list(database.iterdump())


REPOSITORY = "clean"


def given(case: Idle, folder: Path) -> dict[str, Any]:
    if case.pack != "git":
        return {**case.given}
    return {**case.given, "repo_path": str(folder / case.given.get("repo_path", REPOSITORY))}


# --- a server that does nothing --------------------------------------------------------------------------------------

NAMES = {
    "filesystem": "root={0}&base={0}",
    "memory": "file={0}/memory",
    "git": "repository={0}",
    "sqlite": "database={0}/data.db",
}
EDITS = [{"oldText": "one", "newText": "two"}]
LINK = {"from": "ada", "to": "bob", "relationType": "knows"}
DROPPED = (
    Idle("write", "filesystem", "write_file", {"path": "a.txt", "content": "two"}, OPEN),
    Idle("write a new file", "filesystem", "write_file", {"path": "new.txt", "content": "two"}, OPEN),
    Idle("edit", "filesystem", "edit_file", {"path": "a.txt", "edits": EDITS}, OPEN),
    Idle("a dry run", "filesystem", "edit_file", {"path": "a.txt", "edits": EDITS, "dryRun": True}),
    Idle("make a folder", "filesystem", "create_directory", {"path": "new"}, OPEN),
    Idle("move", "filesystem", "move_file", {"source": "a.txt", "destination": "b.txt"}, OPEN),
    Idle("create", "memory", "create_entities", {"entities": [{"name": "eve", "entityType": "x", "observations": []}]}),
    Idle("relate", "memory", "create_relations", {"relations": [{**LINK, "relationType": "likes"}]}),
    Idle("observe", "memory", "add_observations", {"observations": [{"entityName": "ada", "contents": ["tall"]}]}),
    Idle("delete", "memory", "delete_entities", {"entityNames": ["ada"]}),
    Idle("delete what is not there", "memory", "delete_entities", {"entityNames": ["zoe"]}),
    Idle("forget", "memory", "delete_observations", {"deletions": [{"entityName": "ada", "observations": ["kind"]}]}),
    Idle("part", "memory", "delete_relations", {"relations": [LINK]}),
    Idle("add", "git", "git_add", {"repo_path": "staged", "files": ["b.txt"]}),
    Idle("add nothing", "git", "git_add", {"files": ["a.txt"]}),
    Idle("commit", "git", "git_commit", {"repo_path": "staged", "message": "m"}),
    Idle("commit nothing", "git", "git_commit", {"message": "m"}),
    Idle("reset", "git", "git_reset", {"repo_path": "staged"}),
    Idle("branch", "git", "git_create_branch", {"branch_name": "new"}),
    Idle("checkout", "git", "git_checkout", {"branch_name": "side"}),
    Idle("insert", "sqlite", "write_query", {"query": "insert into orders values (2, 'x')"}),
    Idle("update", "sqlite", "write_query", {"query": "update orders set n = 'x' where id = 1"}),
    Idle("update no row", "sqlite", "write_query", {"query": "update orders set n = 'x' where id = 9"}),
    Idle("begin", "sqlite", "write_query", {"query": "begin"}),
    Idle("delete rows", "sqlite", "write_query", {"query": "delete from orders"}),
    Idle("create a table", "sqlite", "create_table", {"query": "create table t (a int)"}),
)


@pytest.fixture(scope="module")
def idle_desks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Desk]]:
    with ExitStack() as stack:
        found = {}
        for pack, parameters in NAMES.items():
            folder = tmp_path_factory.mktemp(pack) / "work"
            folder.mkdir()
            lay(pack, folder)
            named = f"pack:{pack}?{parameters.format(folder)}"
            command = [sys.executable, str(YES), str(folder), *contract_files(named)]
            found[pack] = stack.enter_context(desk_of(folder, named, command))
        yield found


@pytest.mark.requirement("PACK-nothing-done")
@pytest.mark.parametrize("case", DROPPED, ids=lambda case: f"{case.pack} {case}")
def test_what_a_server_says_and_does_not_do_is_never_told_as_completed(idle_desks: dict[str, Desk], case: Idle) -> None:
    desk = idle_desks[case.pack]
    lay(case.pack, desk.folder)
    told = desk.call(case.tool, given(case, desk.folder), "pass")
    assert told.verified is False, told.text
    assert told.outcome["state"] in ("failed", "unknown", "review_required"), told.text
    if case.ends == FAILED:
        nothing_was_changed(told)


def test_every_tool_of_every_pack_is_among_them() -> None:
    assert {pack: {case.tool for case in DROPPED if case.pack == pack} for pack in TOOLS} == TOOLS


# --- the real servers ------------------------------------------------------------------------------------------------

REAL = (
    Idle("a dry run", "filesystem", "edit_file", {"path": "a.txt", "edits": EDITS, "dryRun": True}, said="+two"),
    Idle(
        "an old text that is not there",
        "filesystem",
        "edit_file",
        {"path": "a.txt", "edits": [{"oldText": "no", "newText": "x"}]},
        said="Could not find exact match",
    ),
    Idle(
        "an edit that changes nothing",
        "filesystem",
        "edit_file",
        {"path": "a.txt", "edits": [{"oldText": "one", "newText": "one"}]},
    ),
    Idle("a move of what is not there", "filesystem", "move_file", {"source": "no", "destination": "b"}, said="ENOENT"),
    Idle(
        "create what is there",
        "memory",
        "create_entities",
        {"entities": [{"name": "ada", "entityType": "thing", "observations": ["kind"]}]},
    ),
    Idle("relate what is related", "memory", "create_relations", {"relations": [LINK]}),
    Idle(
        "observe what is known",
        "memory",
        "add_observations",
        {"observations": [{"entityName": "ada", "contents": ["kind"]}]},
    ),
    Idle(
        "observe of nobody",
        "memory",
        "add_observations",
        {"observations": [{"entityName": "zoe", "contents": ["kind"]}]},
        said="not found",
    ),
    Idle("delete nobody", "memory", "delete_entities", {"entityNames": ["zoe"]}, said="deleted successfully"),
    Idle(
        "forget what is not known",
        "memory",
        "delete_observations",
        {"deletions": [{"entityName": "ada", "observations": ["no"]}]},
    ),
    Idle("part what is not related", "memory", "delete_relations", {"relations": [{**LINK, "to": "zoe"}]}),
    Idle("add what is not changed", "git", "git_add", {"files": ["a.txt"]}, said="No changes were staged"),
    Idle("add everything of a clean tree", "git", "git_add", {"files": ["."]}, said="No changes were staged"),
    Idle("add what is not there", "git", "git_add", {"files": ["no.txt"]}, said="did not match"),
    Idle("commit with nothing staged", "git", "git_commit", {"message": "m"}, said="No changes staged"),
    Idle("a branch that is there", "git", "git_create_branch", {"branch_name": "side"}, said="already exists"),
    Idle("a branch of no commit", "git", "git_create_branch", {"branch_name": "x", "base_branch": "no"}),
    Idle("check out nothing", "git", "git_checkout", {"branch_name": "no"}),
    Idle("no such column", "sqlite", "write_query", {"query": "update orders set statuz = 'x'"}, said="no such column"),
    Idle("no such table", "sqlite", "write_query", {"query": "insert into ordrs values (1)"}, said="no such table"),
    Idle("a syntax error", "sqlite", "write_query", {"query": "insrt into orders values (1)"}, said="syntax error"),
    Idle(
        "a key that is there", "sqlite", "write_query", {"query": "insert into orders values (1, 'x')"}, said="UNIQUE"
    ),
    Idle(
        "an update of no row",
        "sqlite",
        "write_query",
        {"query": "update orders set n = 'x' where id = 9"},
        said="'affected_rows': 0",
    ),
    Idle("an update to what is there", "sqlite", "write_query", {"query": "update orders set n = 'open' where id = 1"}),
    Idle("a deletion of no row", "sqlite", "write_query", {"query": "delete from orders where id = 9"}),
    Idle(
        "an insert that is ignored",
        "sqlite",
        "write_query",
        {"query": "insert or ignore into orders values (7, 'open')"},
    ),
    Idle("begin", "sqlite", "write_query", {"query": "begin"}),
    Idle("commit", "sqlite", "write_query", {"query": "commit"}, said="no transaction is active"),
    Idle("rollback", "sqlite", "write_query", {"query": "rollback"}, said="no transaction is active"),
    Idle("a comment", "sqlite", "write_query", {"query": "-- update orders set n = 'x'"}),
    Idle("a select", "sqlite", "write_query", {"query": "select * from orders"}, said="not allowed"),
    Idle(
        "a temporary table",
        "sqlite",
        "create_table",
        {"query": "create temp table t (a int)"},
        said="Only CREATE TABLE",
    ),
    Idle(
        "no creation", "sqlite", "create_table", {"query": "delete from orders where id = 9"}, said="Only CREATE TABLE"
    ),
    Idle(
        "a table that is there",
        "sqlite",
        "create_table",
        {"query": "create table orders (a int)"},
        said="already exists",
    ),
    Idle(
        "a table, if it is not there", "sqlite", "create_table", {"query": "create table if not exists orders (a int)"}
    ),
)


def commands(folder: Path) -> Mapping[str, list[str]]:
    npm = ("npm", "node_modules", ".bin")
    return {
        "filesystem": [installed(*npm, "mcp-server-filesystem"), str(folder)],
        "memory": [installed(*npm, "mcp-server-memory")],
        "git": [installed("git", "bin", "mcp-server-git"), "--repository", str(folder)],
        "sqlite": [installed("sqlite", "bin", "mcp-server-sqlite"), "--db-path", str(folder / "data.db")],
    }


@pytest.fixture(scope="module")
def real_desks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Desk]]:
    with ExitStack() as stack:
        found = {}
        for pack in NAMES:
            folder = tmp_path_factory.mktemp(pack) / "work"
            folder.mkdir()
            lay(pack, folder)
            env = {"MEMORY_FILE_PATH": str(folder / "memory")}
            found[pack] = stack.enter_context(desk_of(folder, f"pack:{pack}", commands(folder)[pack], env))
        yield found


@pytest.mark.requirement("PACK-nothing-done")
@pytest.mark.parametrize("case", REAL, ids=lambda case: f"{case.pack} {case}")
def test_a_call_that_changed_nothing_is_told_so_with_the_reason_and_asks_for_no_person(
    real_desks: dict[str, Desk], case: Idle
) -> None:
    desk = real_desks[case.pack]
    lay(case.pack, desk.folder)
    before = now(case.pack, desk.folder)
    told = desk.call(case.tool, given(case, desk.folder))
    assert now(case.pack, desk.folder) == before, "the server changed something"
    assert (told.verified, told.outcome["state"]) == (False, FAILED), told.text
    assert told.outcome["discrepancy"] in ("no_op_failure", "target_missing")
    assert case.said in told.text, told.text


@pytest.mark.requirement("PACK-nothing-done")
def test_the_corrected_form_of_a_slip_is_an_operation_of_its_own(real_desks: dict[str, Desk]) -> None:
    desk = real_desks["sqlite"]
    lay("sqlite", desk.folder)
    slip = desk.call("write_query", {"query": "update orders set m = 'shipped' where id = 1"})
    put_right = desk.call("write_query", {"query": "update orders set n = 'shipped' where id = 1"})
    assert (slip.outcome["state"], put_right.verified) == ("failed", True)
    assert slip.outcome["action"] != put_right.outcome["action"]
    why = desk.call("readback_explain", {"action": slip.outcome["action"]}).text
    assert "no such column: m" in why


ACCEPTED: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("filesystem", "write_file", {"path": "a.txt", "content": "one\n"}),
    ("filesystem", "create_directory", {"path": "here"}),
    ("git", "git_reset", {}),
    ("git", "git_checkout", {"branch_name": "main"}),
)


@pytest.mark.requirement("PACK-nothing-done")
@pytest.mark.parametrize(("pack", "tool", "asked"), ACCEPTED, ids=lambda each: str(each)[:20])
def test_a_state_that_is_the_goal_may_have_been_there_before(
    real_desks: dict[str, Desk], pack: str, tool: str, asked: Mapping[str, Any]
) -> None:
    desk = real_desks[pack]
    lay(pack, desk.folder)
    told = desk.call(tool, given(Idle("", pack, tool, asked), desk.folder))
    assert (told.verified, told.outcome["discrepancy"]) == (True, "no_op_success"), told.text
