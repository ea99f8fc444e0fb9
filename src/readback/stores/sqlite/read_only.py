"""A ledger that this user may not write, looked at without leaving anything beside it, and without missing anything.

Called by `opening` and by whoever reads. SQLite makes a log and its shared memory beside a file for whoever only looks,
too. Who may not write there cannot; and where he may write the folder alone, both would be his, and the ledger's own
processes could not write them any more. So a file that has no log beside it is read as it lies there, and what was read
counts only where the file is as it was and still has no log. One that has a log is read with it, or not at all.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

import apsw

from readback.domain.errors import StoreError

LOOKS_MAX: Final = 5
"""So often is looked again where the ledger is written in the very moment in which it is looked at."""
_LOGS: Final = ("-wal", "-journal")
_As: TypeAlias = tuple[int, int, int, int, int]


class Resting(apsw.Connection):
    """Reads a file as it lies there: SQLite locks nothing, and would not notice that it is written."""

    def __init__(self, path: Path, seen: _As) -> None:
        super().__init__(_uri(path, "immutable=1"), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        self._path, self._seen = path, seen

    def overtaken(self) -> bool:
        """Whether the file may have been written since it was opened: what was read of it may be anything then."""
        return at_rest(self._path) != self._seen


def bystander(path: Path) -> apsw.Connection:
    """A connection for a user who may not write the ledger; nothing is made for it."""
    seen = at_rest(path)
    if seen is not None:
        return Resting(path, seen)
    return apsw.Connection(_uri(path, "readonly_shm=1"), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def is_overtaken(connection: apsw.Connection) -> bool:
    """Whether what this connection has read counts for nothing; a new one sees what is there now."""
    return isinstance(connection, Resting) and connection.overtaken()


def may_write(path: Path) -> bool:
    """Whether this user may write the ledger and what SQLite keeps beside it."""
    path = Path(os.path.realpath(path))
    effective = os.access in os.supports_effective_ids
    return os.access(path, os.W_OK, effective_ids=effective) and os.access(
        path.parent, os.W_OK | os.X_OK, effective_ids=effective
    )


def at_rest(path: Path) -> _As | None:
    """How the file lies there; None where it is gone, or a log beside it holds what is not in it, or may not be."""
    real = os.path.realpath(path)  # SQLite's logs stand beside what a link names
    try:
        found = os.stat(real)
    except OSError:
        return None
    for suffix in _LOGS:
        try:
            if os.stat(real + suffix).st_size:
                return None
        except FileNotFoundError:
            continue
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def unseen_error(path: Path, said: str) -> StoreError:
    """For a log that cannot be read, or not without writing: what it holds would be missing."""
    log = f"{os.path.realpath(path)}-wal"
    return StoreError(
        f"The newest entries of the ledger {path} are in {log} alone, and this user cannot look at them ({said}).",
        remedy=(
            "Have a user who may write it open it once (`readback resume`), which puts all of it into the file; or,"
            " while nobody uses it, copy both files into a folder of your own and look at the copy. Where it is in use,"
            " ask for the right to read what stands beside it (-wal, -shm)."
        ),
        code="store.cannot-open",
    )


def overtaken_error(path: Path) -> StoreError:
    """For a ledger that is written again and again in the moment in which it is looked at."""
    return StoreError(
        f"The ledger {path} was written each time while it was looked at; nothing of what was read counts.",
        remedy="Look again, or ask for the right to write the ledger's folder: then looking takes a snapshot.",
        code="store.locked",
    )


def _uri(path: Path, how: str) -> str:
    return f"file:{quote(os.fsencode(path))}?{how}"
