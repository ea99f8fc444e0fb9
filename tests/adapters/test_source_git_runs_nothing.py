"""The git source runs no program that a repository's own files name, whatever it is asked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from readback.domain.verification.reading import Presence, Reading
from readback.systems.git.source import GitSource

LOOKS = ("commit", "blob", "index", "head", "status", "remote")


def git(repository: Path, *arguments: str) -> str:
    said = subprocess.run(
        ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@x.example", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return said.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    subprocess.run(["git", "init", "-q", "-b", "main", str(made)], check=True)
    (made / "a.txt").write_text("1")
    git(made, "add", "a.txt")
    git(made, "commit", "-qm", "first")
    git(made, "remote", "add", "origin", str(made))
    return made


def looked(source: GitSource, what: str) -> Reading:
    match what:
        case "commit":
            return source.commit("main")
        case "blob":
            return source.blob("main", "a.txt")
        case "index":
            return source.index("a.txt")
        case "head":
            return source.head()
        case "status":
            return source.status(revision="HEAD")
        case _:
            return source.remote("origin", "main")


def programs(mark: Path) -> dict[str, str]:
    """Settings of a repository by which git runs a program, each with one that leaves the mark."""
    run = f"touch {mark};"
    return {
        "filter.clean": f'[filter "x"]\n\tclean = {run} cat\n',
        "filter.smudge": f'[filter "x"]\n\tsmudge = {run} cat\n\trequired = true\n',
        "filter.process": f'[filter "x"]\n\tprocess = {run} cat\n',
        "diff.command": f'[diff "x"]\n\tcommand = {run}\n\ttextconv = {run} cat\n[diff]\n\texternal = {run}\n',
        "core.fsmonitor": f"[core]\n\tfsmonitor = {run}\n",
        "core.hooksPath": f"[core]\n\thooksPath = {mark.parent}/hooks\n",
        "core.pager": f"[core]\n\tpager = {run}\n[pager]\n\tshow = {run}\n\tstatus = {run}\n",
        "core.sshCommand": f'[core]\n\tsshCommand = {run}\n[remote "origin"]\n\turl = ssh://127.0.0.1/x\n',
        "core.gitProxy": f'[core]\n\tgitProxy = {run}\n[remote "origin"]\n\turl = git://127.0.0.1:1/x\n',
        "core.askPass": f'[core]\n\taskPass = {run}\n[remote "origin"]\n\turl = http://127.0.0.1:1/x\n',
        "credential.helper": f'[credential]\n\thelper = "!{run}"\n[remote "origin"]\n\turl = http://127.0.0.1:1/x\n',
        "remote.uploadpack": f'[remote "origin"]\n\tuploadpack = {run} git-upload-pack\n',
        "remote.vcs": f'[remote "origin"]\n\tvcs = ext\n\turl = sh -c touch% {mark}\n[protocol]\n\tallow = always\n',
        "ext::": f'[remote "origin"]\n\turl = "ext::sh -c touch% {mark}"\n[protocol "ext"]\n\tallow = always\n',
        "url.insteadOf": f'[url "ext::sh -c touch% {mark} "]\n\tinsteadOf = /\n[protocol "ext"]\n\tallow = always\n',
        "gpg.program": f"[gpg]\n\tprogram = {run}\n[log]\n\tshowSignature = true\n",
        "alias": f'[alias]\n\tstatus = "!{run}"\n\tshow = "!{run}"\n',
        "alternateRefsCommand": f"[core]\n\talternateRefsCommand = {run}\n",
        "trace2": f"[trace2]\n\teventTarget = {mark}\n",
    }


NAMES = [*programs(Path("/nowhere"))]


@pytest.mark.requirement("SEC-readers-run-nothing")
@pytest.mark.parametrize(
    ("name", "by"),
    [
        *((name, "its own file") for name in NAMES),
        ("filter.clean", "an included file"),
        ("filter.clean", "the working tree's file"),
        ("ext::", "an included file"),
    ],
)
def test_no_look_runs_what_the_repository_s_configuration_names(
    name: str, by: str, repository: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "RAN"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (hooks / hook).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (hooks / hook).chmod(0o755)
        (repository / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (repository / ".git" / "hooks" / hook).chmod(0o755)
    config = repository / ".git" / "config"
    text = programs(mark)[name]
    if by == "an included file":
        (repository / "more").write_text(text)
        text = "[include]\n\tpath = ../more\n"
    if by == "the working tree's file":
        (repository / ".git" / "config.worktree").write_text(text)
        text = "[extensions]\n\tworktreeConfig = true\n"
    config.write_text(config.read_text() + text)
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    (repository / "a.txt").write_text("2")
    os.utime(repository / "a.txt", (1, 1))
    source = GitSource("r", str(repository), timeout_s=5)
    source.ping()
    for what in LOOKS:
        found = looked(source, what)
        assert not mark.exists(), what
        if what != "remote":
            assert found.presence is Presence.PRESENT, (what, found.detail)


@pytest.mark.requirement("SEC-readers-run-nothing")
def test_the_settings_that_name_no_program_still_count(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "ignored").write_text("*.log\n")
    git(repository, "config", "core.excludesFile", str(tmp_path / "ignored"))
    git(repository, "config", "core.fileMode", "false")
    (repository / "x.log").write_text("l")
    (repository / "b.txt").write_text("b")
    (repository / "a.txt").chmod(0o755)
    found = GitSource("r", str(repository)).status().value
    assert isinstance(found, dict)
    assert (found["untracked"], found["unstaged"]) == (["b.txt"], [])


@pytest.mark.requirement("SEC-readers-run-nothing")
def test_a_second_working_tree_is_read_by_its_own_head_and_index(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    (tmp_path / "other" / "n.txt").write_text("n")
    git(tmp_path / "other", "add", "n.txt")
    found = GitSource("r", str(tmp_path / "other")).head().value
    assert isinstance(found, dict)
    assert (found["branch"], found["staged"]) == ("other", ["n.txt"])
    main = GitSource("r", str(repository)).head().value
    assert isinstance(main, dict)
    assert (main["branch"], main["staged"]) == ("main", [])


@pytest.mark.requirement("SEC-readers-run-nothing")
def test_a_repository_with_sha_256_is_read(tmp_path: Path) -> None:
    made = tmp_path / "wide"
    subprocess.run(["git", "init", "-q", "--object-format=sha256", "-b", "main", str(made)], check=True)
    git(made, "commit", "-q", "--allow-empty", "-m", "first")
    found = GitSource("r", str(made)).commit("main").value
    assert isinstance(found, dict)
    assert found["commit"] == git(made, "rev-parse", "HEAD")
    assert len(str(found["commit"])) == 64


@pytest.mark.requirement("SEC-readers-run-nothing")
def test_no_reading_leaves_a_folder_behind(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(room))
    GitSource("r", str(repository)).status()
    assert [*room.iterdir()] == []
