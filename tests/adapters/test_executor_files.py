"""Acting on a real folder: whole files in one step, durable, and never outside."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from readback.domain.context import Context
from readback.errors import SandboxEscapeError, ToolError
from readback.systems.files.executor import FileExecutor
from readback.systems.files.sandboxed_paths import STAMP_ATTRIBUTE

CTX = Context("a-1", "acme", "agent:ops", "write a", "file/a", "key-1", "stamp-1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    return root


@pytest.fixture
def work(root: Path) -> FileExecutor:
    return FileExecutor(root)


@pytest.fixture(params=["unnamed", "named"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whole files have no name at first; a file system without such files gives them one in the staging area."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return str(request.param)


def _stamp(path: Path) -> str | None:
    try:
        return os.getxattr(path, STAMP_ATTRIBUTE).decode()
    except OSError:
        return None


def _holds_stamps(root: Path) -> bool:
    probe = root.parent / "probe"
    probe.write_text("")
    try:
        os.setxattr(probe, STAMP_ATTRIBUTE, b"x")
    except OSError:
        return False
    return True


@pytest.mark.requirement("CLAIM-stamp")
def test_a_file_is_written_whole_with_its_stamp(root: Path, work: FileExecutor, either: str) -> None:
    assert work.write_text(CTX, "a.txt", "grüß") == {"path": "a.txt", "size": 6}
    assert (root / "a.txt").read_text() == "grüß"
    assert os.listdir(root) == ["a.txt"]
    assert _stamp(root / "a.txt") == ("stamp-1" if _holds_stamps(root) else None)
    assert sorted(os.listdir(root.parent)) == ["probe", "work"]


def test_a_file_that_is_written_again_keeps_its_mode(root: Path, work: FileExecutor, either: str) -> None:
    (root / "a").write_text("old, and longer")
    (root / "a").chmod(0o600)
    work.write_bytes(CTX, "a", b"new")
    assert (root / "a").read_bytes() == b"new"
    assert (root / "a").stat().st_mode & 0o777 == 0o600


def test_missing_folders_are_made_only_when_asked(root: Path, work: FileExecutor) -> None:
    with pytest.raises(ToolError) as caught:
        work.write_text(CTX, "sub/deep/a", "1")
    assert caught.value.code == "tool.file"
    assert os.listdir(root) == []
    work.write_text(CTX, "sub/deep/a", "1", parents=True)
    assert (root / "sub/deep/a").read_text() == "1"


def test_a_link_inside_is_written_through(root: Path, work: FileExecutor) -> None:
    (root / "a").write_text("old")
    (root / "link").symlink_to("a")
    work.write_text(CTX, "link", "new")
    assert (root / "a").read_text() == "new"
    assert (root / "link").is_symlink()


def test_text_is_appended(root: Path, work: FileExecutor) -> None:
    work.append(CTX, "log", "one\n")
    assert work.append(CTX, "log", b"two\n") == {"path": "log", "appended": 4}
    assert (root / "log").read_text() == "one\ntwo\n"
    assert _stamp(root / "log") == ("stamp-1" if _holds_stamps(root) else None)


def test_a_file_or_a_link_is_deleted_and_not_what_the_link_means(root: Path, work: FileExecutor) -> None:
    (root / "a").write_text("1")
    (root / "link").symlink_to("a")
    assert work.delete(CTX, "link") == {"path": "link", "deleted": True}
    assert os.listdir(root) == ["a"]
    work.delete(CTX, "a")
    assert os.listdir(root) == []
    with pytest.raises(ToolError):
        work.delete(CTX, "a")


def test_a_file_is_moved_and_overwrites_only_when_allowed(root: Path, work: FileExecutor) -> None:
    (root / "a").write_text("a")
    (root / "sub").mkdir()
    (root / "sub" / "b").write_text("b")
    with pytest.raises(ToolError):
        work.move(CTX, "a", "sub/b")
    assert ((root / "a").read_text(), (root / "sub/b").read_text()) == ("a", "b")
    assert work.move(CTX, "a", "sub/c") == {"path": "a", "to": "sub/c", "moved": True}
    assert (root / "sub/c").read_text() == "a"
    work.move(CTX, "sub/c", "sub/b", overwrite=True)
    assert (os.listdir(root / "sub"), (root / "sub/b").read_text()) == (["b"], "a")


@pytest.mark.requirement("INPUT-sandbox-escape")
@pytest.mark.parametrize(
    "path",
    [
        "../outside/a",
        "sub/../../outside/a",
        "..",
        ".",
        "",
        "sub/",
        "/tmp/readback-escape",
        "a\0b",
        "\ud800",
        "out/a",
        "up",
        "sibling/a",
    ],
)
def test_a_path_that_leads_out_is_refused_and_nothing_is_done(root: Path, work: FileExecutor, path: str) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (root.parent / "work-not").mkdir()
    (root / "mine").write_text("1")
    (root / "out").symlink_to(outside)
    (root / "up").symlink_to("../outside/a")
    (root / "sibling").symlink_to("../work-not")
    before = sorted(os.listdir(root))
    acts: list[Callable[[], object]] = [
        lambda: work.write_text(CTX, path, "x", parents=True),
        lambda: work.append(CTX, path, "x"),
        lambda: work.stage(CTX, path, "x"),
    ]
    if path != "up":  # as a link it lies inside, and may be deleted or moved
        acts += [lambda: work.delete(CTX, path), lambda: work.move(CTX, "mine", path)]
    for act in acts:
        with pytest.raises(SandboxEscapeError):
            act()
    assert (os.listdir(outside), sorted(os.listdir(root))) == ([], before)


@pytest.mark.requirement("INPUT-sandbox-escape")
def test_pipes_and_devices_are_refused(root: Path, work: FileExecutor) -> None:
    os.mkfifo(root / "pipe")
    for write in (work.write_text, work.append):
        with pytest.raises(SandboxEscapeError, match="neither"):
            write(CTX, "pipe", "x")


def test_a_link_that_is_put_in_after_the_path_was_resolved_is_not_followed(
    root: Path, work: FileExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "sub").mkdir()
    resolve = os.path.realpath

    def then_swap(path: str) -> str:
        real = resolve(path)
        if path.endswith("/a") and not (root / "sub").is_symlink():
            (root / "sub").rmdir()
            (root / "sub").symlink_to(outside)
        return real

    monkeypatch.setattr(os.path, "realpath", then_swap)
    with pytest.raises(ToolError):
        work.write_text(CTX, "sub/a", "x")
    assert os.listdir(outside) == []


def test_a_workspace_is_marked_dirty_until_somebody_has_looked(root: Path, work: FileExecutor) -> None:
    assert work.dirty is False
    work.mark_dirty(CTX, "a rollback could not be verified")
    assert FileExecutor(root).dirty is True
    assert "a rollback could not be verified" in (root / ".readback-dirty").read_text()
    assert work.clear_dirty(CTX) == {"dirty": False}
    assert work.dirty is False
    work.clear_dirty(CTX)


def test_no_file_stays_open(root: Path, work: FileExecutor) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for n in range(5):
        work.write_text(CTX, "sub/a", str(n), parents=True)
        work.append(CTX, "log", "x")
        work.stage(CTX, "b", "x").abandon()
        with pytest.raises(ToolError):
            work.delete(CTX, "missing")
        with pytest.raises(ToolError):
            work.move(CTX, "missing", "other")
        with pytest.raises(ToolError):
            work.stage(CTX, "sub", "x")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.requirement("INPUT-sandbox-escape")
def test_no_path_of_an_action_takes_the_mark_of_a_dirty_folder_off(root: Path, work: FileExecutor) -> None:
    work.mark_dirty(CTX, "a rollback could not be verified")
    noted = (root / ".readback-dirty").read_text()
    (root / "plain.txt").write_text("plain")
    (root / "by-a-link").symlink_to(".readback-dirty")
    for change in (
        lambda: work.delete(CTX, ".readback-dirty"),
        lambda: work.write_text(CTX, "./.readback-dirty", ""),
        lambda: work.write_text(CTX, "by-a-link", ""),
        lambda: work.append(CTX, ".readback-dirty", "it was looked at"),
        lambda: work.move(CTX, ".readback-dirty", "elsewhere"),
        lambda: work.move(CTX, "plain.txt", ".readback-dirty", overwrite=True),
    ):
        with pytest.raises(SandboxEscapeError):
            change()
    assert (root / ".readback-dirty").read_text() == noted


def test_a_staging_area_that_another_one_removes_meanwhile_is_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two steps in which it is made and opened, whoever had it before takes it away: it is empty."""
    made, left = os.mkdir, [2]

    def late(path: str, *args: int, **more: int) -> None:
        if str(path).endswith(f".readback-{root.name}") and left[0]:
            left[0] -= 1
            raise FileExistsError(path)
        made(path, *args, **more)

    monkeypatch.setattr(os, "mkdir", late)
    FileExecutor(root).write_text(CTX, "note.txt", "written")
    assert ((root / "note.txt").read_text(), left) == ("written", [0])
