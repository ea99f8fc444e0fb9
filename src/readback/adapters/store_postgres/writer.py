"""The one connection of a process that changes things: groups of jobs, each as one transaction.

Called by the group's leader, so by one thread at a time. A transaction that met others is begun again; a connection
that broke is made again; and where the reply to a COMMIT was lost, the database is asked what became of it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, cast

import psycopg
from psycopg import errors

from readback.adapters.store_postgres.claiming import Locks
from readback.adapters.store_postgres.faults import (
    as_store_error,
    is_bad_value,
    undetermined,
    unreachable,
    was_cut,
    was_missed,
)
from readback.adapters.store_postgres.group import Job
from readback.adapters.store_postgres.known import Known
from readback.adapters.store_postgres.opening import Connection, Opening
from readback.adapters.store_postgres.work import AppendWork, PaceWork, Work
from readback.adapters.store_postgres.writing import DoubtError, Transaction
from readback.domain.errors import StoreError, StoreLockedError

TRIES_MAX: Final = 12
"""So often a group that met others is begun again; the second time with nothing taken for granted."""
RECONNECT_TRIES_MAX: Final = 100
RECONNECT_PAUSE_MS: Final = 100
"""A server that starts again is waited for: ten seconds, and what each try itself takes."""
SETTLE_TRIES_MAX: Final = 100
"""So often it is asked, a tenth of a second apart, what became of a transaction that still runs."""


class CutError(Exception):
    """The connection broke before the COMMIT was sent: nothing was kept."""


class Writer:
    """`run` carries out a group and answers each of its jobs."""

    def __init__(self, opening: Opening, locks: Locks) -> None:
        self._opening = opening
        self._shown = opening.shown
        self._locks = locks
        self._known = Known()
        self._connection = opening.writer()
        self._origin = opening.origin(self._connection)

    def run(self, group: Sequence[Job[Work]]) -> None:
        """One transaction for the group. If one job's values break it, each job gets its own."""
        try:
            self._until_kept(group)
        except StoreError as error:
            for job in group:
                job.error = error
        except (psycopg.Error, UnicodeError, OverflowError, TypeError, ValueError) as error:
            if is_bad_value(error) and len(group) > 1:
                for job in group:
                    self.run([job])
                return
            for job in group:
                job.error = as_store_error(error, self._shown)
                job.error.__cause__ = error

    def close(self) -> None:
        self._connection.close()

    def abandon(self) -> Connection:
        """In a forked child: the connection is the parent's."""
        return self._connection

    def _until_kept(self, group: Sequence[Job[Work]]) -> None:
        """Again, while it fails by others' doing: then nothing was kept."""
        missed: BaseException | None = None
        for number in range(TRIES_MAX):
            try:
                results = self._try(group, trusting=number == 0)
            except DoubtError:
                continue
            except CutError as error:
                missed = error.__cause__
                self._reconnect(str(missed))
                continue
            except psycopg.Error as error:
                if not (was_missed(error) or isinstance(error, errors.UniqueViolation)):
                    raise
                missed = error
                continue
            for job, result in zip(group, results, strict=True):
                job.result = result
            return
        if missed is not None and was_cut(missed):
            raise unreachable(self._shown, str(missed)) from missed
        raise StoreLockedError(
            f"The ledger at {self._shown} was changed by others {TRIES_MAX} times while this was written ({missed}).",
            remedy="Nothing was kept: try again.",
        ) from missed

    def _try(self, group: Sequence[Job[Work]], *, trusting: bool) -> list[object]:
        """What each job comes to, once all of it is kept."""
        if self._connection.broken or self._connection.closed:
            self._reconnect("the connection was lost")
        items = [item for job in group if isinstance(job.work, AppendWork) for item in job.work.batch]
        pacing = [job.work.tenant for job in group if isinstance(job.work, PaceWork)]
        transaction = Transaction(self._connection, self._known, self._locks, trusting=trusting)
        committing, results = False, cast("list[object]", [])
        try:
            transaction.begin(items, self._locks.wanted(items, pacing))
            results = [job.work.apply(transaction) for job in group]
            committing = True
            transaction.commit()
        except BaseException as error:
            self._known.forget()
            if not (self._connection.broken or was_cut(error)):
                self._roll_back()
                raise
            if not committing:
                raise CutError from error
            if self._was_kept(transaction.xid, error):
                return results
            raise CutError from error
        return results

    def _roll_back(self) -> None:
        try:
            self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self._connection.close()  # the next group begins on a new one

    # --- after a connection was lost -----------------------------------------------------------------

    def _reconnect(self, said: str) -> None:
        """A new connection, as soon as there is one. Raises StoreError."""
        self._connection.close()
        pause = threading.Event()
        for left in reversed(range(RECONNECT_TRIES_MAX)):
            try:
                self._connection = self._opening.again()
                self._origin = self._opening.origin(self._connection)
                return
            except psycopg.Error as error:
                said = str(error)
            except StoreError as error:
                if error.code != "store.unreachable" or not left:
                    raise
                said = str(error)
            pause.wait(RECONNECT_PAUSE_MS / 1000)
        raise unreachable(self._shown, said)

    def _was_kept(self, xid: str, error: BaseException) -> bool:
        """What became of a transaction whose COMMIT was sent, and not answered."""
        before = self._origin
        try:
            self._reconnect(str(error))
        except StoreError as lost:
            raise undetermined(self._shown, str(lost)) from error
        if self._origin != before:
            raise undetermined(self._shown, "another server answers there now") from error
        try:
            for _ in range(SETTLE_TRIES_MAX):
                found = self._connection.execute(
                    "SELECT pg_xact_status(%s::xid8), pg_sleep(CASE WHEN pg_xact_status(%s::xid8) = 'in progress'"
                    " THEN 0.1 ELSE 0 END)",
                    (xid, xid),
                ).fetchone()
                status = found[0] if found else None
                if status in ("committed", "aborted"):
                    return bool(status == "committed")
                if status is None:
                    break
                # Nobody will ever tell that session anything again.
                self._connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_xid = (%s::xid8)::xid", (xid,)
                )
        except psycopg.Error as again:
            raise undetermined(self._shown, str(again)) from error
        raise undetermined(self._shown, f"transaction {xid} has not ended") from error
