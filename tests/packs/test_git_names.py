"""The git pack and names that are hard to take: options, patterns, letters of every script, links."""

from __future__ import annotations

import pytest

from tests.packs.desk import Desk
from tests.packs.test_git import begun, desk, git

__all__ = ["desk"]  # the same server and gateway
pytestmark = [pytest.mark.slow, pytest.mark.requirement("PACK-git")]


@pytest.mark.parametrize(
    "name",
    ["ünï cödé.txt", "日本語.txt", "e\u0301.txt", "a b\tc.txt", 'q"uote.txt', "back\\slash.txt", "-A", "[a-z].txt"],
)
def test_what_a_name_means_is_staged_or_not_told_as_staged(desk: Desk, name: str) -> None:
    at = begun(desk.folder / f"name-{abs(hash(name))}")
    (at / name).write_text("new\n")
    (at / "other.txt").write_text("other\n")
    told = desk.call("git_add", {"repo_path": str(at), "files": [name]})
    staged = git(at, "diff", "--cached", "--name-only", "-z").split("\0")[:-1]
    assert told.verified is (staged == [name])
    assert "other.txt" not in staged
    if name[0] not in "-[":
        assert told.verified


@pytest.mark.parametrize("files", [["--all"], ["-u"], ["--", "a.txt"], ["../else/a.txt"], ["/etc"]])
def test_what_is_no_path_of_the_repository_is_never_told_as_staged(desk: Desk, files: list[str]) -> None:
    at = begun(desk.folder / f"option-{abs(hash(files[0]))}")
    (at / "a.txt").write_text("changed\n")
    (at / "new.txt").write_text("new\n")
    told = desk.call("git_add", {"repo_path": str(at), "files": files})
    if told.verified:
        assert git(at, "diff", "--name-only") == git(at, "ls-files", "--others") == ""


def test_a_link_is_staged_as_a_link_and_nothing_behind_one_that_leaves(desk: Desk) -> None:
    at = begun(desk.folder / "linked")
    (at / "in").symlink_to("a.txt")
    (at / "out").symlink_to(desk.folder)
    assert desk.call("git_add", {"repo_path": str(at), "files": ["in"]}).verified
    assert git(at, "ls-files", "--stage", "in").startswith("120000")
    for name in ("out", "out/linked/a.txt"):  # the server refuses both
        assert desk.call("git_add", {"repo_path": str(at), "files": [name]}).verified is False
    assert git(at, "ls-files", "out") == ""


def test_a_pattern_means_what_it_means_to_git(desk: Desk) -> None:
    at = begun(desk.folder / "pattern")
    for name in ("a.txt", "new.txt"):
        (at / name).write_text("new\n")
    told = desk.call("git_add", {"repo_path": str(at), "files": [":(exclude)a.txt"]})
    assert told.verified is (git(at, "diff", "--cached", "--name-only") == "new.txt")
    assert git(at, "diff", "--name-only") == "a.txt"


def test_a_reset_beside_changes_that_are_not_staged_is_told_as_done(desk: Desk) -> None:
    at = begun(desk.folder / "beside")
    (at / ".gitignore").write_text("ignored\n")
    for name in ("staged", "ignored", "untracked"):
        (at / name).write_text("new\n")
    git(at, "add", "-f", "staged", "ignored")
    (at / "a.txt").write_text("changed\n")
    (at / "staged").write_text("changed again\n")
    assert desk.call("git_reset", {"repo_path": str(at)}).verified


def test_a_repository_behind_a_link_that_leaves_the_folder_is_not_read(
    desk: Desk, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = begun(tmp_path_factory.mktemp("outside") / "repository")
    (desk.folder / "way-out").symlink_to(outside)
    assert desk.call("git_reset", {"repo_path": str(desk.folder / "way-out")}).verified is False


@pytest.mark.parametrize(
    "name", ["zweig-ü", "topic/日本", "-d", "--detach", "a..b", "HEAD", "refs/heads/x", "@", "x.lock"]
)
def test_a_branch_of_any_name_is_told_where_it_is_there(desk: Desk, name: str) -> None:
    at = begun(desk.folder / f"branch-{abs(hash(name))}")
    told = desk.call("git_create_branch", {"repo_path": str(at), "branch_name": name, "base_branch": "side"})
    branches = git(at, "for-each-ref", "--format=%(refname)", "refs/heads").split()
    there = f"refs/heads/{name}" in branches
    assert told.verified is there
    if told.verified:
        assert git(at, "rev-parse", f"refs/heads/{name}") == git(at, "rev-parse", "side")
    if name in ("zweig-ü", "topic/日本"):
        assert there


@pytest.mark.parametrize("message", ["b", "ünï\n\n日本", "# no comment", "-m", "trailing \n\n\n", "\n leading"])
def test_a_commit_is_told_with_the_message_that_was_asked_for(desk: Desk, message: str) -> None:
    at = begun(desk.folder / f"message-{abs(hash(message))}")
    (at / "b.txt").write_text("b\n")
    git(at, "add", "b.txt")
    assert desk.call("git_commit", {"repo_path": str(at), "message": message}).verified
    assert git(at, "rev-list", "--count", "main") == "2"


def test_a_branch_off_an_annotated_tag_is_told_where_it_holds_a_commit_and_not_where_it_holds_the_tag(
    desk: Desk,
) -> None:
    at = begun(desk.folder / "tagged")
    git(at, "tag", "-a", "-m", "one", "v1", "side")
    told = desk.call("git_create_branch", {"repo_path": str(at), "branch_name": "fix", "base_branch": "v1"})
    assert told.verified is (git(at, "cat-file", "-t", git(at, "rev-parse", "refs/heads/fix")) == "commit")


def test_a_branch_is_told_where_no_base_is_named(desk: Desk) -> None:
    at = begun(desk.folder / "no-base")
    for name, base in (("a", {}), ("b", {"base_branch": ""})):
        assert desk.call("git_create_branch", {"repo_path": str(at), "branch_name": name, **base}).verified
