"""A folder that one process at a time changes: whoever holds it finds it as he leaves it.

Used by the anchor in a file and by the folder of a log of checkpoints. A process that dies lets go of it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HELD_MS_MAX: Final = 5_000
"""So long the folder may be held by somebody else: a process that was stopped in the middle holds it for ever."""
HELD_PAUSE_MS: Final = 20


@contextmanager
def held(folder: Path) -> Iterator[int]:
    """The folder, open. Raises BlockingIOError where somebody else holds it for too long, else what the system says."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(handle)
        yield handle
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    pause = threading.Event()
    for left in reversed(range(HELD_MS_MAX // HELD_PAUSE_MS)):
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not left:
                raise
        pause.wait(HELD_PAUSE_MS / 1000)
    raise AssertionError("the last try locks or raises")
