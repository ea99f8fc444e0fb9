"""A repository as a whole: HEAD, refs, the last commit, what is staged and what is not."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from readback.adapters.source_git import GitSource
from readback.domain.reading import Presence


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
