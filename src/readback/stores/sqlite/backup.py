"""Copies of a ledger's file: one taken while others write, and one put where a ledger is to stand.

Called by `bootstrap`. A copy appears under its name whole and on the disk, or not at all, and never in place of
anything. It checks nothing of what a ledger says: lifecycle.keeping.restore does, on the copy that is then put there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from readback.errors import BackupError, RestoreError, StoreError
from readback.stores.sqlite.connect import Opening, is_overtaken, overtaken_error

PAGES_AT_ONCE: Final = 1_024
"""4 MB between two words on progress."""
BYTES_AT_ONCE: Final = 4 * 1024 * 1024
BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database: part of it while it is there."""
Progress = Callable[[int, int], None]
"""Called with how much is done, and how much there is."""


def copy_ledger(source: Path, out: Path, busy_timeout_ms: int, progress: Progress) -> None:
    """The ledger as it is at one moment, as a file of its own. Others may go on writing meanwhile.

    Raises BackupError where `out` is there already or cannot be written, StoreError where the ledger cannot be read.
    """
    _refuse_taken(out, BackupError, "backup.exists", "Name another file; a backup takes no other one's place.")
    reader = Opening(source, read_only=True, busy_timeout_ms=busy_timeout_ms, pages_max=0).first_reader()
    try:
        with _unfinished(out, BackupError) as part:
            try:
                _copy_pages(reader, part, progress)
            except apsw.Error as error:
                why = "there is no space left" if isinstance(error, apsw.FullError) else _why(error)
                raise _failed(BackupError, "backup.failed", f"The backup {out} cannot be written ({why}).") from error
            if is_overtaken(reader):
                raise overtaken_error(source)
            _publish(part, out, BackupError)
    finally:
        reader.close()


def _copy_pages(reader: apsw.Connection, part: Path, progress: Progress) -> None:
    copy = apsw.Connection(str(part))
    try:
        copy.pragma("journal_mode", "OFF")  # a copy that was broken off is thrown away
        copy.pragma("synchronous", "OFF")  # it is synced once, as a whole
        # One read transaction round all of it: what others commit meanwhile is not in it, and restarts nothing.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        with copy.backup("main", reader, "main") as backup:
            while not backup.done:
                backup.step(PAGES_AT_ONCE)
                progress(backup.page_count - backup.remaining, backup.page_count)
        reader.execute("COMMIT")
    finally:
        copy.close()


@contextmanager
def standing_by(backup: Path, target: Path, progress: Progress) -> Iterator[tuple[str, Callable[[], None]]]:
    """The URL of a copy of the backup beside the target, to be looked at and changed; and what puts it in place.

    It is gone at the end where it was not put in place. Raises RestoreError where something stands at the target, or
    the backup is a ledger that somebody uses.
    """
    for suffix in ("", *BESIDE):
        taken = Path(f"{target}{suffix}")
        said = "Move what is there away, all of its files, when nobody uses it any more; nothing is overwritten."
        _refuse_taken(taken, RestoreError, "restore.exists", said)
    with_log = Path(f"{os.path.realpath(backup)}-wal")  # it lies beside what a link names
    if with_log.exists() and with_log.stat().st_size:
        said = f"{backup} is no backup, but a ledger with a write-ahead log beside it."
        raise RestoreError(said, remedy="Take a backup of it with `readback ledger backup`.", code="restore.in-use")
    with _unfinished(target, RestoreError) as part:
        _copy_bytes(backup, part, progress)
        yield f"sqlite:///{quote(str(part))}", lambda: _put(part, target)


def _put(part: Path, target: Path) -> None:
    for suffix in BESIDE:
        with suppress(FileNotFoundError):
            os.unlink(f"{part}{suffix}")  # empty: whoever had it open has closed it
    _publish(part, target, RestoreError)


def _copy_bytes(backup: Path, part: Path, progress: Progress) -> None:
    try:
        with open(backup, "rb", opener=_not_waiting) as source, open(part, "wb") as copy:
            found = os.fstat(source.fileno())
            total = found.st_size
            if not stat.S_ISREG(found.st_mode) or not total:
                said = f"{backup} is no backup: it is {'empty' if stat.S_ISREG(found.st_mode) else 'no plain file'}."
                raise RestoreError(said, remedy="Take another backup.", code="restore.damaged")
            while chunk := source.read(BYTES_AT_ONCE):
                copy.write(chunk)
                progress(copy.tell(), total)
            copy.flush()
            os.fsync(copy.fileno())
    except OSError as error:
        raise _failed(RestoreError, "restore.failed", f"{backup} cannot be copied ({error.strerror}).") from error


def _not_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # for a pipe that nobody writes


Kind = type[StoreError]


def _refuse_taken(path: Path, kind: Kind, code: str, remedy: str) -> None:
    if os.path.lexists(path):
        raise kind(f"{path} is there already.", remedy=remedy, code=code)


@contextmanager
def _unfinished(out: Path, kind: Kind) -> Iterator[Path]:
    """An empty file of this process's own beside `out`, which nobody takes for it, and which does not stay."""
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise _failed(kind, f"{kind.code}.failed", f"{part} cannot be made ({error.strerror}).") from error
    try:
        yield part
    finally:
        for suffix in ("", *BESIDE):
            with suppress(FileNotFoundError):
                os.unlink(f"{part}{suffix}")


def _publish(part: Path, out: Path, kind: Kind) -> None:
    """The finished file under its name, unless something has taken that name meanwhile."""
    try:
        _sync(part, os.O_RDWR)
        try:
            os.link(part, out)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            _take_name(part, out)
        _sync(out.parent, os.O_RDONLY)
    except FileExistsError as error:
        raise kind(f"{out} is there already.", code=f"{kind.code}.exists") from error
    except OSError as error:
        raise _failed(kind, f"{kind.code}.failed", f"{out} cannot be written ({error.strerror}).") from error


def _take_name(part: Path, out: Path) -> None:
    """The name is taken by an empty file, which the whole one replaces: a copy that a full disk ends would be half."""
    os.close(os.open(out, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        os.replace(part, out)
    except OSError:
        with suppress(OSError):
            os.unlink(out)
        raise


def _why(error: apsw.Error) -> str:
    """A copy's own errors have no words but SQLite's for success: a file over its file system's limit is one."""
    said = str(error)
    if said != "not an error":
        return said
    return str(apsw.mapping_extended_result_codes.get(getattr(error, "extendedresult", 0), type(error).__name__))


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(kind: Kind, code: str, message: str) -> StoreError:
    return kind(message, remedy="Look at the folder, its rights and its space.", code=code)
