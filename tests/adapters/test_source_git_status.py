"""A repository as a whole: HEAD, refs, the last commit, what is staged and what is not."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from readback.domain.verification.reading import Presence
from readback.systems.git.source import GitSource


def git(at: Path, *args: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.test")
    done = subprocess.run(["git", *who, "-C", str(at), *args], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    for name in ("a.txt", "b c.txt", "gone.txt"):
        (tmp_path / name).write_text("first\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first\n\nat length")
    git(tmp_path, "tag", "-a", "-m", "one", "v1")
    git(tmp_path, "branch", "topic")
    return tmp_path


def status(at: Path, *paths: str, revision: str = "") -> dict[str, Any]:
    found = GitSource("repository", str(at)).status(paths, revision=revision).value
    assert isinstance(found, dict)
    return found


def test_it_is_shown_where_head_is_and_what_refs_there_are(repository: Path) -> None:
    shown, commit = status(repository), git(repository, "rev-parse", "HEAD")
    assert (shown["branch"], shown["commit"]) == ("main", commit)
    assert shown["branches"] == {"main": commit, "topic": commit}
    assert shown["tags"] == {"v1": commit}
    assert shown["tip"]["message"] == "first\n\nat length\n"
    assert shown["tip"]["parents"] == []


def test_a_branch_that_holds_a_tag_in_place_of_a_commit_is_shown_by_what_it_holds(repository: Path) -> None:
    held = git(repository, "rev-parse", "refs/tags/v1")
    (repository / ".git" / "refs" / "heads" / "broken").write_text(f"{held}\n")
    shown = status(repository, revision="v1")
    assert shown["means"] == git(repository, "rev-parse", "HEAD")
    assert shown["branches"]["broken"] == held != shown["means"]


def test_it_is_shown_what_a_merge_takes_in_until_it_is_committed(repository: Path) -> None:
    assert status(repository)["merging"] == []
    git(repository, "checkout", "-q", "topic")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    tip = git(repository, "rev-parse", "HEAD")
    git(repository, "worktree", "add", "-q", str(repository / "beside"), "main")
    git(repository / "beside", "merge", "-q", "--no-commit", "--no-ff", "topic")
    assert (status(repository / "beside")["merging"], status(repository)["merging"]) == ([tip], [])
    git(repository / "beside", "commit", "-q", "-m", "merged")
    assert status(repository / "beside")["merging"] == []


def test_what_is_only_marked_to_be_added_is_told_apart_from_what_was_changed(repository: Path) -> None:
    for name in ("a.txt", "new.txt"):
        (repository / name).write_text("new\n")
    git(repository, "add", "-N", "new.txt")
    shown = status(repository)
    assert (shown["unstaged"], shown["intended"], shown["staged"]) == (["a.txt", "new.txt"], ["new.txt"], [])


def test_what_is_staged_unstaged_and_unknown_is_told_apart(repository: Path) -> None:
    before = status(repository)
    assert (before["staged"], before["unstaged"], before["untracked"], before["tracked"]) == ([], [], [], 3)
    (repository / "a.txt").write_text("second\n")
    (repository / "b c.txt").write_text("second\n")
    (repository / "gone.txt").unlink()
    (repository / "deep").mkdir()
    (repository / "deep" / "new.txt").write_text("new\n")
    git(repository, "add", "a.txt")
    shown = status(repository)
    assert shown["staged"] == ["a.txt"]
    assert shown["unstaged"] == ["b c.txt", "gone.txt"]
    assert shown["untracked"] == ["deep/new.txt"]
    assert shown["index"] != before["index"]


def test_paths_mean_what_they_mean_to_git(repository: Path) -> None:
    for name in ("a.txt", "b c.txt"):
        (repository / name).write_text("second\n")
    (repository / "new.md").write_text("new\n")
    assert status(repository, "b*")["unstaged"] == ["b c.txt"]
    assert status(repository, "b*")["untracked"] == []
    assert status(repository, "*.md")["untracked"] == ["new.md"]
    assert status(repository, "a.txt", "gone.txt")["tracked"] == 2
    assert status(repository, "-x")["tracked"] == 0


@pytest.mark.parametrize("revision", ["topic", "v1", "HEAD", "main^{tree}", "nowhere", "--all", "HEAD~7"])
def test_a_revision_is_the_commit_that_it_means_or_none(revision: str, repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert status(repository, revision=revision)["means"] == (commit if revision in ("topic", "v1", "HEAD") else None)


def test_a_repository_without_a_commit_is_shown_too(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a.txt").write_text("a\n")
    shown = status(tmp_path)
    assert (shown["branch"], shown["commit"], shown["tip"], shown["untracked"]) == ("main", None, None, ["a.txt"])


def test_looking_changes_nothing_in_the_repository(repository: Path) -> None:
    (repository / "a.txt").touch()
    index = (repository / ".git" / "index").read_bytes()
    status(repository)
    assert (repository / ".git" / "index").read_bytes() == index


def test_what_is_no_repository_is_unavailable(tmp_path: Path) -> None:
    assert GitSource("repository", str(tmp_path)).status().presence is Presence.UNAVAILABLE


def test_one_digest_tells_whether_what_lies_in_the_working_tree_is_what_lay_there(repository: Path) -> None:
    def files(*paths: str) -> object:
        found = GitSource("repository", str(repository)).status(files=paths or None).value
        assert isinstance(found, dict)
        return found["files"]

    (repository / "a.txt").write_text("second\n")
    (repository / "new.txt").write_text("new\n")
    first = files()
    assert files("new.txt", "a.txt") == first
    git(repository, "add", ".")
    assert files("a.txt", "new.txt") == first
    seen = [first]
    (repository / "a.txt").write_text("third!\n")
    seen.append(files("a.txt", "new.txt"))
    (repository / "a.txt").chmod(0o755)
    seen.append(files("a.txt", "new.txt"))
    (repository / "a.txt").unlink()
    seen.append(files("a.txt", "new.txt"))
    (repository / "a.txt").symlink_to("new.txt")
    seen.append(files("a.txt", "new.txt"))
    (repository / "a.txt").unlink()
    (repository / "a.txt").mkdir()
    seen.append(files("a.txt", "new.txt"))
    assert len(set(map(str, seen))) == len(seen)


def test_it_is_told_whether_each_path_means_a_file(repository: Path) -> None:
    (repository / ".gitignore").write_text("*.log\n")
    (repository / "x.log").write_text("log\n")
    (repository / "gone.txt").unlink()
    for path in ("a.txt", "b*", ".", "gone.txt", ".gitignore", ":!a.txt"):
        assert status(repository, "a.txt", path)["matched"] is True, path
    for path in ("x.log", "typo.txt", "*.md", "-x"):
        assert status(repository, "a.txt", path)["matched"] is False, path


def test_what_is_changed_within_a_submodule_is_nothing_of_the_repository_that_holds_it(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outer = tmp_path_factory.mktemp("outer")
    git(outer, "init", "-q", "-b", "main")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "inner")
    git(outer, "commit", "-q", "-m", "first")
    (outer / "inner" / "a.txt").write_text("changed\n")
    assert status(outer)["unstaged"] == []
    git(outer / "inner", "commit", "-q", "-a", "-m", "further")
    shown = status(outer)
    assert (shown["unstaged"], shown["submodules"]) == (["inner"], ["inner"])
