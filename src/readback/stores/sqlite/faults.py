"""Translation of SQLite's errors into `readback.errors`.

Called at each access to the database. No retry is decided here: SQLite has already waited for a busy database.
"""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from readback.errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
)

HOLDERS_NAMED_MAX = 5
ROOM_BYTES_MIN = 64 * 1024
"""Space SQLite needs beside a database to open it: 32 KiB of shared memory, and a log."""


def as_store_error(error: apsw.Error, path: Path) -> StoreError:
    """Return the typed error for an SQLite error. The text names the file and the remedy."""
    said = f"{type(error).__name__}: {error}"
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return _locked(path, said)
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return StoreReadOnlyError(f"The database {path} cannot be written ({said}).")
        case apsw.FullError():
            return StoreFullError(f"There is no space left for the database {path} ({said}).")
        case apsw.IOError() if _is_full(path):  # the error of SQLite for its files beside the database
            return StoreFullError(f"There is no space left beside the database {path} ({said}).")
        case apsw.NotADBError():
            return StoreCorruptError(
                f"The file {path} is not an SQLite database, or its beginning was overwritten ({said})."
            )
        case apsw.CorruptError():
            return StoreCorruptError(f"The database {path} is damaged ({said}).")
        case apsw.CantOpenError():
            return StoreError(
                f"The database {path} cannot be opened ({said}).",
                remedy="Check that the path is right and that this user may read and write there.",
                code="store.cannot-open",
            )
        case apsw.IOError():
            return StoreError(
                f"The disk under {path} failed ({said}).",
                remedy="Check the volume and the system's log; then run `readback ledger verify`.",
                code="store.io",
            )
        case apsw.TooBigError() | apsw.MismatchError() | apsw.RangeError() | apsw.ConstraintError():
            return unstorable(said)
        case _:
            return StoreError(f"The database {path} could not be used ({said}).")


def unstorable(said: str) -> StoreError:
    """Return the error for a value the database refuses: the fault of this append, not of the store."""
    return StoreError(
        f"A value of this append cannot be stored ({said}); nothing of it was kept.",
        remedy="Report this error: values must be bounded before they reach the store.",
        code="store.value",
    )


def moved_error(path: Path, place: str) -> StoreError:
    """Return the error for an open database whose path now holds another file, or whose side files were replaced."""
    if place != str(path):
        return StoreError(
            f"{place}, which the database {path} needs while it is open, was moved, replaced or deleted. Nothing of"
            " this was kept.",
            remedy=(
                "Put it back, or else let each process that has the ledger open end by itself: the last one puts what"
                " the log held into the database. Then run `readback ledger verify`, and start them again."
            ),
            code="store.moved",
        )
    return StoreError(
        f"The database {path} was moved, replaced or deleted while it was open.",
        remedy="Restore the file with its -wal file, and restart this process.",
        code="store.moved",
    )


def forked_error(path: Path) -> StoreError:
    """SQLite does not survive fork(): locks are not inherited, and a shared connection damages the file."""
    return StoreError(
        f"The store {path} was opened before this process was forked and cannot be used in the child.",
        remedy="Open the store again in the child process.",
        code="store.forked",
    )


def _is_full(path: Path) -> bool:
    """Return whether the volume lacks room for SQLite's files beside the database."""
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return False
    return (found.f_bavail if os.geteuid() else found.f_bfree) * found.f_frsize < ROOM_BYTES_MIN


def _locked(path: Path, said: str) -> StoreLockedError:
    holders = _lock_holders(path)
    who = f" by process {', '.join(holders)}" if holders else " by another process"
    return StoreLockedError(
        f"The database {path} is locked{who} ({said}).",
        remedy="Wait for that process or end it, then run `readback resume`. Nothing was changed.",
        details={"path": str(path), "holders": tuple(holders)},
    )


def _lock_holders(path: Path) -> list[str]:
    """Return pids with a write lock on the database, as far as the kernel shows them to this user."""
    inodes = set()
    for suffix in ("", "-shm"):
        try:
            inodes.add(str(os.stat(f"{path}{suffix}").st_ino))
        except OSError:
            continue
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    found: list[str] = []
    for line in lines:
        # "1: POSIX  ADVISORY  WRITE 1234 fe:00:5678 120 120"; waiting ones have "->" in the second place.
        fields = line.split()
        if len(fields) >= 6 and fields[3] == "WRITE" and fields[5].rpartition(":")[2] in inodes:
            pid = fields[4]
            if pid not in (*found, str(os.getpid())) and pid != "-1":
                found.append(pid)
    return found[:HOLDERS_NAMED_MAX]
