"""A git repository as a system of record: commits, blobs, the index, HEAD and a remote's refs, by git's plumbing.

Users and `configured.sources` construct the source. The source changes nothing: there is no fetch, no lock on the index
and no prompt. Git sees the repository through `plain_view`, where no setting of the repository names a program. Names
are checked before git receives them; no name can be an option. Time and output are bounded.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat as modes
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from readback.canon import Json
from readback.canon.limits import PAYLOAD_MAX_BYTES
from readback.domain.verification.reading import Reading
from readback.errors import ReaderFailedError, ReaderTypeError, SandboxEscapeError, UsageError

# A view of a repository under our configuration, where no setting names a program.

SETTINGS_MAX: Final = 2_000
"""Maximum settings of a repository. More would make git's environment too large."""
PROTOCOLS: Final = "file:git:http:https:ssh"
"""Allowed protocols for remotes. `ext` and other remote helpers are programs named in an address."""
LISTED: Final = ("config", "--list", "-z", "--show-scope")
"""How git lists the settings: git reads files and runs nothing."""
PLACES: Final = ("rev-parse", "--absolute-git-dir", "--git-common-dir", "--is-inside-work-tree")
TOP: Final = ("rev-parse", "--show-toplevel")

Setting: TypeAlias = tuple[str, str]

_SHARED: Final = ("objects", "refs", "packed-refs", "info", "shallow", "logs", "reftable")
"""Content shared by the working trees of one repository, besides configuration and hooks."""
_CORE: Final = (
    "attributesfile", "autocrlf", "bigfilethreshold", "checkstat", "eol", "excludesfile", "filemode", "ignorecase",
    "ignorestat", "precomposeunicode", "protecthfs", "protectntfs", "sparsecheckout", "sparsecheckoutcone", "symlinks",
    "trustctime",
)  # fmt: skip
_OF_ANYBODY: Final = re.compile(
    rf"core\.(?:{'|'.join(_CORE)})|index\.(?:sparse|skiphash)|submodule\..+\.(?:ignore|active)"
    r"|remote\..+\.url|url\..+\.insteadof",
    re.DOTALL,
)
"""Settings without a program, valid from every file."""
_OF_THE_USER: Final = re.compile(
    r"credential\..+|http\.(?!extraheader$).+|core\.(?:sshcommand|askpass)|ssh\.variant", re.DOTALL
)
"""Settings for reaching remotes, valid only from the files of this process's user and of the system."""
_USERS: Final = frozenset({"system", "global"})
_FORMAT: Final = {"extensions.objectformat": ("sha1", "sha256"), "extensions.refstorage": ("files", "reftable")}


def settings_of(listed: bytes) -> list[tuple[str, Setting]]:
    """Return scope, name and value of each setting, as listed by git. Raises OSError for more than SETTINGS_MAX."""
    parts = listed.decode("utf-8", "surrogateescape").split("\0")[:-1]
    if len(parts) > 2 * SETTINGS_MAX:
        raise OSError(f"the repository has over {SETTINGS_MAX} settings")
    found: list[tuple[str, Setting]] = []
    for scope, told in zip(parts[::2], parts[1::2], strict=True):
        name, sign, value = told.partition("\n")
        found.append((scope, (name, value if sign else "true")))
    return found


def _taken_over(settings: list[tuple[str, Setting]]) -> list[Setting]:
    return [
        setting
        for scope, setting in settings
        if _OF_ANYBODY.fullmatch(setting[0]) or (scope in _USERS and _OF_THE_USER.fullmatch(setting[0]))
    ]


def _own_config(settings: list[tuple[str, Setting]], *, bare: bool) -> str:
    """Return the format settings that git reads first: storage of objects and refs."""
    last = dict(setting for scope, setting in settings if scope == "local")
    kept = {name: last[name].lower() for name in _FORMAT if last.get(name, "").lower() in _FORMAT[name]}
    lines = [f"[core]\n\trepositoryformatversion = {1 if kept else 0}\n\tbare = {'true' if bare else 'false'}\n"]
    if kept:
        lines.append("[extensions]\n")
        lines += [f"\t{name.partition('.')[2]} = {value}\n" for name, value in kept.items()]
    return "".join(lines)


@contextmanager
def plain_view(
    folder: str, settings: list[tuple[str, Setting]], common: str, top: str | None, plain: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    """Return an environment in which git reads the repository with our configuration. Raises OSError.

    `folder` is the repository's own folder, `plain` the environment without git's own names, and `top` the folder
    of the working tree, or None.
    """
    own = tempfile.mkdtemp(prefix="readback-git-")
    try:
        with open(os.path.join(own, "config"), "w", encoding="ascii") as file:
            file.write(_own_config(settings, bare=top is None))
        for name in _SHARED:
            os.symlink(os.path.join(common, name), os.path.join(own, name))
        more = {
            "GIT_DIR": folder,
            "GIT_COMMON_DIR": own,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": PROTOCOLS,
            "GIT_NO_LAZY_FETCH": "1",
            **({} if top is None else {"GIT_WORK_TREE": top}),
        }
        over = _taken_over(settings)
        more["GIT_CONFIG_COUNT"] = str(len(over))
        for number, (name, value) in enumerate(over):
            more[f"GIT_CONFIG_KEY_{number}"] = name
            more[f"GIT_CONFIG_VALUE_{number}"] = value
        yield {**plain, **more}
    finally:
        shutil.rmtree(own, ignore_errors=True)


TIMEOUT_DEFAULT_S: Final = 10.0
BLOB_MAX_BYTES: Final = 268_435_456
"""Larger blobs are shown without the SHA-256 of their bytes."""
MERGING_MAX_CHARS: Final = 65_536
"""Characters read of the commits in a merge: some hundreds of commits."""
PATHS_SHOWN_MAX: Final = 10_000
COMMIT_HOOKS: Final = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")

_Look: TypeAlias = Callable[[], Reading]
_SIGN: Final = r"[^\x00-\x20\x7f~^:?*\[\\\ud800-\udfff]"
_BRANCH: Final = re.compile(rf"(?!.*(?:\.\.|//|@\{{|\.lock(?:/|$)|/\.))(?![-./]){_SIGN}{{1,200}}(?<![./])")
"""Branch names that git accepts, in any script, except names that begin like an option."""
_REMOTE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_COMMIT: Final = "%H%n%an%n%ae%n%ct%n%(trailers:key=Readback-Stamp,valueonly,unfold,separator=%x2C)%n%s"
_MADE: Final = re.compile(r"^(author|committer) .*?(-?[0-9]+) [-+][0-9]{4}$", re.MULTILINE)
_PASSED_OVER: Final = "warning: ignoring broken ref"
"""Git's warning about a ref missing from a list. Git still exits with 0."""
_STAGED: Final = ("diff-index", "--cached", "--ita-invisible-in-index", "--name-only", "-z")
"""A path with only the intent to add (`add -N`) has nothing staged."""


_SETTINGS: Final = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
    "-c", "core.commitGraph=false",  # a separate file that could show other trees and parents
)  # fmt: skip


class _RefusedError(Exception):
    """git ended with a code other than 0."""


class GitSource:
    """Read one git repository.

    Safe from any thread.

    Args:
        name: Name in readings and messages.
        repository: Folder of the repository, bare or with a working tree.
        timeout_s: Seconds for one reading.

    Example:
        >>> site = GitSource("site", "/srv/site.git")
        >>> def branch(ctx, branch):
        ...     return site.commit(branch)
    """

    def __init__(self, name: str, repository: str, *, timeout_s: float = TIMEOUT_DEFAULT_S) -> None:
        if not name:
            raise UsageError("A source needs a name.")
        self.name = name
        self._repository = os.path.abspath(repository)
        self._timeout_s = timeout_s
        self._here = threading.local()

    def commit(self, branch: str) -> Reading:
        """Read the commit of a branch.

        The value has `branch`, `commit`, `parents`, `tree`, `author`, `email`, `subject` and `at_s`. The version is the
        commit. The stamp comes from the trailer `Readback-Stamp`.
        """
        return self._told(lambda: self._commit(branch))

    def blob(self, branch: str, path: str) -> Reading:
        """Read a file on a branch: `path`, `mode`, `blob` (the object id), `size`, `sha256`, `commit`."""
        return self._told(lambda: self._blob(branch, path))

    def index(self, path: str) -> Reading:
        """Read the staged entry of a path: `path`, `mode`, `blob`, `size`, `sha256`. Paths in conflict are refused."""
        return self._told(lambda: self._index(path))

    def head(self) -> Reading:
        """Read HEAD: `branch` (null if detached), `commit` (null before the first commit), `staged` (paths)."""
        return self._told(self._head)

    def tip(self) -> Reading:
        """Read `head` with the details of HEAD's commit.

        `tip` holds `parents`, `tree`, `message`, `authored_s`, `committed_s` and `changed` (paths different from the
        first parent; null for over 10,000). Further keys: `index` (a digest), `unstaged` (tracked paths), `merging`,
        and `hooks` (names of the hooks for a commit).
        """
        return self._told(self._tip_of_head)

    def remote(self, remote: str, branch: str) -> Reading:
        """Ask a remote for the commit of a branch: `remote`, `branch`, `commit`."""
        return self._told(lambda: self._remote(remote, branch))

    def status(self, paths: Sequence[str] = (), *, revision: str = "", files: Sequence[str] | None = None) -> Reading:
        """Read the state of the whole repository.

        - `branch` (null if HEAD is detached), `commit`, and `tip` (`parents`, `tree`, `message` of the commit).
        - `branches`, `tags` and `remotes` with their commits.
        - `index` (a digest), and the paths `staged`, `unstaged` and `untracked`.
        - `submodules` and `intended`: the submodules among `unstaged`, and the paths only marked with `add -N`.
        - `merging`: the commits of an unfinished merge. `tracked`: the number of tracked files.
        - `means`: the commit of `revision`, or null.
        - `files`: a digest of the working tree at the paths `files`, by default at the paths of the three lists.
        - `matched`: whether each of `paths` means a file.

        With `paths`, git's own pathspecs, `files` and all lists of paths except `staged` cover only those paths.
        """
        return self._told(lambda: self._status(paths, revision, files))

    def ping(self) -> None:
        """Check the repository. Raises ReaderFailedError where there is none."""
        try:
            with self._plain():
                self._git("rev-parse", "--git-dir")
        except (_RefusedError, TimeoutError, OSError) as error:
            raise ReaderFailedError(f"Source {self.name!r} does not answer: {error}") from error

    # --- looking -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _plain(self) -> Iterator[None]:
        """Run this thread's git under the plain view. Raises _RefusedError, TimeoutError, OSError."""
        self._here.environment = plain = _environment(self._repository)
        try:
            found = self._git(*PLACES).decode(errors="surrogateescape").rstrip("\n").split("\n")
            if len(found) != len(PLACES) - 1:
                raise _RefusedError("the repository's folder has a line break in its name")
            folder, common, inside = found
            top = None
            if inside == "true":
                top = self._git(*TOP).decode(errors="surrogateescape").removesuffix("\n")
            common = os.path.normpath(os.path.join(self._repository, common))
            settings = settings_of(self._git(*LISTED))
            self._here.hooks = _hooks_folder(settings, common, top or common)
            # Name this repository, so that git uses no outer one.
            with plain_view(folder, settings, common, top, plain) as view:
                self._here.environment = view
                yield
        finally:
            del self._here.environment
            self._here.hooks = ""

    def _told(self, look: _Look) -> Reading:
        try:
            with self._plain():
                return look()
        except (_RefusedError, TimeoutError, OSError) as error:
            return Reading.unavailable(f"{self.name}: {error}")

    def _commit(self, branch: str) -> Reading:
        commit = self._tip(branch)
        if not commit:
            return Reading.absent()
        # User settings could add lines, run a program, or change the encoding.
        plain = ("show", "--no-patch", "--no-show-signature", "--encoding=UTF-8")
        shown = self._git(*plain, f"--format={_COMMIT}", commit).decode(errors="replace")
        sha, author, email, at, stamp, subject = shown.rstrip("\n").split("\n", 5)
        tip = self._tip_shown(commit)  # by the commit's bytes: a shallow clone's last commit has parents
        value: dict[str, Json] = {
            "branch": branch,
            "commit": sha,
            "parents": tip["parents"],
            "tree": tip["tree"],
            "author": author,
            "email": email,
            "at_s": int(at),
            "subject": subject,
        }
        marks = [mark for mark in stamp.split(",") if mark]
        return Reading.of(value, version=sha, stamp=marks[0] if len(marks) == 1 else None, author=f"{author} <{email}>")

    def _blob(self, branch: str, path: str) -> Reading:
        commit = self._tip(branch)
        if not commit:
            return Reading.absent()
        found = self._git("ls-tree", "-z", "--full-tree", commit, "--", f":(literal){self._inside(path)}")
        entries = [each for each in found.split(b"\0") if each]
        if not entries:
            return Reading.absent()
        mode, kind, blob = entries[0].split(b"\t")[0].decode().split()
        if kind != "blob":
            raise ReaderTypeError(f"{path!r} is a {kind} on {branch!r}, not a file.")
        return self._shown({"path": path, "mode": mode, "blob": blob, "commit": commit}, blob)

    def _index(self, path: str) -> Reading:
        found = self._git("ls-files", "-s", "-z", "--full-name", "--", f":(top,literal){self._inside(path)}")
        entries = [each for each in found.split(b"\0") if each]
        if not entries:
            return Reading.absent()
        if len(entries) > 1:
            raise ReaderTypeError(f"{path!r} is not a single staged file: it is a folder, or in conflict.")
        mode, blob, stage = entries[0].split(b"\t")[0].decode().split()
        if stage != "0":
            raise ReaderTypeError(f"{path!r} is in conflict: nothing is staged for it.")
        shown = self._shown({"path": path, "mode": mode, "blob": blob}, blob)
        if isinstance(shown.value, dict) and shown.value["size"]:
            return shown
        return shown if self._git(*_STAGED, self._empty(), "--", f":(top,literal){path}") else Reading.absent()

    def _empty(self) -> str:
        """Return the id of the empty tree in this repository's hash format."""
        return self._git("hash-object", "-t", "tree", "--stdin").decode().strip()

    def _shown(self, value: dict[str, Json], blob: str) -> Reading:
        size = int(self._git("cat-file", "-s", blob))
        value["size"] = size
        if size <= BLOB_MAX_BYTES:
            from hashlib import sha256

            value["sha256"] = sha256(self._git("cat-file", "blob", blob, most=BLOB_MAX_BYTES)).hexdigest()
        return Reading.of(value, version=blob, complete="sha256" in value)

    def _head(self) -> Reading:
        try:  # in full: a tag of the same name changes a branch's short form
            named = self._git("symbolic-ref", "--quiet", "HEAD").decode(errors="replace").rstrip("\n")
            branch: Json = named.removeprefix("refs/heads/")
        except _RefusedError:
            branch = None
        found = self._git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}") if branch else b""
        commit: Json = found.decode().strip() or None
        if branch is None:
            commit = self._git("rev-parse", "--verify", "HEAD^{commit}").decode().strip()
        against = "HEAD" if commit else self._empty()
        changed = self._git(*_STAGED, against, "--")
        staged: list[Json] = [each.decode(errors="replace") for each in changed.split(b"\0") if each]
        return Reading.of({"branch": branch, "commit": commit, "staged": staged}, version=str(commit or ""))

    def _status(self, paths: Sequence[str], revision: str, files: Sequence[str] | None) -> Reading:
        head = self._head().value
        assert isinstance(head, dict)
        from hashlib import sha256

        named = ["--", *paths] if paths else []
        # Only a submodule's commit counts: this repository cannot commit changes inside a submodule.
        shown = ("--porcelain=v2", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=dirty")
        unstaged, untracked, submodules, intended = _worktree(self._git("status", *shown, *named))
        if files is None:
            files = [*unstaged, *untracked, *([] if paths else _texts(head["staged"]))]
        value: dict[str, Json] = {
            **head,
            "tip": self._tip_shown(str(head["commit"])) if head["commit"] else None,
            "index": sha256(self._git("ls-files", "-s", "-z", most=BLOB_MAX_BYTES)).hexdigest(),
            "unstaged": [*unstaged],
            "untracked": [*untracked],
            "submodules": [*submodules],
            "intended": [*intended],
            "merging": self._merging(),
            "files": self._files(files),
            "matched": self._matched(paths),
            "tracked": self._git("ls-files", "-z", *named, most=BLOB_MAX_BYTES).count(b"\0"),
            "means": self._meant(revision) if revision else None,
            **self._refs(),
        }
        return Reading.of(value)

    def _tip_of_head(self) -> Reading:
        from hashlib import sha256

        head = self._head()
        assert isinstance(head.value, dict)
        commit = str(head.value["commit"] or "")
        shown = self._tip_shown(commit) if commit else {}
        more: dict[str, Json] = {
            "tip": {**shown, **self._made(commit, shown)} if commit else None,
            "index": sha256(self._git("ls-files", "-s", "-z", most=BLOB_MAX_BYTES)).hexdigest(),
            "unstaged": _names(self._git("diff-files", "--name-only", "-z", most=BLOB_MAX_BYTES)),
            "merging": self._merging(),
            "hooks": _hooks(self._here.hooks),
        }
        return Reading.of({**head.value, **more}, version=head.version)

    def _made(self, commit: str, shown: Mapping[str, Json]) -> dict[str, Json]:
        """Return the times of a commit, from its bytes, and the changed paths."""
        first = [str(each) for each in _texts(shown["parents"])[:1]]
        asked = ("diff-tree", "-r", "-z", "--root", "--no-commit-id", "--name-only", "--no-renames", *first, commit)
        changed = _names(self._git(*asked, most=BLOB_MAX_BYTES))
        head = self._git("cat-file", "commit", commit).partition(b"\n\n")[0]
        times = {name: int(at) for name, at in _MADE.findall(head.decode(errors="replace"))}
        return {
            "authored_s": times["author"],
            "committed_s": times["committer"],
            "changed": changed if len(changed) <= PATHS_SHOWN_MAX else None,
        }

    def _merging(self) -> Json:
        named = self._git("rev-parse", "--git-path", "MERGE_HEAD").decode(errors="surrogateescape").rstrip("\n")
        try:
            with open(os.path.join(self._repository, named), encoding="ascii", errors="replace") as file:
                return [*file.read(MERGING_MAX_CHARS).split()]
        except FileNotFoundError:
            return []

    def _matched(self, paths: Sequence[str]) -> bool:
        """Return whether each path means a tracked or addable file. A text with a leading colon is not a plain path."""
        plain = [path for path in paths if not path.startswith(":")]
        try:
            if plain:
                known = ("--cached", "--others", "--exclude-standard", "--error-unmatch")
                self._git("ls-files", *known, "-z", "--", *plain, most=BLOB_MAX_BYTES)
        except _RefusedError:
            return False
        return True

    def _files(self, paths: Sequence[str]) -> str:
        """Return one digest of the content at these paths: bytes of files, or size and time of large files."""
        from hashlib import sha256

        top = self._git("rev-parse", "--show-toplevel").decode(errors="surrogateescape").rstrip("\n")
        digest, left = sha256(), BLOB_MAX_BYTES
        for path in sorted(set(paths)):
            what, size = _lying(os.path.join(top, path), left)
            left -= size
            digest.update(f"{path}\0{what}\0".encode(errors="surrogateescape"))
        return digest.hexdigest()

    def _tip_shown(self, commit: str) -> dict[str, Json]:
        head, _, message = self._git("cat-file", "commit", commit).decode(errors="replace").partition("\n\n")
        lines = [line.split(" ", 1) for line in head.split("\n") if not line.startswith(" ")]
        parents: list[Json] = [value for key, value in lines if key == "parent"]
        tree = next(value for key, value in lines if key == "tree")
        return {"parents": parents, "tree": tree, "message": message}

    def _meant(self, revision: str) -> Json:
        try:
            named = f"{revision}^{{commit}}"
            return self._git("rev-parse", "--verify", "--quiet", "--end-of-options", named).decode().strip()
        except (_RefusedError, ValueError):
            return None

    def _refs(self) -> dict[str, Json]:
        """Return branches, tags and remote branches by name.

        An annotated tag gives its commit. A branch gives its own object: a branch with a tag object is broken, and git
        commits nothing on the branch.
        """
        rooms = {"refs/heads/": "branches", "refs/tags/": "tags", "refs/remotes/": "remotes"}
        found: dict[str, dict[str, Json]] = {room: {} for room in rooms.values()}
        listed = self._git("for-each-ref", "--format=%(refname) %(objectname) %(*objectname)", *rooms)
        for line in listed.decode(errors="replace").split("\n")[:-1]:
            ref, commit, meant = line.split(" ", 2)
            start = next(each for each in rooms if ref.startswith(each))
            found[rooms[start]][ref.removeprefix(start)] = meant if meant and start == "refs/tags/" else commit
        return {**found}

    def _remote(self, remote: str, branch: str) -> Reading:
        if _REMOTE.fullmatch(remote) is None:
            raise UsageError(f"{remote!r} is not a remote of the repository.")
        ref = f"refs/heads/{self._named(branch)}"
        try:  # git takes an unconfigured name as a folder, for example in the working tree
            self._git("config", "--get-all", f"remote.{remote}.url")
        except _RefusedError as error:
            raise _RefusedError(f"the repository has no address for the remote {remote!r}") from error
        found = (
            self._git("ls-remote", "--upload-pack=git-upload-pack", "--", remote, ref)
            .decode(errors="replace")
            .split("\n")
        )
        tips = [line.split("\t")[0] for line in found if line.endswith(f"\t{ref}")]
        if not tips:
            return Reading.absent()
        return Reading.of({"remote": remote, "branch": branch, "commit": tips[0]}, version=tips[0])

    def _tip(self, branch: str) -> str:
        """Return the branch's commit, or "" where a readable repository has no such branch."""
        ref = f"refs/heads/{self._named(branch)}"
        listed, said = self._answered("for-each-ref", "--format=%(refname) %(objectname)", ref)
        if f"{_PASSED_OVER} {ref}".encode() in said.split(b"\n"):
            raise _RefusedError(f"the branch {branch!r} of the repository is broken")
        lines = listed.decode(errors="replace").split("\n")
        return next((line.split(" ")[1] for line in lines if line.split(" ")[0] == ref), "")

    def _named(self, branch: str) -> str:
        if _BRANCH.fullmatch(branch) is None:
            raise ReaderTypeError(f"{branch!r:.80} cannot be the name of a branch.")
        return branch

    def _inside(self, path: str) -> str:
        """Raises SandboxEscapeError for a path outside the repository, or for text that is no path."""
        steps = path.split("/")
        if not path or "\0" in path or path.startswith("/") or any(step in ("", ".", "..") for step in steps):
            raise SandboxEscapeError(f"{path!r:.200} is not a path within the repository of {self.name!r}.")
        return path

    def _git(self, *args: str, most: int = PAYLOAD_MAX_BYTES) -> bytes:
        """Raises _RefusedError, TimeoutError, OSError."""
        return self._answered(*args, most=most)[0]

    def _answered(self, *args: str, most: int = PAYLOAD_MAX_BYTES) -> tuple[bytes, bytes]:
        """Return git's standard output and standard error."""
        command = ["git", *_SETTINGS, "-C", self._repository, *args]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._here.environment,
            start_new_session=True,  # so that git's transports are killed too
        )
        try:
            out, said = process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(f"git {args[0]} took over {self._timeout_s:g} s") from late
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode:
            lines = said.decode(errors="replace").strip().splitlines()
            raise _RefusedError(f"git {args[0]} ended with {process.returncode}: {lines[-1] if lines else ''}"[:300])
        if len(out) > most:
            raise ReaderTypeError(f"git {args[0]} of {self.name!r} printed over {most} bytes.")
        return out, said


def _worktree(listed: bytes) -> tuple[list[str], list[str], list[str], list[str]]:
    """Parse `status --porcelain=v2 -z`.

    Returns changed paths, untracked paths, the submodules among the changed paths, and paths only marked to be added.
    """
    unstaged: list[str] = []
    untracked: list[str] = []
    submodules: list[str] = []
    intended: list[str] = []
    for entry in listed.decode(errors="replace").split("\0"):
        kind, _, rest = entry.partition(" ")
        if kind == "1" and rest[1] != ".":
            unstaged.append(rest.split(" ", 7)[7])
            if rest.split(" ", 2)[1].startswith("S"):
                submodules.append(unstaged[-1])
            if rest[1] == "A":
                intended.append(unstaged[-1])
        elif kind == "u":
            unstaged.append(rest.split(" ", 9)[9])
        elif kind == "?":
            untracked.append(rest.rstrip("/"))  # a nested repository; once added, its name has no slash
    return unstaged, untracked, submodules, intended


def _names(listed: bytes) -> list[Json]:
    return [*dict.fromkeys(each.decode(errors="replace") for each in listed.split(b"\0") if each)]


def _hooks_folder(settings: Sequence[tuple[str, tuple[str, str]]], common: str, top: str) -> str:
    """Return git's hooks folder. The last setting counts; a relative path starts at the top of the working tree."""
    named = [value for scope, (name, value) in settings if name == "core.hookspath" and scope != "command"]  # not ours
    return os.path.join(top, os.path.expanduser(named[-1])) if named else os.path.join(common, "hooks")


def _hooks(folder: str) -> list[Json]:
    """Return the executable hooks that may change a commit."""
    return [name for name in COMMIT_HOOKS if os.access(os.path.join(folder, name), os.X_OK)]


def _texts(paths: Json) -> list[str]:
    return [str(each) for each in paths] if isinstance(paths, list) else []


def _lying(path: str, most: int) -> tuple[str, int]:
    """Return the kind of the object at a path, and the number of bytes read (at most `most`)."""
    try:
        seen = os.lstat(path)
        if modes.S_ISLNK(seen.st_mode):
            return f"link to {os.readlink(path)}", 0
        if not modes.S_ISREG(seen.st_mode):
            return f"no file: {modes.S_IFMT(seen.st_mode):o}", 0
        rights = seen.st_mode & modes.S_IXUSR
        if seen.st_size > most:
            return f"{rights:o} {seen.st_size} {seen.st_mtime_ns}", 0
        from hashlib import sha256

        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return f"{rights:o} {sha256(file.read(seen.st_size + 1)).hexdigest()}", seen.st_size
    except (FileNotFoundError, NotADirectoryError):
        return "nothing", 0


def _environment(repository: str) -> Mapping[str, str]:
    """Return an environment without replacements and grafts, where a repository would show other objects than its
    commits name.

    Where the folder is a repository of its own, the environment also excludes an outer repository: git would use the
    outer repository if the inner is broken.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    as_named = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
    if os.path.lexists(os.path.join(repository, ".git")) or _is_bare(repository):
        as_named["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.realpath(repository))
    return {**kept, **as_named, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def _is_bare(folder: str) -> bool:
    rooms = all(os.path.isdir(os.path.join(folder, room)) for room in ("objects", "refs"))
    return rooms and os.path.isfile(os.path.join(folder, "config"))
