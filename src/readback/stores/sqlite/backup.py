"""Copies of a ledger file: a backup during writes, and a restored file at the ledger's path.

Called by `bootstrap`. A copy appears under its name complete and durable, or not at all, and never replaces a file. The
content is not checked here: audit.maintenance.restore checks the copy before it is published.
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
"""4 MB between two progress reports."""
BYTES_AT_ONCE: Final = 4 * 1024 * 1024
BESIDE: Final = ("-wal", "-shm", "-journal")
"""Files of SQLite beside a database. They are part of the database while present."""
Progress = Callable[[int, int], None]
"""Called with the completed amount and the total."""


def copy_ledger(source: Path, out: Path, busy_timeout_ms: int, progress: Progress) -> None:
    """Write the ledger at one moment to a separate file. Other processes may write meanwhile.

    Raises BackupError if `out` exists or cannot be written, StoreError if the ledger cannot be read.
    """
    _refuse_taken(out, BackupError, "backup.exists", "Name another file: a backup never replaces a file.")
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
        copy.pragma("journal_mode", "OFF")  # an interrupted copy is deleted
        copy.pragma("synchronous", "OFF")  # the file is synced once at the end
        # One read transaction around the copy: concurrent commits are not included, and do not restart the copy.
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
    """Yield the URL of a copy of the backup beside the target, for checks and changes, and a function to publish the
    copy.

    An unpublished copy is deleted at the end. Raises RestoreError if the target exists, or if the backup is a ledger in
    use.
    """
    for suffix in ("", *BESIDE):
        taken = Path(f"{target}{suffix}")
        said = "Move the existing ledger with all its files once no process uses it. Nothing is overwritten."
        _refuse_taken(taken, RestoreError, "restore.exists", said)
    with_log = Path(f"{os.path.realpath(backup)}-wal")  # beside the target of a link
    if with_log.exists() and with_log.stat().st_size:
        said = f"{backup} is no backup, but a ledger with a write-ahead log beside it."
        raise RestoreError(said, remedy="Take a backup of it with `readback ledger backup`.", code="restore.in-use")
    with _unfinished(target, RestoreError) as part:
        _copy_bytes(backup, part, progress)
        yield f"sqlite:///{quote(str(part))}", lambda: _put(part, target)


def _put(part: Path, target: Path) -> None:
    for suffix in BESIDE:
        with suppress(FileNotFoundError):
            os.unlink(f"{part}{suffix}")  # empty: the last user has closed the file
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
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # does not block at a pipe without writer


Kind = type[StoreError]


def _refuse_taken(path: Path, kind: Kind, code: str, remedy: str) -> None:
    if os.path.lexists(path):
        raise kind(f"{path} is there already.", remedy=remedy, code=code)


@contextmanager
def _unfinished(out: Path, kind: Kind) -> Iterator[Path]:
    """Yield a temporary empty file beside `out`, owned by this process and deleted at the end."""
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
    """Rename the finished file, unless the name was taken meanwhile."""
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
    """Reserve the name by an empty file, to be replaced by the whole file. A copy on a full disk would be partial."""
    os.close(os.open(out, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        os.replace(part, out)
    except OSError:
        with suppress(OSError):
            os.unlink(out)
        raise


def _why(error: apsw.Error) -> str:
    """Return the reason for a failed copy. Some errors have only SQLite's text for success (a file-size limit)."""
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
    return kind(message, remedy="Check the folder, its permissions and its space.", code=code)
