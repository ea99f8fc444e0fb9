"""Files and folders that processes hold for a moment, alone or together with others of their kind.

Used by the anchor in a file, the folder of a log of checkpoints and the log's key. A process that dies lets go.
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
"""So long somebody else may hold it: a process that was stopped in the middle holds it for ever."""
HELD_PAUSE_MS: Final = 20
NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})


@contextmanager
def held_folder(folder: Path) -> Iterator[int]:
    """The folder, open. Raises BlockingIOError where somebody else holds it for too long, else what the system says."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _hold(handle, fcntl.LOCK_EX, HELD_MS_MAX)
        yield handle
    finally:
        _let_go(handle)


@contextmanager
def held_file(path: Path, *, alone: bool) -> Iterator[None]:
    """The file that has this name while it is held, whoever replaces it. Who does not want it `alone` does not wait.

    Where the file system has no such locks nobody is held up. Raises BlockingIOError where somebody else holds it, else
    what the system says.
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
    """Said in so many words: a child that was forked meanwhile has it open, too."""
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)
