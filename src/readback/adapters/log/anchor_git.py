"""An anchor in a git repository: each checkpoint is a commit on a branch, pushed if the URL says so.

Chosen by bootstrap for `git+file:` URLs: `git+file:///path/to/repository?file=NAME&push=REMOTE#BRANCH`. The anchor runs
the machine's `git` without hooks or a working tree. The branch moves only from the parent of the new commit.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from readback.domain.verification.observation_signs import one_line
from readback.errors import AnchorError, SettingsError
from readback.log.note import NOTE_MAX_BYTES
from readback.ports.anchor import Proof

FILE_DEFAULT: Final = "checkpoint"
BRANCH_DEFAULT: Final = "readback"
TIMEOUT_SECONDS: Final = 10.0
WHO: Final = "readback"
MAIL: Final = "readback@localhost"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9][A-Za-z0-9._-]{0,99}){0,4}")


def git_anchor(url: str) -> GitAnchor:
    """Return the anchor of a `git+file:` URL. Raises SettingsError."""
    parts = urlsplit(url)
    asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    repository = Path(unquote(parts.path))
    file, push = asked.pop("file", FILE_DEFAULT), asked.pop("push", "")
    branch = unquote(parts.fragment) or BRANCH_DEFAULT
    names = [file, branch, *([push] if push else [])]
    plain = all(_NAME.fullmatch(name) and ".." not in name and not name.endswith(".lock") for name in names)
    odd = asked or parts.netloc or "/" in file or "/" in push or "\0" in str(repository)
    if parts.scheme != "git+file" or not repository.is_absolute() or odd or not plain:
        raise SettingsError(
            f"The anchor {url!r} names no branch of a repository.",
            remedy="Write git+file:///absolute/repository?file=checkpoint&push=origin#branch.",
        )
    return GitAnchor(url, repository, file, branch, push)


class GitAnchor:
    """Implements `Anchor`. `push`: a remote whose branch then counts, or ""."""

    __slots__ = ("_branch", "_file", "_push", "_repository", "name")

    def __init__(self, name: str, repository: Path, file: str, branch: str, push: str) -> None:
        self.name = name
        self._repository, self._file, self._branch, self._push = repository, file, branch, push

    @property
    def shows(self) -> bool:
        return True

    def last(self) -> bytes | None:
        commit = self._tip()
        if not commit:
            return None
        found = self._git("ls-tree", "-z", commit, "--", self._file)
        if not found:
            return None
        blob = found.split(b"\t")[0].split()[-1].decode()
        if int(self._git("cat-file", "-s", blob)) > NOTE_MAX_BYTES:
            raise AnchorError(f"What {self.name} keeps is no checkpoint: it is over {NOTE_MAX_BYTES} bytes.")
        return self._git("cat-file", "blob", blob)

    def take(self, note: bytes, size: int, proof: Proof) -> bytes:
        parent = self._tip()
        blob = self._git("hash-object", "-w", "--stdin", given=note).decode().strip()
        tree = self._tree(parent, blob)
        above = ("-p", parent) if parent else ()
        message = f"Checkpoint of {size} entries\n".encode()
        commit = self._git("commit-tree", tree, *above, given=message).decode().strip()
        if self._push:
            self._git("push", "--quiet", self._push, f"{commit}:refs/heads/{self._branch}")
        self._git("update-ref", f"refs/heads/{self._branch}", commit, *([] if self._push else [parent or "0" * 40]))
        return b""

    def _tip(self) -> str:
        """Return the commit of the counting branch, or ""."""
        branch = f"refs/heads/{self._branch}"
        if self._push:
            commit = _commit_of(branch, self._git("ls-remote", "--heads", self._push, branch))
            if commit:
                self._git("fetch", "--quiet", "--no-tags", self._push, branch)
            return commit
        return _commit_of(branch, self._git("for-each-ref", "--format=%(objectname)%09%(refname)", branch))

    def _tree(self, parent: str, blob: str) -> str:
        """Return the parent's files with this file added."""
        kept = self._git("ls-tree", "-z", parent).split(b"\0") if parent else []
        lines = [line for line in kept if line and line.split(b"\t", 1)[1] != self._file.encode()]
        lines.append(f"100644 blob {blob}\t{self._file}".encode())
        return self._git("mktree", "-z", given=b"\0".join(lines) + b"\0").decode().strip()

    def _git(self, *args: str, given: bytes | None = None) -> bytes:
        command = ["git", "-c", "core.hooksPath=/dev/null", "-C", str(self._repository), *args]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                start_new_session=True,  # so that git's transports are killed too
            )
        except OSError as error:
            raise AnchorError(f"git cannot be run: {error.strerror}.", remedy="Install git.") from error
        try:
            out, said = process.communicate(given, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise AnchorError(f"git {args[0]} for {self.name} took over {TIMEOUT_SECONDS:.0f} seconds.") from error
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode:
            lines = said.decode(errors="replace").strip().splitlines()
            why = one_line(lines[-1]) if lines else process.returncode  # git names the remote and the login
            raise AnchorError(f"git {args[0]} for {self.name} failed: {why}.")
        return out


def _commit_of(branch: str, listed: bytes) -> str:
    """Return the commit of exactly this branch: git also matches the end of other names, in any order."""
    lines = (line.partition("\t") for line in listed.decode(errors="replace").splitlines())
    return next((commit for commit, _, name in lines if name == branch), "")


def _environment() -> Mapping[str, str]:
    """Return an environment without replacements and grafts, where an earlier checkpoint could replace the last."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    named = {"GIT_AUTHOR_NAME": WHO, "GIT_AUTHOR_EMAIL": MAIL, "GIT_COMMITTER_NAME": WHO, "GIT_COMMITTER_EMAIL": MAIL}
    as_named = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
    return {**kept, **named, **as_named, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
