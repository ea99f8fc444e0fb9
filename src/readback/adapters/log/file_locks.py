"""Short locks on files and folders, exclusive or shared.

The file anchor, the folder of a log of checkpoints and the log's key use these locks. The end of a process releases its
locks.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

HELD_MS_MAX: Final = 5_000
"""Milliseconds to wait for a lock. A stopped process holds a lock forever."""
HELD_PAUSE_MS: Final = 20
NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})


@contextmanager
def held_folder(folder: Path) -> Iterator[int]:
    """Open and lock a folder. Raises BlockingIOError after a long wait, or the system's error."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _hold(handle, fcntl.LOCK_EX, HELD_MS_MAX)
        yield handle
    finally:
        _let_go(handle)


@contextmanager
def held_file(path: Path, *, alone: bool) -> Iterator[None]:
    """Lock the file at a name, also after replacements of the file. A lock that is not `alone` does not wait.

    File systems without such locks grant every lock. Raises BlockingIOError where another process holds the lock, or
    the system's error.
    """
    while True:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            try:
                _hold(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, HELD_MS_MAX if alone else 0)
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
            if os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False)):
                yield
                return
        finally:
            _let_go(handle)


def _hold(handle: int, how: int, patience_ms: int) -> None:
    pause = threading.Event()
    for left in reversed(range(max(patience_ms // HELD_PAUSE_MS, 1))):
        try:
            return fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if not left:
                raise
        pause.wait(HELD_PAUSE_MS / 1000)
    raise AssertionError("the last try locks or raises")


def _let_go(handle: int) -> None:
    """Unlock explicitly: a forked child has the file open, too."""
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)
