"""The area of staged changes, beside the folder and never inside, and the locks of live processes.

Workspaces, whole files and recovery use the area. Each place is locked by its process, and the system releases the lock
at every kind of process end. An unlocked place belongs to a dead process.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.context import Context
from readback.errors import UsageError

RECORDS_MAX: Final = 10_000
"""Maximum recorded ends of attempts. The oldest are forgotten first."""
INSIDE: Final = ".readback-staging"
"""The area within the folder, where no area beside it is possible."""
_HOME, _TEMPORARY, _RECORDS, _ALIVE = "work-", "file-", "records", "alive"


@dataclass(slots=True)
class Home:
    """A place of one workspace, ours while the lock is held."""

    path: str
    lock: int

    def close(self) -> None:
        """Release the lock without removing anything."""
        os.close(self.lock)


class Area:
    """The staging area of one folder: `staging`, or beside the folder on the same file system."""

    def __init__(self, root: str | Path, staging: str | Path | None) -> None:
        self._root = os.fspath(root)
        self._given = None if staging is None else os.path.abspath(os.fspath(staging))

    @property
    def path(self) -> str:
        """The present or future place of the area."""
        return self._given if self._given is not None else self._candidates()[0]

    def _candidates(self) -> list[str]:
        root = os.path.realpath(self._root)
        above, name = os.path.split(root)
        within = os.path.join(root, INSIDE)
        with suppress(OSError):
            same = os.stat(above).st_dev == os.stat(root).st_dev
            if name and same and os.access(above, os.W_OK | os.X_OK):
                return [os.path.join(above, f".readback-{name}"), within]
        return [within]

    # --- the lock of the area -----------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[str]:
        """Lock the area for one process to begin, move into place, or clean up. Yields the path. An empty area is
        removed.
        """
        path = self.path
        handle = self._locked(path)
        try:
            yield path
        finally:
            with suppress(OSError):  # Not empty: keep the area.
                os.rmdir(path)
            os.close(handle)

    def _locked(self, path: str) -> int:
        device = os.stat(self._root).st_dev
        while True:
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
            with suppress(FileNotFoundError):  # Removed by the previous owner.
                handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                if self._held(path, handle, device):
                    return handle

    def _held(self, path: str, handle: int, device: int) -> bool:
        """Return whether the folder is locked and still bears its name. Otherwise the folder is closed."""
        try:
            if os.fstat(handle).st_dev != device:
                raise UsageError(
                    f"{path!r} lies on another file system than {self._root!r}.",
                    remedy="Pass a `staging` folder on the same one: only there is a move one step.",
                )
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.stat(path).st_ino == os.fstat(handle).st_ino:
                return True
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        return False

    @property
    def exists(self) -> bool:
        """Return whether the area may hold leftovers."""
        return os.path.isdir(self.path)

    # --- places of workspaces -----------------------------------------------------------------------------------

    def begin(self) -> Home:
        """Make a fresh place, locked before any other process can see it."""
        with self.locked() as path:
            home = tempfile.mkdtemp(prefix=_HOME, dir=path)
            os.mkdir(os.path.join(home, "new"))
            os.mkdir(os.path.join(home, "old"))
            lock = os.open(os.path.join(home, _ALIVE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
        return Home(home, lock)

    def orphans(self, path: str) -> Iterator[Home]:
        """Yield places of dead processes. Call with the area locked."""
        for entry in sorted(os.listdir(path)):
            if not entry.startswith((_HOME, _TEMPORARY)):
                continue
            whole = os.path.join(path, entry)
            named = os.path.join(whole, _ALIVE) if entry.startswith(_HOME) else whole
            try:
                lock = os.open(named, os.O_RDWR | os.O_CREAT * entry.startswith(_HOME) | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            if entry.startswith(_HOME):
                yield Home(whole, lock)
            else:
                os.unlink(whole)
                os.close(lock)

    def drop(self, home: Home, path: str) -> None:
        """Remove a place with its content. Raises OSError for remaining content."""
        shutil.rmtree(home.path)
        sync(path)
        home.close()

    def temporary(self, path: str, file: int) -> str:
        """Give a nameless file a temporary name here, locked by us, immediately before the file takes its own name."""
        fcntl.flock(file, fcntl.LOCK_EX)
        name = f"{_TEMPORARY}{os.getpid()}-{os.fstat(file).st_ino}"
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # With an open folder: only then is the link in /proc followed.
            os.link(f"/proc/self/fd/{file}", name, dst_dir_fd=folder, follow_symlinks=True)
        finally:
            os.close(folder)
        return os.path.join(path, name)

    def named(self, path: str) -> tuple[int, str]:
        """Make a new named file here, for systems without nameless files."""
        file, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=path)
        fcntl.flock(file, fcntl.LOCK_EX)
        return file, name

    # --- what became of an attempt ------------------------------------------------------------------------------

    def record(self, path: str, action: str, attempt: int) -> dict[str, object] | None:
        """Return the recorded end of this attempt."""
        try:
            with open(self._record(path, action, attempt), encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            return None
        return found if isinstance(found, dict) else None

    def remember(self, path: str, state: str, action: str, attempt: int) -> None:
        """Record durably how this attempt ended. The end is final."""
        folder = os.path.join(path, _RECORDS)
        with suppress(FileExistsError):
            os.mkdir(folder)
        write_durably(self._record(path, action, attempt), {"state": state, "action": action, "attempt": attempt})
        self._forget(folder)

    def _record(self, path: str, action: str, attempt: int) -> str:
        return os.path.join(path, _RECORDS, f"{sha256(action.encode()).hexdigest()[:40]}-{attempt}.json")

    def _forget(self, folder: str) -> None:
        names = os.listdir(folder)
        if len(names) <= RECORDS_MAX:
            return
        aged = sorted(names, key=lambda name: os.stat(os.path.join(folder, name)).st_mtime_ns)
        for name in aged[: len(names) - RECORDS_MAX]:
            os.unlink(os.path.join(folder, name))


def write_durably(path: str, content: dict[str, object]) -> None:
    """Write the whole content under that name, or leave the old content, even in a crash."""
    beside = path + ".tmp"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    sync(os.path.dirname(path))


def sync(folder: str) -> None:
    """Make the folder's renames survive a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def attempt_of(ctx: Context) -> tuple[str, int]:
    """Return the identity of an attempt in a record. The key is not part: an action that takes over a key has its own
    attempts.
    """
    return ctx.action_id, ctx.attempt
