"""The ledger store on SQLite: one writer with group commit, separate readers, several processes on one file.

Chosen by `bootstrap`. The store keeps the promises in `readback.ports.storage.store` and decides nothing: permitted
event sequences are the engine's business.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote

import apsw

from readback.errors import StoreError, StoreReadOnlyError, UsageError
from readback.ports.storage.store import Append, AppendResult
from readback.ports.storage.store_rules import closed_error
from readback.stores.shared_commit import GroupCommit, Job
from readback.stores.sqlite import rows
from readback.stores.sqlite.commands import AppendWork, LeaseWork, PaceWork, ReleaseWork, WakeWork, Work
from readback.stores.sqlite.connect import Opening, refuse_old_sqlite
from readback.stores.sqlite.faults import as_store_error, forked_error, moved_error, unstorable
from readback.stores.sqlite.outbox import Outgoing
from readback.stores.sqlite.queries import Queries, Readers
from readback.stores.sqlite.schema import (
    OBJECTS,
    Object,
    Watched,
    explained,
    misnumbered,
    unknown,
    unlike,
)
from readback.stores.sqlite.sealing import SealedQueries
from readback.stores.sqlite.transaction import Transaction, WriteCache

# Checkpoints the write-ahead log beside the writer, to spare commits the work.

LONG_PAGES: Final = 8000
"""32 MB. A shorter log would write the same pages to the database more often, and slow down more commits. A longer log
takes longer to read after a killed process.
"""
REST_PAGES_MAX: Final = 1000
"""Most pages the writer checkpoints after the thread, within a commit's call."""
AGAIN_PAGES: Final = LONG_PAGES // 4
"""Further growth before the next attempt, after a long reader blocked a checkpoint."""
TOO_LONG_PAGES: Final = 2 * LONG_PAGES
"""From this length on, the writer itself runs the checkpoint."""
_PASSIVE: Final = apsw.SQLITE_CHECKPOINT_PASSIVE
_OK: Final = apsw.SQLITE_OK


class WalCheckpoints:
    """Checkpoints of one store's write-ahead log. `connect` opens a connection besides the writer's, never in a
    transaction.
    """

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._mutex = threading.RLock()
        self._held = 0
        self._thread: threading.Thread | None = None
        self._due = LONG_PAGES
        self._folded = 0
        """Pages of the present log, all checkpointed by a thread; 0 if the writer has nothing to do."""

    def watch(self, writer: apsw.Connection) -> None:
        """Take over the log of this connection from SQLite's automatic checkpoints."""
        writer.set_wal_hook(self._committed)

    def hold(self) -> None:
        """Stop new threads until `release`, and wait for a running thread. Calls nest."""
        with self._mutex:
            self._held += 1
            thread = self._thread
        if thread is not None and thread.ident is not None:
            thread.join()

    def release(self) -> None:
        with self._mutex:
            self._held -= 1

    def _committed(self, writer: apsw.Connection, _name: str, pages: int) -> int:
        """Called after each commit. Never raises: a durable commit must not look like a failure."""
        if pages < LONG_PAGES:
            self._due, self._folded = LONG_PAGES, 0
        elif pages >= TOO_LONG_PAGES or (self._folded and 0 <= pages - self._folded <= REST_PAGES_MAX):
            self._folded = 0  # only once: a reader of the old pages prevents a restart of the log
            with suppress(apsw.Error):
                writer.wal_checkpoint(mode=_PASSIVE)
        elif pages >= self._due:
            self._due = pages + AGAIN_PAGES
            self._begin()
        return _OK

    def _begin(self) -> None:
        with self._mutex:
            if self._held or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._fold, name="readback-folding")
            with suppress(RuntimeError):  # no thread available: the writer runs the checkpoint later
                self._thread.start()

    def _fold(self) -> None:
        with suppress(apsw.Error, StoreError):  # the next writer reports the fault of the file
            connection = self._connect()
            try:
                there, folded = connection.wal_checkpoint(mode=_PASSIVE)
                self._folded = folded if folded == there else 0
            finally:
                connection.close()


BUSY_TIMEOUT_MS: Final = 5_000
LOOK_UP_TOGETHER_MIN: Final = 4
"""From so many appends on, one combined look-up is cheaper than single look-ups."""
URL_PREFIX: Final = "sqlite://"

_NONE: Final = (0, 0)
_BAD_VALUES: Final = (
    apsw.TooBigError,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.RangeError,
    TypeError,
    ValueError,
    OverflowError,
)
"""Errors caused by one append's values. They must not fail the other appends of the group."""


def open_sqlite_store(
    path: Path | str,
    *,
    busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    read_only: bool = False,
    pages_max: int = 0,
    sqlite_version: str = "",
) -> SqliteStore:
    """Open or create the ledger at a path or under a `sqlite:///` URL.

    Args:
        path: The path or URL.
        busy_timeout_ms: Longest wait for other processes, in milliseconds.
        read_only: Open for reading, and never create or migrate.
        pages_max: Maximum size of the file, in pages of 4096 bytes.
        sqlite_version: For tests only. Default: the library's own version.

    Raises:
        StoreError: The ledger cannot be opened; the type names the reason. The file stays unchanged.
    """
    refuse_old_sqlite(sqlite_version or apsw.sqlite_lib_version())
    opening = Opening(path=path_of(path), read_only=read_only, busy_timeout_ms=busy_timeout_ms, pages_max=pages_max)
    return SqliteStore(opening)


def path_of(url: Path | str) -> Path:
    """Return the path in a `sqlite:///relative.db` or `sqlite:////absolute.db` URL. A path is returned unchanged."""
    if isinstance(url, Path) or not url.startswith("sqlite:"):
        return _absolute(Path(url))
    host, slash, name = url.removeprefix(URL_PREFIX).partition("/")
    if not url.startswith(URL_PREFIX) or host or not slash or not name or name == ":memory:" or "\0" in unquote(name):
        raise UsageError(
            f"The address {url!r} names no database file.",
            remedy="Write sqlite:///relative/path.db or sqlite:////absolute/path.db.",
        )
    return _absolute(Path(unquote(name)))


def _absolute(path: Path) -> Path:
    try:
        return path.absolute()
    except FileNotFoundError as error:
        raise StoreError(
            f"The ledger {path} has a relative path, and the working folder was deleted.",
            remedy="Change to an existing folder, or write sqlite:////absolute/path.db.",
            code="store.no-folder",
        ) from error


class SqliteStore(SealedQueries, Outgoing, Queries):
    """Implements `LedgerStore`. Safe for threads, and for several processes on a local disk. Not safe across fork()."""

    def __init__(self, opening: Opening) -> None:
        self._path = opening.path
        self._path_text = str(opening.path)
        self._read_only = opening.read_only
        self._places: tuple[tuple[str, tuple[int, int]], ...] = ()
        """The open files, each with its identity at the time of opening."""
        self._writer: apsw.Connection | None = None
        self._known: WriteCache | None = None
        self._group: GroupCommit[Work] = GroupCommit(self._run)
        self._for_checkpoints = opening.for_checkpoints
        self._checkpoints = WalCheckpoints(opening.for_checkpoints)
        self._forked = False
        readers = Readers(self._path, opening.reader)
        if self._read_only:
            readers.give_back(opening.first_reader())
        else:
            self._writer = opening.writer()
            self._known = WriteCache(self._writer, Watched(self._writer, self._path))
            self._places = _places_of(self._path_text)
            self._checkpoints.watch(self._writer)
        super().__init__(readers, None if self._read_only else self._rows_at_hand)
        _opened.add(self)

    @property
    def path(self) -> Path:
        """The database file. Data refused by this store is saved beside the file."""
        return self._path

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        if not batch:
            return []
        work = AppendWork(tuple(batch))
        work.check()
        return cast("list[AppendResult]", self._submit(work, len(batch)))

    def lease(self, action_id: str, owner: str, now_us: int, until_us: int, dead: str = "") -> int | None:
        return cast("int | None", self._submit(LeaseWork(action_id, owner, now_us, until_us, dead)))

    def release(self, owner: str) -> None:
        self._submit(ReleaseWork(owner))

    def make_due(self, action_id: str, at_us: int) -> bool:
        return cast("bool", self._submit(WakeWork(action_id, at_us)))

    def pace(self, tenant: str, now_us: int, wanted_us: int, per_minute: int) -> int:
        return cast("int", self._submit(PaceWork(tenant, now_us, wanted_us, per_minute)))

    def purge(self) -> bool:
        """Checkpoint and empty the write-ahead log, which held pages from before an erasure."""
        if self._read_only:
            raise StoreReadOnlyError(f"The database {self._path} was opened read-only.")
        self._checkpoints.hold()  # two checkpoints cannot run at once, and neither waits
        try:
            return self._emptied()
        finally:
            self._checkpoints.release()

    def _emptied(self) -> bool:
        connection = self._for_checkpoints()
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
        except apsw.Error as error:
            raise as_store_error(error, self._path) from error
        finally:
            connection.close()
        return True

    def damage(self) -> list[str]:
        """Return the faults of the file, by SQLite's own full check and ours. Empty if sound. Reads everything."""
        found = [str(row[0]) for row in self._many_rows("PRAGMA integrity_check(20)") if row[0] != "ok"]
        if found:
            return found
        late = [f"Action {row[0]!s} would not be resumed when due." for row in self._many_rows(rows.NOT_READY_WHEN_DUE)]
        kept = self._many_rows(rows.KEY_OF_NO_ACTION)
        held = [f"The key {row[0]!s} belongs to no action with this key." for row in kept]
        frozen = self._many_rows(rows.FREEZE_OF_NO_ACTION)
        held += [f"In tenant {row[0]!s} {row[1]!s} is frozen by a missing action." for row in frozen]
        held += [
            f"The evidence of tenant {row[0]!s} has {row[1] or 0!s} bytes, and {row[2]!s} are counted."
            for row in self._many_rows(rows.MISWEIGHED)
        ]
        step = self._step()
        version = cast("int", self._many_rows("PRAGMA user_version")[0][0])
        beside = unlike(cast("list[Object]", self._many_rows(OBJECTS)), step)
        return late + held + beside + misnumbered(version, step)

    def not_compared(self) -> list[str]:
        """Return sentences on the parts `damage` cannot check: the schema of a newer release."""
        return unknown(self._step())

    def _step(self) -> int:
        return cast("int", self._many_rows("SELECT max(number) FROM migration")[0][0])

    def close(self) -> None:
        if not self._forked:
            self._group.close(closed_error, self._close_connections)

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows_at_hand(self, sql: str, values: rows.Row) -> list[rows.Row]:
        """Query the idle writer, which still has its last written pages. A reader would have to fetch the pages."""
        found = None if self._forked else self._group.visit(lambda: self._ask_writer(sql, values))
        return self._readers.rows(sql, values) if found is None else found

    def _ask_writer(self, sql: str, values: rows.Row) -> list[rows.Row] | None:
        if self._writer is None:
            return None
        try:
            return cast("list[rows.Row]", self._writer.execute(sql, values).fetchall())
        except apsw.Error as error:
            raise explained(error, self._writer, self._path) from error

    # --- writing -------------------------------------------------------------------------------------

    def _submit(self, work: Work, weight: int = 1) -> object:
        if self._forked:
            raise forked_error(self._path)
        if self._read_only:
            raise StoreReadOnlyError(f"The database {self._path} was opened read-only.")
        return self._group.submit(Job(work, weight))

    def _run(self, group: Sequence[Job[Work]], *, optimistic: bool = True) -> None:
        """Run one transaction for the group. If one job's values break the transaction, each job gets its own.

        New actions are first trusted to be new, to save look-ups of action and key. In the rare opposite case a
        constraint fails.
        """
        try:
            self._run_together(group, optimistic)
        except _BAD_VALUES as error:
            if optimistic:
                self._run(group, optimistic=False)
            elif len(group) > 1:
                for job in group:
                    self._run([job], optimistic=False)
            else:
                group[0].error = unstorable(f"{type(error).__name__}: {error}")
        except apsw.SQLError as error:  # an invalid statement under the present schema affects only its own job
            if len(group) > 1:
                for job in group:
                    self._run([job], optimistic=optimistic)
            else:
                group[0].error = as_store_error(error, self._path)
                group[0].error.__cause__ = error
        except apsw.Error as error:
            for job in group:
                job.error = as_store_error(error, self._path)
                job.error.__cause__ = error
        except StoreError as error:
            for job in group:
                job.error = error

    def _run_together(self, group: Sequence[Job[Work]], optimistic: bool) -> None:
        writer, known = self._writer, self._known
        if writer is None or known is None:
            raise closed_error()
        for place, inode in self._places:
            if _inode_of(place) != inode:
                raise moved_error(self._path, place)
        try:
            writer.execute("BEGIN IMMEDIATE")
            transaction = Transaction(writer, known, optimistic=optimistic)
            if len(group) > 1 or group[0].weight >= LOOK_UP_TOGETHER_MIN:
                items = [item for job in group if isinstance(job.work, AppendWork) for item in job.work.batch]
                if len(items) >= LOOK_UP_TOGETHER_MIN:
                    transaction.look_up(items)
            results = [job.work.apply(transaction) for job in group]
            transaction.flush()
            # A crash before this line stores nothing of the group, a crash after this line everything.
            writer.execute("COMMIT")
            known.mark_current()
        except BaseException:
            known.forget()
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            raise
        for job, result in zip(group, results, strict=True):
            job.result = result

    # --- the end -------------------------------------------------------------------------------------

    def _close_connections(self) -> None:
        self._checkpoints.hold()  # permanently
        self._readers.close(closed_error)
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _after_fork_in_child(self) -> None:
        """Refuse every further call, and never close the parent's connections."""
        self._forked = True
        connections = self._readers.abandon(lambda: forked_error(self._path))
        for connection in (*connections, self._writer):
            if connection is not None:
                _leave_to_the_parent(connection)


def _leave_to_the_parent(connection: apsw.Connection) -> None:
    """Count one extra reference, so the connection stays open even at this process's end. Closing would checkpoint and
    delete a write-ahead log in use by the parent.
    """
    import ctypes  # only needed in a forked child

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _refuse_in_child() -> None:
    for store in list(_opened):
        store._after_fork_in_child()  # noqa: SLF001 - of this module


def _places_of(path: str) -> tuple[tuple[str, tuple[int, int]], ...]:
    """Return the identities of the database and of SQLite's side files, equally part of the ledger.

    If a side file is removed, the next process creates another. Both processes would then write without seeing each
    other.
    """
    real = os.path.realpath(path)  # beside the target of a link
    beside = ((place, _inode_of(place)) for place in (f"{real}-wal", f"{real}-shm"))
    return (path, _inode_of(path)), *(each for each in beside if each[1] != _NONE)


def _inode_of(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return _NONE
    return found.st_dev, found.st_ino


def _stand_still() -> None:
    """Wait for the running thread. A child of fork() would inherit SQLite's locks in their present state, with no
    thread to release them.
    """
    _still.found = [store._checkpoints for store in list(_opened)]  # noqa: SLF001 - of this module
    for folding in _still.found:
        folding.hold()


def _go_on() -> None:
    for folding in _still.found:
        folding.release()


_opened: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_still = threading.local()
os.register_at_fork(before=_stand_still, after_in_parent=_go_on, after_in_child=_refuse_in_child)
