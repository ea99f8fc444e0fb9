"""Opens an SQLite file as a ledger, with checks before first use.

Called by the store at opening, for the writer and for each reader. Unknown schemas are refused, and foreign files never
changed.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

import apsw

from readback.canon.frozen import dataclass
from readback.contracts.documents.own_files import LEDGER_ENDINGS, keep
from readback.errors import (
    SqliteTooOldError,
    StoreCorruptError,
    StoreError,
    StoreReadOnlyError,
    StoreVersionError,
)
from readback.stores.sqlite.faults import as_store_error
from readback.stores.sqlite.schema import APPLICATION_ID, migrate, pending

# Reads a ledger without write permission, complete and without creating files beside the ledger.

LOOKS_MAX: Final = 5
"""Most attempts to read a ledger that is written during the read."""
_LOGS: Final = ("-wal", "-journal")
_As: TypeAlias = tuple[int, int, int, int, int]


class Resting(apsw.Connection):
    """Reads a file in its present form. SQLite takes no locks, and would not notice a write."""

    def __init__(self, path: Path, seen: _As) -> None:
        super().__init__(_uri(path, "immutable=1"), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        self._path, self._seen = path, seen

    def overtaken(self) -> bool:
        """Return whether the file may have been written since opening. Earlier results are invalid then."""
        return at_rest(self._path) != self._seen


def bystander(path: Path) -> apsw.Connection:
    """Return a connection for a user without write permission. No file is created."""
    seen = at_rest(path)
    if seen is not None:
        return Resting(path, seen)
    return apsw.Connection(_uri(path, "readonly_shm=1"), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def is_overtaken(connection: apsw.Connection) -> bool:
    """Return whether all results of this connection are invalid. A new connection sees the present content."""
    return isinstance(connection, Resting) and connection.overtaken()


def may_write(path: Path) -> bool:
    """Return whether this user may write the ledger and SQLite's files beside it."""
    path = Path(os.path.realpath(path))
    effective = os.access in os.supports_effective_ids
    return os.access(path, os.W_OK, effective_ids=effective) and os.access(
        path.parent, os.W_OK | os.X_OK, effective_ids=effective
    )


def at_rest(path: Path) -> _As | None:
    """Return the file's present state. None if the file is gone, or if a log beside it may hold further content."""
    real = os.path.realpath(path)  # SQLite's logs are beside the target of a link
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
    """Return the error for a log this user cannot read, or not without writing. Its content would be missing."""
    log = f"{os.path.realpath(path)}-wal"
    return StoreError(
        f"The newest entries of the ledger {path} are in {log} alone, and this user cannot read them ({said}).",
        remedy=(
            "Run `readback resume` as a user with write access: the log is then written into the file. While no process"
            " uses the ledger, you can also copy both files into a folder of your own and read the copy. While the"
            " ledger is in use, ask for read access to the companion files (-wal, -shm)."
        ),
        code="store.cannot-open",
    )


def overtaken_error(path: Path) -> StoreError:
    """Return the error for a ledger written at every attempt to read."""
    return StoreError(
        f"The ledger {path} was written during each attempt to read. No result is valid.",
        remedy="Try again, or request write permission for the ledger's folder: then reading uses a snapshot.",
        code="store.locked",
    )


def _uri(path: Path, how: str) -> str:
    return f"file:{quote(os.fsencode(path))}?{how}"


SQLITE_VERSION_MIN: Final = (3, 51, 3)
"""In earlier versions, a badly timed WAL reset could corrupt the database."""
WAL_BYTES_KEPT_MAX: Final = 64 * 1024 * 1024
WRITER_CACHE_KIB: Final = 64 * 1024
"""Holds the randomly ordered index of idempotency keys for 500,000 actions, besides written pages."""
READER_CACHE_KIB: Final = 4 * 1024
BUSY_PAUSE_MS: Final = 20


@dataclass(frozen=True, slots=True)
class Opening:
    """The options for the connections of one store."""

    path: Path
    read_only: bool
    busy_timeout_ms: int
    pages_max: int
    """Maximum size of the database in pages of 4096 bytes; 0 for no limit of our own."""

    def writer(self) -> apsw.Connection:
        """Return the only writing connection. Also checks the file and migrates the schema."""
        _refuse_impossible_paths(self.path)
        keep(self.path, LEDGER_ENDINGS)
        if self.read_only:
            raise StoreReadOnlyError(f"The database {self.path} was opened read-only.")
        _create_private(self.path)
        connection = self._connect()
        try:
            _refuse_strangers(connection, self.path)
            self._enter_wal(connection)
            _tune(connection, WRITER_CACHE_KIB)
            # Freed bytes are overwritten, on the page and in the list of free pages.
            connection.pragma("secure_delete", True)
            migrate(connection, self.path)
            if self.pages_max:
                connection.pragma("max_page_count", self.pages_max)
        except apsw.Error as error:
            connection.close()
            if isinstance(error, apsw.CantOpenError) and not may_write(self.path):
                raise StoreReadOnlyError(
                    f"The database {self.path} cannot be written where it is ({type(error).__name__}: {error})."
                ) from error
            raise as_store_error(error, self.path) from error
        except StoreError:
            connection.close()
            raise
        return connection

    def for_checkpoints(self) -> apsw.Connection:
        """Return a connection besides the writer's, never in a transaction, for checkpointing the write-ahead log."""
        connection = self._connect()
        connection.pragma("synchronous", "FULL")
        return connection

    def reader(self) -> apsw.Connection:
        """Return a read-only connection."""
        connection = self._connect()
        try:
            connection.pragma("query_only", True)
            _tune(connection, READER_CACHE_KIB)
        except apsw.Error as error:
            connection.close()
            raise self._said(error) from error
        return connection

    def first_reader(self) -> apsw.Connection:
        """Return the reader of a read-only store, with the writer's checks."""
        _refuse_impossible_paths(self.path)
        keep(self.path, LEDGER_ENDINGS)
        if not self.path.exists():
            raise StoreError(
                f"There is no database at {self.path}.",
                remedy="Check the path (--url, READBACK_URL). Reading creates no ledger, the first action does.",
                code="store.cannot-open",
            )
        for _ in range(LOOKS_MAX):
            connection = self.reader()
            try:
                self._check(connection)
            except (StoreError, apsw.Error) as error:
                overtaken = is_overtaken(connection)
                connection.close()
                if not overtaken:
                    raise self._said(error) from error
            else:
                if not is_overtaken(connection):
                    return connection
                connection.close()
        raise overtaken_error(self.path)

    def _check(self, connection: apsw.Connection) -> None:
        """Run the writer's first checks, without migration."""
        _refuse_strangers(connection, self.path)
        if not connection.execute("SELECT count(*) FROM sqlite_schema").get:
            raise StoreError(
                f"The file {self.path} is empty: there is no ledger in it yet.",
                remedy="Check the path (--url, READBACK_URL). The first action creates the ledger (`readback run`).",
                code="store.cannot-open",
            )
        if pending(connection, self.path):
            raise StoreVersionError(
                f"The database {self.path} has an older schema, and a read-only store cannot migrate.",
                remedy="Open the ledger once with write permission, for example by `readback resume`.",
            )

    def _said(self, error: Exception) -> StoreError:
        """Return the typed error for a failed read. This user may lack access to a log's content."""
        if isinstance(error, StoreError):
            return error
        assert isinstance(error, apsw.Error)
        out_of_reach = (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)
        unwritable = self.path.exists() and not may_write(self.path)
        if isinstance(error, out_of_reach) and unwritable and at_rest(self.path) is None:
            return unseen_error(self.path, f"{type(error).__name__}: {error}")
        return as_store_error(error, self.path)

    def _connect(self) -> apsw.Connection:
        try:
            if not self.read_only:
                connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
            elif may_write(self.path):
                connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
            else:
                connection = bystander(self.path)
            _wait_for_others(connection, self.busy_timeout_ms)
        except apsw.Error as error:
            raise as_store_error(error, self.path) from error
        return connection

    def _enter_wal(self, connection: apsw.Connection) -> None:
        """Change to write-ahead logging. SQLite needs the file exclusively for a moment.

        SQLite does not wait if another process is about to write. Therefore this function retries, with SQLite's own
        waiting turned off, so the total stays within the busy limit.
        """
        if connection.readonly("main"):
            raise StoreReadOnlyError(f"The database {self.path} cannot be written by this user.")
        _wait_for_others(connection, 0)
        pause = threading.Event()
        for _ in range(self.busy_timeout_ms // BUSY_PAUSE_MS):
            try:
                _use_wal(connection, self.path)
                break
            except apsw.BusyError:
                pause.wait(BUSY_PAUSE_MS / 1000)
        else:
            _use_wal(connection, self.path)
        _wait_for_others(connection, self.busy_timeout_ms)


def _wait_for_others(connection: apsw.Connection, limit_ms: int) -> None:
    connection.set_busy_timeout(limit_ms)
    # Retries each millisecond; the busy handler's own steps grow to a tenth of a second.
    connection.setlk_timeout(limit_ms, 0)


def _use_wal(connection: apsw.Connection, path: Path) -> None:
    mode = connection.pragma("journal_mode", "wal")
    if mode != "wal":
        raise StoreError(
            f"The database {path} stays in journal mode {mode}; write-ahead logging is needed.",
            remedy="Put the database on a local disk; network file systems cannot share its memory.",
            code="store.no-wal",
        )


def refuse_old_sqlite(version: str) -> None:
    """Raise SqliteTooOldError for a library older than SQLITE_VERSION_MIN."""
    numbers = tuple(int(part) for part in version.split(".")[:3])
    if numbers < SQLITE_VERSION_MIN:
        wanted = ".".join(str(part) for part in SQLITE_VERSION_MIN)
        raise SqliteTooOldError(
            f"SQLite {version} can corrupt its write-ahead log; {wanted} or later is needed.",
            details={"found": version, "wanted": wanted},
        )


def _refuse_strangers(connection: apsw.Connection, path: Path) -> None:
    """Accept only an empty file or a ledger. The first read also detects garbage.

    Tables come first: another process may be creating this ledger, and creates tables and id together.
    """
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    found = connection.pragma("application_id")
    if found != APPLICATION_ID and (tables or found != 0):
        raise StoreCorruptError(
            f"The file {path} is an SQLite database, but not one of Readback's.",
            remedy="Give the path of a Readback database, or of a file that does not exist yet.",
            code="store.not-ours",
        )


def _tune(connection: apsw.Connection, cache_kib: int) -> None:
    # Else SQLite prepares a statement again for bound values that could change its plan. Our plans never should change.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # Else a column removed by a newer release is read as a text: its own name.
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.pragma("synchronous", "FULL")
    connection.pragma("fullfsync", True)
    connection.pragma("cache_size", -cache_kib)
    connection.pragma("temp_store", "MEMORY")
    connection.pragma("cell_size_check", True)
    connection.pragma("trusted_schema", False)
    connection.pragma("journal_size_limit", WAL_BYTES_KEPT_MAX)


def _refuse_impossible_paths(path: Path) -> None:
    try:
        path.parent.stat()
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # an overlong name, or a folder without permission
        raise StoreError(
            f"The database {path} cannot be reached ({error.strerror}).",
            remedy="Check the path, and that this user may enter its folders.",
            code="store.cannot-open",
        ) from error
    if not path.parent.is_dir():
        raise StoreError(
            f"The folder {path.parent} of the database does not exist.",
            remedy="Create the folder, or give another path.",
            code="store.no-folder",
        )
    if path.exists() and not path.is_file():
        raise StoreError(
            f"The path {path} is not a file.",
            remedy="Give the path of a database file.",
            code="store.cannot-open",
        )


def _create_private(path: Path) -> None:
    """Create an empty file readable only by its owner. SQLite gives -wal and -shm the same mode.

    `mknod` in place of `open`: closing any descriptor of a file drops this process's locks on the file, and another
    store here may hold locks already.
    """
    if path.exists():
        return
    try:
        try:
            os.mknod(path, 0o600 | stat.S_IFREG)
        except PermissionError:
            # Some systems restrict mknod to the superuser. A new file has no locks to lose.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    except PermissionError as error:
        raise StoreReadOnlyError(f"The database {path} cannot be created ({error.strerror}).") from error
    except OSError as error:
        raise StoreError(
            f"The database {path} cannot be created ({error.strerror}).",
            remedy="Check the folder and the volume.",
            code="store.cannot-open",
        ) from error
