"""The git pack against its server, honest and lied about; what is true is looked up with git itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.packs.desk import ALL, Case, Desk, desk_of, every, held_against_the_truth, installed, nothing_was_changed

pytestmark = pytest.mark.slow
WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.test")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("git") / "work"
    begun(folder)  # the server wants its folder to be a repository; those of the tests lie below
    server = installed("git", "bin", "mcp-server-git")
    who = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.test"}
    who |= {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.test"}
    with desk_of(folder, "pack:git", [server, "--repository", str(folder)], who) as desk:
        yield desk


def git(at: Path, *args: str) -> str:
    done = subprocess.run(["git", *WHO, "-C", str(at), *args], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def begun(at: Path) -> Path:
    """A repository with one commit, and a branch beside the main one that is a commit further."""
    at.mkdir(parents=True, exist_ok=True)
    git(at, "init", "-q", "-b", "main")
    (at / "a.txt").write_text("a\n")
    git(at, "add", "a.txt")
    git(at, "commit", "-q", "-m", "first")
    git(at, "checkout", "-q", "-b", "side")
    git(at, "commit", "-q", "--allow-empty", "-m", "second")
    git(at, "checkout", "-q", "main")
    return at


def add(folder: Path, n: str) -> Mapping[str, Any]:
    at = begun(folder / n)
    (at / "a.txt").write_text("changed\n")
    (at / "new.txt").write_text("new\n")
    for name in ("else-a.txt", "else-new.txt"):
        (at / name).write_text("else\n")
    return {"repo_path": str(at), "files": ["a.txt", "new.txt"]}


def added(folder: Path, n: str) -> bool:
    at = folder / n
    return git(at, "diff", "--cached", "--name-only").split() == ["a.txt", "new.txt"] and not git(at, "diff")


def commit(folder: Path, n: str) -> Mapping[str, Any]:
    for at in (begun(folder / n), begun(folder / n / "else")):
        (at / "b.txt").write_text("b\n")
        git(at, "add", "b.txt")
    return {"repo_path": str(folder / n), "message": f"add b\n\nfor {n}"}


def committed(folder: Path, n: str) -> bool:
    at = folder / n
    shown = git(at, "log", "-1", "--format=%B", "--name-only").split("\n")
    return shown[0] == "add b" and "b.txt" in shown and git(at, "rev-list", "--count", "main") == "2"


def reset(folder: Path, n: str) -> Mapping[str, Any]:
    commit(folder, n)
    return {"repo_path": str(folder / n)}


def unstaged(folder: Path, n: str) -> bool:
    return git(folder / n, "diff", "--cached", "--name-only") == "" and (folder / n / "b.txt").exists()


def branch(folder: Path, n: str) -> Mapping[str, Any]:
    begun(folder / n)
    return {"repo_path": str(folder / n), "branch_name": "topic", "base_branch": "side"}


def branched(folder: Path, n: str) -> bool:
    at = folder / n
    return "topic" in git(at, "branch").split() and git(at, "rev-parse", "topic") == git(at, "rev-parse", "side")


def checkout(folder: Path, n: str) -> Mapping[str, Any]:
    at = begun(folder / n)
    git(at, "branch", "else-side")
    return {"repo_path": str(at), "branch_name": "side"}


def checked_out(folder: Path, n: str) -> bool:
    return git(folder / n, "symbolic-ref", "--short", "HEAD") == "side"


CASES = (
    Case("add", "git_add", add, added),
    Case("commit", "git_commit", commit, committed, ALL),
    Case("reset", "git_reset", reset, unstaged),
    Case("branch", "git_create_branch", branch, branched),
    Case("checkout", "git_checkout", checkout, checked_out),
)


@pytest.mark.requirement("PACK-git")
@pytest.mark.parametrize(("case", "lie"), every(CASES))
def test_the_client_is_told_that_it_is_done_where_git_says_so_and_nowhere_else(
    desk: Desk, case: Case, lie: str
) -> None:
    held_against_the_truth(desk, case, lie)


def test_a_commit_of_nothing_is_not_told_as_one(desk: Desk) -> None:
    at = begun(desk.folder / "nothing")
    told = desk.call("git_commit", {"repo_path": str(at), "message": "nothing"})
    assert told.verified is False
    assert git(at, "rev-list", "--count", "main") == "1"


def test_a_commit_that_is_checked_out_without_a_branch_is_seen(desk: Desk) -> None:
    at = begun(desk.folder / "detached")
    told = desk.call("git_checkout", {"repo_path": str(at), "branch_name": git(at, "rev-parse", "side")[:10]})
    assert told.verified
    assert git(at, "rev-parse", "HEAD") == git(at, "rev-parse", "side")


def test_everything_is_added_by_a_dot_and_once_more_without_a_change(desk: Desk) -> None:
    at = begun(desk.folder / "dot")
    (at / "deep").mkdir()
    (at / "deep" / "new.txt").write_text("new\n")
    assert desk.call("git_add", {"repo_path": str(at), "files": ["."]}).verified
    nothing_was_changed(desk.call("git_add", {"repo_path": str(at), "files": ["."]}))


def test_a_repository_outside_of_the_folder_is_told_as_nothing_that_could_be_verified(
    desk: Desk, tmp_path: Path
) -> None:
    at = begun(tmp_path / "outside")
    assert desk.call("git_reset", {"repo_path": str(at)}).verified is False
