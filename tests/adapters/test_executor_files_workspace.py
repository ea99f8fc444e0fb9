"""Many changes of a real folder as one: nothing is seen of them before they are moved, or once they are dropped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from readback.canon import Json
from readback.domain.context import Context
from readback.domain.verification.reading import Presence
from readback.errors import NotDispatchedError, SandboxEscapeError, ToolError, UsageError
from readback.ports.handlers import Staged
from readback.systems.files import journal as journals
from readback.systems.files.executor import FileExecutor
from readback.systems.files.source import FileSource
from readback.systems.files.workspace import FileWorkspace

CTX = Context("a-1", "acme", "agent:ops", "write a", "file/a", "key-1", "stamp-1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "old/deep").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "b.txt").write_text("b")
    (root / "old/deep/c.txt").write_text("c")
    return root


@pytest.fixture
def files(root: Path) -> FileExecutor:
    return FileExecutor(root)


def picture(root: Path) -> dict[str, str]:
    """Every path below, with what it holds; a folder ends in a slash."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        else:
            found[name + "/" * path.is_dir()] = "" if path.is_dir() else path.read_text()
    return found


def everything(work: FileWorkspace) -> None:
    """A change of each kind."""
    work.write_text("a.txt", "new a")
    work.write_text("new/folder/d.txt", "d", parents=True)
    work.append("b.txt", "+")
    work.move("b.txt", "new/b.txt")
    work.make_folder("empty")
    work.delete_folder("old")
    work.look_tree()


AFTER = {
    "a.txt": "new a", "empty/": "", "new/": "", "new/b.txt": "b+", "new/folder/": "", "new/folder/d.txt": "d",
}  # fmt: skip


@pytest.mark.requirement("STRATEGY-rollback")
def test_nothing_is_seen_before_it_is_moved_and_everything_after(root: Path, files: FileExecutor) -> None:
    before = picture(root)
    with files.workspace(CTX) as work:
        everything(work)
    staged: Staged = work
    inside = staged.read()
    assert picture(root) == before
    assert staged.commit() == {"transaction": "committed", "changes": 10}
    assert picture(root) == AFTER
    outside = FileSource("work", root).tree()
    assert isinstance(inside.value, dict)
    assert inside.value == outside.value
    assert os.listdir(root.parent / ".readback-work") == ["records"]


@pytest.mark.requirement("STRATEGY-rollback")
def test_what_is_dropped_leaves_no_trace_in_the_folder_or_beside_it(root: Path, files: FileExecutor) -> None:
    before = picture(root)
    with files.workspace(CTX) as work:
        everything(work)
    assert work.abandon() == {"transaction": "abandoned"}
    assert picture(root) == before
    assert os.listdir(root.parent) == ["work"]
    with suppress(ZeroDivisionError), files.workspace(CTX) as work:
        everything(work)
        1 / 0  # noqa: B018 - the tool fails
    assert (picture(root), os.listdir(root.parent)) == (before, ["work"])


def test_the_answer_names_what_changes_unless_the_action_says_otherwise(files: FileExecutor) -> None:
    with files.workspace(CTX) as work:
        work.delete("a.txt")
        assert work.answer == {"changes": 1, "paths": ["a.txt"]}
        work.abandon()


@pytest.mark.parametrize("parents", [False, True])
def test_one_file_is_staged_with_the_folders_above_it(root: Path, files: FileExecutor, parents: bool) -> None:
    if not parents:
        with pytest.raises(ToolError, match="folder"):
            files.stage(CTX, "x/y.txt", "new")
        assert os.listdir(root.parent) == ["work"]
        return
    staged = files.stage(CTX, "x/y.txt", "new", parents=True)
    assert not (root / "x").exists()
    found = staged.read()
    assert (found.presence, found.stamp) == (Presence.PRESENT, "stamp-1")
    digest = sha256(b"new").hexdigest()
    assert found.value == {"path": "x/y.txt", "kind": "file", "size": 3, "mode": "0644", "sha256": digest}
    staged.commit()
    shown = FileSource("work", root).stat("x/y.txt")
    assert isinstance(shown.value, dict)
    shown.value.pop("mtime_us")
    assert (shown.value, shown.stamp) == (found.value, "stamp-1" if shown.stamp else None)


def test_an_abandoned_file_leaves_not_even_the_folders_that_were_missing(root: Path, files: FileExecutor) -> None:
    before = picture(root)
    files.stage(CTX, "x/y/z.txt", "new", parents=True).abandon()
    assert (picture(root), os.listdir(root.parent)) == (before, ["work"])


def test_it_is_settled_once(files: FileExecutor) -> None:
    work = files.stage(CTX, "a.txt", "new")
    work.commit()
    for act in (work.commit, work.abandon, work.read, lambda: work.delete("b.txt")):
        with pytest.raises(UsageError, match="committed already"):
            act()


def test_it_shows_what_is_asked_for(root: Path, files: FileExecutor) -> None:
    with files.workspace(CTX) as work:
        with pytest.raises(UsageError, match="look"):
            work.read()
        work.write_text("a.txt", "grüß")
        work.delete("b.txt")
        assert work.read_bytes("a.txt") == "grüß".encode()
        work.look("b.txt")
        assert work.read().presence is Presence.ABSENT
        work.look_text("a.txt")
        value = work.read().value
        assert isinstance(value, dict)
        assert value["text"] == "grüß"
        work.look("old")
        assert work.read().value == {"path": "old", "kind": "directory", "mode": "0755"}
        work.look_tree("old")
        (root / "old/link").symlink_to("deep")
        value = work.read().value
        assert isinstance(value, dict)
        entries: Json = value["entries"]
        assert isinstance(entries, dict)
        assert (list(entries), entries["link"]) == (["deep", "deep/c.txt", "link"], {"kind": "link", "to": "deep"})
        work.abandon()


def test_what_leads_back_to_what_is_there_changes_nothing(root: Path, files: FileExecutor) -> None:
    before = picture(root)
    with files.workspace(CTX) as work:
        work.write_text("n.txt", "n")
        work.delete("n.txt")
        work.make_folder("f")
        work.delete_folder("f")
        work.delete_folder("old")
        work.make_folder("old/deep", parents=True)
        work.write_text("old/deep/c.txt", "c2")
    assert work.commit() == {"transaction": "committed", "changes": 1}
    assert picture(root) == {**before, "old/deep/c.txt": "c2"}


@pytest.mark.parametrize(
    "change",
    [
        lambda work: work.delete("missing"),
        lambda work: work.delete_folder("a.txt"),
        lambda work: work.move("missing", "x"),
        lambda work: work.move("a.txt", "b.txt"),
        lambda work: work.write_text("old", "x"),
        lambda work: work.write_text("a.txt/x", "x", parents=True),
        lambda work: work.make_folder("a.txt"),
        lambda work: work.append("no/file", "x"),
        lambda work: work.read_bytes("old"),
    ],
)
def test_what_cannot_be_is_refused_as_it_is_asked_for(
    root: Path, files: FileExecutor, change: Callable[[FileWorkspace], object]
) -> None:
    before = picture(root)
    with pytest.raises(ToolError), files.workspace(CTX) as work:
        change(work)
    assert (picture(root), os.listdir(root.parent)) == (before, ["work"])


def test_a_path_does_not_become_something_else_within_one_workspace(files: FileExecutor) -> None:
    with files.workspace(CTX) as work:
        work.delete("a.txt")
        with pytest.raises(UsageError, match="created as another kind"):
            work.make_folder("a.txt")
        work.abandon()


@pytest.mark.requirement("INPUT-sandbox-escape")
@pytest.mark.parametrize("path", ["../x", "/tmp/x", "old/../../x", "", "out/x", ".readback-staging/x", "a\0"])
def test_a_workspace_does_not_lead_out_either(root: Path, files: FileExecutor, path: str) -> None:
    (root / "out").symlink_to(root.parent)
    acts: list[Callable[[FileWorkspace], object]] = [
        lambda work: work.write_text(path, "x", parents=True),
        lambda work: work.delete(path),
        lambda work: work.make_folder(path),
        lambda work: (work.look(path), work.read()),  # type: ignore[func-returns-value]
        lambda work: work.move("a.txt", path),
    ]
    for act in acts:
        with pytest.raises(SandboxEscapeError), files.workspace(CTX) as work:
            act(work)
    assert sorted(os.listdir(root.parent)) == ["work"]


# --- others, meanwhile --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda root: (root / "a.txt").write_text("theirs"),
        lambda root: (root / "b.txt").unlink(),
        lambda root: (root / "new").mkdir(),
        lambda root: (root / "old/deep/theirs.txt").write_text("theirs"),
    ],
)
def test_what_somebody_else_changed_meanwhile_is_kept_and_nothing_is_moved(
    root: Path, files: FileExecutor, meanwhile: Callable[[Path], object]
) -> None:
    with files.workspace(CTX) as work:
        everything(work)
    meanwhile(root)
    before = picture(root)
    with pytest.raises(NotDispatchedError, match="Nothing was moved"):
        work.commit()
    assert picture(root) == before
    left = root.parent / ".readback-work"
    assert not left.exists() or os.listdir(left) == ["records"], "nothing staged is left"


def test_staged_content_that_is_no_longer_what_was_written_is_not_moved(root: Path, files: FileExecutor) -> None:
    before = picture(root)
    work = files.stage(CTX, "a.txt", "new")
    (blob,) = (root.parent / ".readback-work").glob("work-*/new/*")
    blob.write_text("evil")
    with pytest.raises(NotDispatchedError, match="no longer"):
        work.commit()
    assert picture(root) == before


def test_two_workspaces_at_once_keep_apart(root: Path, files: FileExecutor) -> None:
    one, two, three = [
        files.stage(replace(CTX, action_id=key), path, key)
        for key, path in (("one", "a.txt"), ("two", "b.txt"), ("three", "a.txt"))
    ]
    one.commit()
    two.commit()
    with pytest.raises(NotDispatchedError, match=r"'a\.txt' was changed"):
        three.commit()
    assert ((root / "a.txt").read_text(), (root / "b.txt").read_text()) == ("one", "two")


# --- a move that fails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails_at", range(10))
def test_a_move_that_fails_is_taken_back_wherever_it_stood(
    root: Path, files: FileExecutor, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    before = picture(root)
    inodes = {name: (root / name).stat().st_ino for name in before}
    done: list[journals.Move] = []
    forward = journals.Journal._forward

    def some(self: journals.Journal, move: journals.Move, folder: int, name: str) -> None:
        if len(done) == fails_at:
            raise OSError(28, "no space left")
        done.append(move)
        forward(self, move, folder, name)

    monkeypatch.setattr(journals.Journal, "_forward", some)
    with files.workspace(CTX) as work:
        everything(work)
    with pytest.raises(NotDispatchedError, match="moves were undone"):
        work.commit()
    assert picture(root) == before
    kept = {name: ino for name, ino in inodes.items() if not name.startswith("old/")}
    assert {name: (root / name).stat().st_ino for name in kept} == kept, "the very same files are back"
    assert os.listdir(root.parent / ".readback-work") == ["records"]


def test_what_can_be_neither_finished_nor_undone_is_kept_and_the_folder_is_marked(
    root: Path, files: FileExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = journals.Journal._forward

    def then_theirs(self: journals.Journal, move: journals.Move, folder: int, name: str) -> None:
        if move.do == "gone":
            (root / "a.txt").write_text("theirs")
            raise OSError(5, "input/output error")
        forward(self, move, folder, name)

    monkeypatch.setattr(journals.Journal, "_forward", then_theirs)
    with files.workspace(CTX) as work:
        everything(work)
    with pytest.raises(ToolError) as caught:
        work.commit()
    assert not isinstance(caught.value, NotDispatchedError)
    monkeypatch.undo()
    again = FileExecutor(root)
    assert again.left == [{"action": "a-1", "state": "stuck"}]
    assert again.dirty
    assert again.lookup(CTX).status == "pending"
    with pytest.raises(NotDispatchedError, match="dirty"):
        again.workspace(CTX)
    assert (root / "a.txt").read_text() == "theirs", "what is theirs is never overwritten"
    (root / "a.txt").unlink()  # somebody has looked, and does what the manifest can go on from
    (kept,) = (root.parent / ".readback-work").glob("work-*/old/0")
    os.link(kept, root / "a.txt")
    assert [each["state"] for each in FileExecutor(root).left] == ["undone"]
    assert again.lookup(CTX).status == "failed"
    again.clear_dirty(CTX)
    assert "a.txt" in picture(root)


# --- what became of it --------------------------------------------------------------------------------------------


@pytest.mark.requirement("TRUTH-late-dead")
def test_the_record_says_for_good_what_became_of_an_attempt(root: Path, files: FileExecutor) -> None:
    files.stage(CTX, "a.txt", "new").commit()
    assert files.lookup(CTX).status == "landed"
    other = Context("a-2", "acme", "agent:ops", "write", "file/a", "key-2", "stamp-2")
    late = files.stage(other, "b.txt", "late")
    said = files.lookup(other)
    assert said.status == "failed"
    with pytest.raises(NotDispatchedError, match="recorded as dropped"):
        late.commit()
    assert (root / "b.txt").read_text() == "b"
    second = Context("a-2", "acme", "agent:ops", "write", "file/a", "key-2", "stamp-2", attempt=2)
    files.stage(second, "b.txt", "again").commit()
    assert (root / "b.txt").read_text() == "again"
    assert [files.lookup(each).status for each in (other, second)] == ["failed", "landed"]


def test_the_staging_area_may_lie_elsewhere_but_on_the_same_file_system(root: Path, tmp_path: Path) -> None:
    files = FileExecutor(root, staging=tmp_path / "elsewhere")
    files.stage(CTX, "a.txt", "new").commit()
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "work"]
    if os.path.isdir("/proc/sys"):
        with pytest.raises((UsageError, ToolError)):
            FileExecutor(root, staging="/proc/sys").stage(CTX, "a.txt", "new")


def test_where_there_can_be_nothing_beside_the_folder_it_lies_within(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(root.parent) and real(path, mode))
    work = FileExecutor(root).stage(CTX, "a.txt", "new")
    assert os.listdir(root.parent) == ["work"]
    assert (root / ".readback-staging").is_dir()
    work.abandon()
    assert not (root / ".readback-staging").exists()


def test_no_file_stays_open(files: FileExecutor) -> None:
    before = len(os.listdir("/proc/self/fd"))
    files.stage(CTX, "a.txt", "1").commit()
    files.stage(CTX, "a.txt", "2").abandon()
    with pytest.raises(ToolError):
        files.stage(CTX, "old", "x")
    files.recover()
    files.lookup(CTX)
    assert len(os.listdir("/proc/self/fd")) == before


PROGRAM = """
import os, sys
from readback.systems.files.executor import FileExecutor
from readback.domain.context import Context
work = FileExecutor(sys.argv[1]).workspace(Context('a', 't', 'p', 'o', 'x', 'k', 's'))
work.write_text('a.txt', 'new')
os.kill(os.getpid(), 9)
"""


def test_what_a_process_that_died_had_staged_is_dropped_with_the_next_start_and_others_are_let_be(
    root: Path, files: FileExecutor
) -> None:
    before = picture(root)
    living = files.stage(CTX, "b.txt", "living")
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(root)], check=False, timeout=60)
    assert ended.returncode == -9
    area = root.parent / ".readback-work"
    assert len(list(area.glob("work-*"))) == 2
    assert FileExecutor(root).left == [{"action": "", "state": "dropped"}]
    assert len(list(area.glob("work-*"))) == 1
    assert picture(root) == before
    living.commit()
    assert (root / "b.txt").read_text() == "living"


def test_a_manifest_that_leads_out_is_never_followed(root: Path, files: FileExecutor) -> None:
    """Whoever may write the staging area may write the folder; still it is held to it."""
    home = root.parent / ".readback-work/work-x"
    home.mkdir(parents=True)
    (home / "victim").write_text("x")
    move = {"do": "put", "parts": ["..", "outside"], "mode": 420, "blob": "victim", "back": ""}
    moves = [{**move, "new": None, "was": None, "kept": None}]
    (home / "manifest.json").write_text(json.dumps({"action": "a", "attempt": 1, "moves": moves}))
    assert FileExecutor(root).left == [{"action": "", "state": "stuck"}]
    assert not (root.parent / "outside").exists()
    assert FileExecutor(root).dirty
