"""A git repository as a source, against real repositories: what is shown, and what is absent, hidden or refused."""

from __future__ import annotations

import os
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from readback.domain.verification.reading import Presence
from readback.errors import ReaderFailedError, ReaderTypeError, SandboxEscapeError, UsageError
from readback.systems.git.source import GitSource
from tests.demo.waiting import eventually


class Repository:
    """A repository in a folder, worked on by git itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self("init", "-q", "-b", "main")

    def __call__(self, *args: str) -> str:
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _WHO.items()}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false", *args],
            cwd=self.folder, env={**kept, **who, "GIT_CONFIG_GLOBAL": "/dev/null"}, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return done.stdout.strip()

    def put(self, path: str, text: str) -> None:
        where = self.folder / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text, encoding="utf-8")
        self("add", "--", path)

    def commit(self, message: str) -> str:
        self("commit", "-q", "-m", message)
        return self("rev-parse", "HEAD")


def _gone(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return True


_WHO = {"NAME": "Ann", "EMAIL": "ann@example.org"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "work")


@pytest.fixture
def source(repository: Repository) -> GitSource:
    return GitSource("repo", str(repository.folder))


def test_a_commit_on_a_branch_is_shown_as_git_has_it(repository: Repository, source: GitSource) -> None:
    repository.put("a.txt", "one")
    first = repository.commit("First\n\nReadback-Stamp: stamp-1")
    seen = source.commit("main")
    assert isinstance(seen.value, dict)
    assert seen.value["commit"] == first == seen.version
    assert seen.value["subject"] == "First"
    assert seen.value["parents"] == []
    assert seen.stamp == "stamp-1"
    assert seen.author == "Ann <ann@example.org>"
    repository.put("a.txt", "two")
    second = repository.commit("Second | with\ttabs")
    again = source.commit("main")
    assert isinstance(again.value, dict)
    assert again.value["parents"] == [first]
    assert again.value["commit"] == second
    assert again.stamp is None


def test_a_branch_that_is_not_there_is_absent_and_a_longer_name_is_another(
    repository: Repository, source: GitSource
) -> None:
    assert source.commit("main").presence is Presence.ABSENT  # nothing was committed yet
    repository.put("a.txt", "one")
    repository.commit("First")
    repository("branch", "feature/one")
    assert source.commit("feature").presence is Presence.ABSENT
    assert source.commit("feature/one").presence is Presence.PRESENT
    assert source.commit("feature/on").presence is Presence.ABSENT


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize(
    "branch",
    [
        "",
        "--output=x",
        "-x",
        "a..b",
        "a b",
        "a\nb",
        "main^{commit}",
        "main:a.txt",
        "*",
        "a/../b",
        "HEAD@{1}",
        "x.lock",
        "a\0b",
    ],
)
def test_a_name_that_no_branch_has_is_refused_before_git_sees_it(branch: str, source: GitSource) -> None:
    with pytest.raises(ReaderTypeError):
        source.commit(branch)
    with pytest.raises(ReaderTypeError):
        source.remote("origin", branch)


def test_a_blob_is_shown_by_its_bytes(repository: Repository, source: GitSource) -> None:
    repository.put("deep/a b*.txt", "caf\u00e9")
    commit = repository.commit("First")
    repository.put("deep/a b*.txt", "later, and not committed")
    seen = source.blob("main", "deep/a b*.txt")
    assert seen.value == {
        "path": "deep/a b*.txt",
        "mode": "100644",
        "blob": repository("rev-parse", f"{commit}:deep/a b*.txt"),
        "commit": commit,
        "size": 5,
        "sha256": sha256("caf\u00e9".encode()).hexdigest(),
    }
    assert source.blob("main", "deep/a b").presence is Presence.ABSENT
    assert source.blob("main", "deep/*").presence is Presence.ABSENT
    assert source.blob("nobody", "a").presence is Presence.ABSENT
    with pytest.raises(ReaderTypeError):
        source.blob("main", "deep")


@pytest.mark.requirement("FILE-values-apart", "INPUT-sandbox-escape")
@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../b", "a//b", ".", "a\0b"])
def test_a_path_stays_in_the_repository(path: str, source: GitSource) -> None:
    with pytest.raises(SandboxEscapeError):
        source.index(path)


def test_the_index_is_what_is_staged(repository: Repository, source: GitSource) -> None:
    repository.put("a.txt", "staged")
    (repository.folder / "a.txt").write_text("changed since", encoding="utf-8")
    seen = source.index("a.txt")
    assert isinstance(seen.value, dict)
    assert seen.value["sha256"] == sha256(b"staged").hexdigest()
    assert source.index("b.txt").presence is Presence.ABSENT
    repository.put("d/one", "1")
    repository.put("d/two", "2")
    with pytest.raises(ReaderTypeError):
        source.index("d")


def test_head_says_the_branch_the_commit_and_what_is_staged(repository: Repository, source: GitSource) -> None:
    repository.put("a.txt", "one")
    assert source.head().value == {"branch": "main", "commit": None, "staged": ["a.txt"]}
    commit = repository.commit("First")
    assert source.head().value == {"branch": "main", "commit": commit, "staged": []}
    repository("checkout", "-q", "--detach")
    assert source.head().value == {"branch": None, "commit": commit, "staged": []}


def test_a_branch_is_head_s_though_a_tag_has_its_name(repository: Repository, source: GitSource) -> None:
    repository.put("a.txt", "one")
    first = repository.commit("First")
    repository("tag", "main")
    assert source.head().value == {"branch": "main", "commit": first, "staged": []}


def test_what_is_shown_is_what_the_commit_names_and_not_what_stands_in_for_it(
    repository: Repository, source: GitSource
) -> None:
    """A replacement stays where it was made: whoever fetches the branch gets what the commit names."""
    repository.put("a.txt", "as intended")
    first, intended = repository.commit("First"), repository("rev-parse", "HEAD:a.txt")
    repository.put("a.txt", "another thing")
    second, other, tree = repository.commit("Second"), *repository("rev-parse", "HEAD:a.txt", "HEAD^{tree}").split()
    repository("replace", other, intended)
    shown = source.blob("main", "a.txt").value
    assert isinstance(shown, dict)
    assert (shown["blob"], shown["sha256"]) == (other, sha256(b"another thing").hexdigest())
    repository("replace", second, first)
    (repository.folder / ".git" / "info" / "grafts").write_text(f"{second}\n", encoding="ascii")
    told = source.commit("main").value
    assert isinstance(told, dict)
    assert (told["commit"], told["subject"], told["parents"]) == (second, "Second", [first])
    tip = source.status().value
    assert isinstance(tip, dict)
    assert tip["tip"] == {"parents": [first], "tree": tree, "message": "Second\n"}


def test_a_remote_is_asked_itself(repository: Repository, source: GitSource, tmp_path: Path) -> None:
    repository.put("a.txt", "one")
    commit = repository.commit("First")
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "there")], check=True)
    repository("remote", "add", "origin", str(tmp_path / "there"))
    assert source.remote("origin", "main").presence is Presence.ABSENT
    repository("push", "-q", "origin", "main:topic/main")
    assert source.remote("origin", "main").presence is Presence.ABSENT
    repository("push", "-q", "origin", "main")
    assert source.remote("origin", "main").value == {"remote": "origin", "branch": "main", "commit": commit}
    assert source.remote("nobody", "main").presence is Presence.UNAVAILABLE
    for remote in ("--upload-pack=touch x", "/tmp/x", "ext::sh -c x", ""):
        with pytest.raises(UsageError):
            source.remote(remote, "main")


def test_what_is_no_repository_is_unavailable(tmp_path: Path) -> None:
    nowhere = GitSource("repo", str(tmp_path / "nowhere"))
    assert nowhere.commit("main").presence is Presence.UNAVAILABLE
    assert nowhere.head().presence is Presence.UNAVAILABLE
    with pytest.raises(ReaderFailedError):
        nowhere.ping()


@pytest.mark.requirement("FILE-bounded")
def test_nothing_that_the_repository_says_is_run(repository: Repository, source: GitSource) -> None:
    repository.put("a.txt", "one")
    repository.commit("First")
    hook = repository.folder / ".git" / "hooks" / "post-index-change"
    for name, value in (("core.fsmonitor", "touch fsmonitor-ran"), ("core.pager", "touch pager-ran")):
        repository("config", name, value)
    hook.write_text("#!/bin/sh\ntouch hook-ran\n", encoding="utf-8")
    hook.chmod(0o755)
    source.head()
    source.index("a.txt")
    source.commit("main")
    assert not list(repository.folder.glob("*-ran"))


@pytest.mark.requirement("FILE-bounded")
def test_a_signed_commit_is_shown_without_the_words_of_the_program_that_would_check_it(
    repository: Repository, source: GitSource, tmp_path: Path
) -> None:
    checker = tmp_path / "checker"
    signed = "cat >/dev/null; printf '\\n[GNUPG:] SIG_CREATED ' >&2; echo '-----BEGIN PGP SIGNATURE-----'; echo here"
    said = f"touch {tmp_path}/checker-ran; printf 'a\\nb\\nc\\nd\\n' >&2"
    checker.write_text(f'#!/bin/sh\ncase "$*" in *--verify*) {said};; *) {signed};; esac\n', encoding="utf-8")
    checker.chmod(0o755)
    repository("config", "gpg.program", str(checker))
    repository("config", "log.showSignature", "true")
    repository.put("a.txt", "one")
    repository("commit", "-q", "-S", "-m", "Signed\n\nReadback-Stamp: stamp-1")
    shown = source.commit("main")
    assert isinstance(shown.value, dict)
    assert (shown.value["subject"], shown.value["email"], shown.stamp) == ("Signed", "ann@example.org", "stamp-1")
    assert not (tmp_path / "checker-ran").exists()


@pytest.mark.requirement("FILE-bounded")
def test_a_remote_that_hangs_is_given_up_and_ended(repository: Repository, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text('#!/bin/sh\necho $$ > "$0.pid"\nexec sleep 600\n', encoding="utf-8")
    slow.chmod(0o755)
    repository("remote", "add", "slow", "ssh://host.invalid/x")
    repository("config", "core.sshCommand", str(slow))
    source = GitSource("repo", str(repository.folder), timeout_s=1.0)
    assert source.remote("slow", "main").presence is Presence.UNAVAILABLE
    left = Path(f"{slow}.pid")
    if left.exists() and left.read_text(encoding="ascii").strip():
        pid = left.read_text(encoding="ascii").strip()
        eventually(lambda: _gone(pid))


# --- what git itself passes over ---------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-lies")
@pytest.mark.parametrize("held", ["garbage\n", "", "0" * 40 + "\n"])
def test_a_branch_whose_ref_is_broken_is_not_absent(held: str, repository: Repository, source: GitSource) -> None:
    repository.put("a.txt", "one")
    repository.commit("First")
    (repository.folder / ".git" / "refs" / "heads" / "topic").write_text(held, encoding="ascii")
    assert source.commit("topic").presence is Presence.UNAVAILABLE
    assert source.blob("topic", "a.txt").presence is Presence.UNAVAILABLE
    assert source.commit("main").presence is Presence.PRESENT
    assert source.commit("to").presence is Presence.ABSENT


def test_a_path_of_which_only_one_side_of_a_conflict_is_left_is_not_staged(
    repository: Repository, source: GitSource
) -> None:
    repository.put("a.txt", "theirs")
    blob, where = repository("rev-parse", ":a.txt"), repository.folder
    listed = f"0 {'0' * 40}\ta.txt\n100644 {blob} 3\ta.txt\n"
    subprocess.run(["git", "update-index", "--index-info"], cwd=where, input=listed, text=True, check=True)
    with pytest.raises(ReaderTypeError, match="in conflict"):
        source.index("a.txt")


@pytest.mark.requirement("FILE-lies")
def test_an_intent_to_add_is_nothing_that_is_staged(repository: Repository, source: GitSource) -> None:
    (repository.folder / "empty").write_text("", encoding="ascii")
    repository("add", "-N", "empty")
    assert source.index("empty").presence is Presence.ABSENT
    assert source.head().value == {"branch": "main", "commit": None, "staged": []}
    repository("add", "empty")
    assert source.index("empty").presence is Presence.PRESENT
    assert source.head().value == {"branch": "main", "commit": None, "staged": ["empty"]}


@pytest.mark.requirement("FILE-lies")
def test_a_folder_with_the_name_of_a_remote_is_no_remote(repository: Repository, source: GitSource) -> None:
    repository.put("a.txt", "one")
    repository.commit("First")
    repository("init", "-q", "--bare", "origin")
    repository("push", "-q", "./origin", "main")
    shown = source.remote("origin", "main")
    assert (shown.presence, "no address for the remote 'origin'" in shown.detail) == (Presence.UNAVAILABLE, True)
    repository("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")  # without an address it is one
    assert source.remote("origin", "main").presence is Presence.UNAVAILABLE


def test_a_commit_is_what_its_own_bytes_say_and_not_a_file_beside_them(
    repository: Repository, source: GitSource
) -> None:
    repository.put("a.txt", "as intended")
    first = repository.commit("First")
    repository.put("a.txt", "another thing")
    second = repository.commit("Second")
    trees = [repository("rev-parse", f"{commit}^{{tree}}") for commit in (first, second)]
    repository("commit-graph", "write", "--reachable")
    graph = repository.folder / ".git" / "objects" / "info" / "commit-graph"
    graph.chmod(0o644)
    graph.write_bytes(graph.read_bytes().replace(*(bytes.fromhex(tree) for tree in reversed(trees))))
    shown = source.commit("main").value
    assert isinstance(shown, dict)
    assert (shown["commit"], shown["tree"], shown["parents"]) == (second, trees[1], [first])
    head = source.head().value
    assert isinstance(head, dict)
    assert head["staged"] == []


def test_the_last_commit_of_a_shallow_clone_has_its_parents(repository: Repository, tmp_path: Path) -> None:
    repository.put("a.txt", "one")
    first = repository.commit("First")
    repository.put("a.txt", "two")
    repository.commit("Second")
    repository("clone", "-q", "--depth", "1", f"file://{repository.folder}", str(tmp_path / "shallow"))
    shown = GitSource("repo", str(tmp_path / "shallow")).commit("main").value
    assert isinstance(shown, dict)
    assert shown["parents"] == [first]


def test_a_stamp_over_several_lines_puts_nothing_before_the_subject(repository: Repository, source: GitSource) -> None:
    repository.put("a.txt", "one")
    repository.commit("What was done\n\nReadback-Stamp: stamp-1\n What was asked for")
    shown = source.commit("main")
    assert isinstance(shown.value, dict)
    assert (shown.value["subject"], shown.stamp) == ("What was done", "stamp-1 What was asked for")


def test_a_repository_that_is_broken_is_not_read_as_the_one_around_it(repository: Repository, tmp_path: Path) -> None:
    repository.put("a.txt", "around")
    repository.commit("Around")
    inner, bare = Repository(repository.folder / "inner"), repository.folder / "bare"
    repository("init", "-q", "--bare", "-b", "main", "bare")
    for folder in (inner.folder / ".git", bare):
        (folder / "HEAD").unlink()
        broken = GitSource("repo", str(folder.parent if folder.name == ".git" else folder))
        assert broken.commit("main").presence is Presence.UNAVAILABLE
        with pytest.raises(ReaderFailedError):
            broken.ping()
    below = repository.folder / "plain"
    below.mkdir()
    assert GitSource("repo", str(below)).commit("main").presence is Presence.PRESENT  # a folder of that repository


@pytest.mark.parametrize("branch", ["f\u00fcnf", "fix(api),it's", "100%", "\u5206\u652f", "a\u2028b", "_", "x@y"])
def test_a_branch_is_found_by_any_name_that_git_gives_it(
    branch: str, repository: Repository, source: GitSource
) -> None:
    repository.put("a.txt", "one")
    commit = repository.commit("First")
    assert source.commit(branch).presence is Presence.ABSENT
    repository("branch", branch)
    assert source.commit(branch).version == commit
    found = source.status().value
    assert isinstance(found, dict)
    assert found["branches"] == {"main": commit, branch: commit}


def test_a_subject_is_the_same_text_in_whatever_encoding_others_are_shown_it(
    repository: Repository, source: GitSource
) -> None:
    repository.put("a.txt", "one")
    repository.commit("Gr\u00fc\u00dfe")
    repository("config", "i18n.logOutputEncoding", "latin1")
    shown = source.commit("main").value
    assert isinstance(shown, dict)
    assert shown["subject"] == "Gr\u00fc\u00dfe"


def test_a_repository_with_longer_names_of_objects_is_read_before_its_first_commit(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", "--object-format=sha256", str(tmp_path / "long")], check=True)
    shown = GitSource("repo", str(tmp_path / "long")).head()
    assert shown.value == {"branch": "main", "commit": None, "staged": []}
