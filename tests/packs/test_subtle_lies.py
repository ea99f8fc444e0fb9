"""Servers that do nearly what they were asked: another thing in its place, a part of it, more than it, or at a cost."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from readback.client.files import contract_files
from tests.packs.desk import Desk, desk_of, nothing_was_changed
from tests.packs.test_git import begun, git

pytestmark = pytest.mark.slow
YES = Path(__file__).with_name("yes_server.py")


@dataclass(frozen=True, slots=True)
class Done:
    """A call, what lies there before it (texts by path; a text that begins with `->` is a link), what is done in its
    place, and whether that is what was asked."""

    name: str
    tool: str
    given: Mapping[str, Any]
    does: str
    there: Mapping[str, str] = field(default_factory=dict)
    asked: bool = False

    def __str__(self) -> str:
        return self.name


def desk(folder: Path, pack: str) -> Iterator[Desk]:
    """The gateway before the server that says yes to everything."""
    folder.mkdir()
    with desk_of(folder, pack, [sys.executable, str(YES), str(folder), *contract_files(pack)]) as opened:
        yield opened


def told(desk: Desk, case: Done) -> bool:
    found = desk.call(case.tool, case.given, case.does)
    assert found.outcome["verdict"] in ("verified", "refuted"), (found.text, found.outcome)
    return found.verified


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("files") / "work"
    yield from desk(folder, f"pack:filesystem?root={folder}&base={folder}")


def emptied(folder: Path) -> Path:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_symlink() or path.is_file() else path.rmdir()
    return folder


def laid(folder: Path, there: Mapping[str, str]) -> None:
    emptied(folder)
    for name, text in there.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            path.symlink_to(folder / text[2:])
        elif name.endswith("/"):
            path.mkdir()
        else:
            path.write_text(text)


WRITE = {"path": "a", "content": "x"}
EDIT = {"path": "a", "edits": [{"oldText": "old", "newText": "x"}]}
MOVE = {"source": "a", "destination": "b"}
FILES = (
    Done("written", "write_file", WRITE, "open('a', 'w').write('x')", asked=True),
    Done("written through a link", "write_file", WRITE, "open('b', 'w').write('x')", {"b": "o", "a": "->b"}, True),
    Done("a link to the same text", "write_file", WRITE, "os.symlink(os.path.abspath('b'), 'a')", {"b": "x"}),
    Done("a link in a file's place", "write_file", WRITE, "os.remove('a'); os.symlink('b', 'a')", {"a": "o", "b": "x"}),
    Done("a file in a link's place", "write_file", WRITE, "os.remove('a'); open('a', 'w').write('x')",
         {"b": "o", "a": "->b"}),
    Done("a file in a folder's place", "write_file", WRITE, "os.rmdir('a'); open('a', 'w').write('x')", {"a/": ""}),
    Done("an edit that leaves a link", "edit_file", EDIT, "os.remove('a'); os.symlink('b', 'a')",
         {"a": "old", "b": "x"}),
    Done("a link to a folder", "create_directory", {"path": "a"}, "os.symlink('b', 'a')", {"b/": ""}),
    Done("moved", "move_file", MOVE, "os.rename('a', 'b')", {"a": "x"}, True),
    Done("what the link meant", "move_file", MOVE, "os.rename('c', 'b')", {"c": "x", "a": "->c"}),
    Done("a link moved", "move_file", MOVE, "os.rename('a', 'b')", {"c": "x", "a": "->c"}, True),
    Done("moved over another file", "move_file", MOVE, "os.rename('a', 'b')", {"a": "x", "b": "another"}),
    Done("only deleted", "move_file", MOVE, "os.remove('a')", {"a": "x", "b": "x"}),
    Done("a link at the destination", "move_file", MOVE, "os.rename('a', 'c'); os.symlink('c', 'b')", {"a": "x"}),
    Done("a link left behind", "move_file", MOVE, "os.rename('a', 'b'); os.symlink('no', 'a')", {"a": "x"}),
)  # fmt: skip


@pytest.mark.requirement("PACK-filesystem")
@pytest.mark.parametrize("case", FILES, ids=str)
def test_a_file_is_told_as_done_where_it_is_that_file_and_nothing_else_was_lost(files: Desk, case: Done) -> None:
    laid(files.folder, case.there)
    assert told(files, case) is case.asked


# --- the memory file -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("memory") / "work"
    yield from desk(folder, f"pack:memory?file={folder / 'memory'}")


def entity(name: str, *observations: str, of: str = "thing") -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": of, "observations": [*observations]}


LINK = {"type": "relation", "from": "ada", "to": "bob", "relationType": "knows"}
BACK = {"type": "relation", "from": "bob", "to": "ada", "relationType": "knows"}
BOTH_OF_THEM = {"entities": [entity("ada", "a"), entity("bob", "a")]}
ADD = {"observations": [{"entityName": "ada", "contents": ["c"]}]}
FORGET = {"deletions": [{"entityName": name, "observations": ["a"]} for name in ("ada", "bob")]}


def lines(*several: dict[str, Any]) -> str:
    return "\n".join(json.dumps(each) for each in several)


def left(*several: dict[str, Any]) -> str:
    return f"open('memory', 'w').write({lines(*several)!r})"


BOTH = {"memory": lines(entity("ada", "a", "b"), entity("bob", "a", "b"))}
ADA = {"entities": [entity("ada", "a")]}
MEMORY = (
    Done("created twice", "create_entities", ADA, left(entity("ada", "a"), entity("ada", "a"))),
    Done("created, and another of its name", "create_entities", ADA, left(entity("ada", "a"), entity("ada", "lie"))),
    Done("related twice", "create_relations", {"relations": [LINK]}, left(LINK, LINK)),
    Done("related twice beside one that was there", "create_relations", {"relations": [BACK, LINK]},
         left(BACK, LINK, LINK), {"memory": lines(BACK)}),
    Done("created twice beside one that was there", "create_entities", BOTH_OF_THEM,
         left(entity("bob", "a"), entity("ada", "a"), entity("ada", "a")), {"memory": lines(entity("bob", "a"))}),
    Done("observed", "add_observations", ADD, left(entity("ada", "a", "b", "c"), entity("bob", "a", "b")), BOTH, True),
    Done("observed twice", "add_observations", ADD, left(entity("ada", "a", "b", "c", "c"), entity("bob")), BOTH),
    Done("more than was observed", "add_observations", ADD, left(entity("ada", "a", "b", "c", "d"), entity("bob")),
         BOTH),
    Done("made another thing of it", "add_observations", ADD, left(entity("ada", "a", "b", "c", of="x"), entity("bob")),
         BOTH),
    Done("forgotten", "delete_observations", FORGET, left(entity("ada", "b"), entity("bob", "b")), BOTH, True),
    Done("forgotten, each as often as it was there", "delete_observations", FORGET,
         left(entity("ada", "b"), entity("bob", "b")),
         {"memory": lines(entity("ada", "a", "b", "a"), entity("bob", "a", "b"))}, True),
    Done("forgotten another", "delete_observations", FORGET, left(entity("ada", "x"), entity("bob", "b")), BOTH),
    Done("forgotten too much", "delete_observations", FORGET, left(entity("ada"), entity("bob", "b")), BOTH),
    Done("forgotten what it is", "delete_observations", FORGET, left(entity("ada", "b", of="x"), entity("bob", "b")),
         BOTH),
)  # fmt: skip


@pytest.mark.requirement("PACK-memory")
@pytest.mark.parametrize("case", MEMORY, ids=str)
def test_the_graph_holds_what_was_asked_for_once_and_no_more(memory: Desk, case: Done) -> None:
    laid(memory.folder, case.there)
    assert told(memory, case) is case.asked


# --- a database ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("PACK-sqlite")
def test_a_statement_that_fits_no_row_leaves_the_table_that_it_names_as_it_was(tmp_path: Path) -> None:
    given = {"query": "update places set n = 5 where id = 9"}
    clears = "import sqlite3; c = sqlite3.connect('data'); c.execute('delete from places'); c.commit(); c.close()"
    for opened in desk(tmp_path / "work", f"pack:sqlite?database={tmp_path / 'work' / 'data'}"):
        with closing(sqlite3.connect(opened.folder / "data")) as database, database:
            database.execute("create table places (id integer, n integer)")
            database.execute("insert into places values (1, 1)")
        nothing_was_changed(opened.call("write_query", given, "pass"))
        assert told(opened, Done("cleared", "write_query", given, clears)) is False


# --- a repository ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("git") / "work"
    yield from desk(folder, f"pack:git?repository={folder}")


def changed(at: Path) -> None:
    """A change that is staged, one on top of it that is not, and a file that git does not know."""
    (at / "a.txt").write_text("staged\n")
    git(at, "add", "a.txt")
    (at / "a.txt").write_text("more\n")
    (at / "new.txt").write_text("new\n")


def staged(at: Path) -> None:
    (at / "a.txt").write_text("staged\n")
    git(at, "add", "a.txt")


def ignored(at: Path) -> None:
    (at / ".gitignore").write_text("*.log\n")
    (at / "new.txt").write_text("new\n")
    (at / "x.log").write_text("log\n")


def nothing(at: Path) -> None:
    pass


def merging(at: Path) -> None:
    """A merge of the side that is begun and not committed, with a change of its own."""
    git(at, "merge", "-q", "--no-commit", "--no-ff", "side")
    staged(at)


def intended(at: Path) -> None:
    (at / "new.txt").write_text("new\n")
    git(at, "add", "-N", "new.txt")


def tagged(at: Path) -> None:
    """A tag on an older commit that has the name of a branch, and one with a message."""
    git(at, "tag", "side", "main")
    git(at, "tag", "-a", "-m", "one", "v1")


AWAY = "git('checkout', '-q', 'HEAD', '--', 'a.txt')"
GIT: tuple[tuple[Done, Callable[[Path], None]], ...] = (
    (Done("added", "git_add", {"files": ["a.txt", "new.txt"]}, "git('add', 'a.txt', 'new.txt')", asked=True), changed),
    (Done("added but for what is ignored", "git_add", {"files": ["new.txt", "x.log"]}, "git('add', 'new.txt')"),
     ignored),
    (Done("added but for what is not there", "git_add", {"files": ["a.txt", "typo"]}, "git('add', 'a.txt')"), changed),
    (Done("undone in place of added", "git_add", {"files": ["a.txt"]}, AWAY), changed),
    (Done("deleted in place of added", "git_add", {"files": ["new.txt"]}, "os.remove('new.txt')"), changed),
    (Done("hidden in place of added", "git_add", {"files": ["new.txt"]},
          "open('.git/info/exclude', 'w').write('new.txt')"), changed),
    (Done("committed", "git_commit", {"message": "m"}, "git('commit', '-qm', 'm')", asked=True), changed),
    (Done("nothing committed", "git_commit", {"message": "m"}, "git('commit', '--allow-empty', '-qm', 'm')"), nothing),
    (Done("committed without a word", "git_commit", {"message": ""}, "git('commit', '-qm', 'another')"), staged),
    (Done("committed and cleaned", "git_commit", {"message": "m"}, "git('commit', '-qm', 'm'); git('clean', '-fdq')"),
     changed),
    (Done("a merge", "git_commit", {"message": "m"}, "git('commit', '-qm', 'm')", asked=True), merging),
    (Done("a merge without what it merges", "git_commit", {"message": "m"},
          "os.rename('.git/MERGE_HEAD', '.git/x'); git('commit', '-qm', 'm'); os.rename('.git/x', '.git/MERGE_HEAD')"),
     merging),
    (Done("reset", "git_reset", {}, "git('reset', '-q')", asked=True), changed),
    (Done("reset with what was staged", "git_reset", {}, "git('reset', '-q', '--hard')"), staged),
    (Done("reset with what was on top", "git_reset", {}, "git('reset', '-q', '--hard')"), changed),
    (Done("reset of what was only marked", "git_reset", {}, "git('reset', '-q')", asked=True), intended),
    (Done("branched elsewhere", "git_create_branch", {"branch_name": "side", "base_branch": "far"},
          "git('branch', '-f', 'side', 'far'); git('branch', 'other')"), nothing),
    (Done("branched elsewhere beside one that was there", "git_create_branch",
          {"branch_name": "side", "base_branch": "side"}, "git('branch', 'other', 'side')"), nothing),
    (Done("branched", "git_create_branch", {"branch_name": "new", "base_branch": ""}, "git('branch', 'new')",
          asked=True), nothing),
    (Done("branched off a tag", "git_create_branch", {"branch_name": "new", "base_branch": "v1"},
          "git('branch', 'new', 'v1')", asked=True), tagged),
    (Done("branched off the branch that has a tag's name", "git_create_branch",
          {"branch_name": "new", "base_branch": "side"}, "git('branch', 'new', 'refs/heads/side')", asked=True),
     tagged),
    (Done("a tag in place of a commit", "git_create_branch", {"branch_name": "new", "base_branch": "v1"},
          "open('.git/refs/heads/new', 'wb').write(open('.git/refs/tags/v1', 'rb').read())"), tagged),
    (Done("the branch that has a tag's name", "git_checkout", {"branch_name": "side"}, "git('checkout', '-q', 'side')",
          asked=True), tagged),
    (Done("checked out", "git_checkout", {"branch_name": "side"}, "git('checkout', '-q', 'side')", asked=True),
     changed),
    (Done("checked out by force", "git_checkout", {"branch_name": "side"}, "git('checkout', '-qf', 'side')"), changed),
    (Done("only said to be there", "git_checkout", {"branch_name": "far"},
          "git('symbolic-ref', 'HEAD', 'refs/heads/far')"), nothing),
)  # fmt: skip


@pytest.mark.requirement("PACK-git")
@pytest.mark.parametrize(("case", "prepare"), GIT, ids=lambda each: str(each) if isinstance(each, Done) else "")
def test_a_repository_is_told_as_done_where_nothing_that_lay_in_it_is_gone(
    repositories: Desk, case: Done, prepare: Callable[[Path], None]
) -> None:
    at = begun(repositories.folder / case.name.replace(" ", "-"))
    git(at, "checkout", "-q", "-b", "far")
    (at / "a.txt").write_text("far\n")
    git(at, "commit", "-q", "-a", "-m", "far")
    git(at, "checkout", "-q", "main")
    prepare(at)
    inside = f"os.chdir(given['repo_path']); {case.does}"
    given = {"repo_path": str(at), **case.given}
    assert told(repositories, Done(case.name, case.tool, given, inside)) is case.asked
