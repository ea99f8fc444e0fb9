"""The only writing connection of a process: groups of jobs, each as one transaction.

Called by the group's leader, so by one thread at a time. A transaction in conflict with other sessions is repeated. A
broken connection is replaced. After a lost reply to a COMMIT, the database is asked for the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import psycopg
from psycopg import errors
from psycopg.errors import Diagnostic

from readback.errors import StoreError, StoreLockedError
from readback.stores.postgres.connection.connect import Connection, Opening, Reconnection
from readback.stores.postgres.connection.faults import (
    UNDETERMINED,
    is_bad_value,
    undetermined,
    unreachable,
    was_cut,
    was_missed,
)
from readback.stores.postgres.connection.schema import Locks
from readback.stores.postgres.connection.second_connection import Watched
from readback.stores.postgres.writing.commands import AppendWork, PaceWork, Work
from readback.stores.postgres.writing.transaction import CacheMissError, Transaction
from readback.stores.postgres.writing.write_cache import WriteCache
from readback.stores.shared_commit import Job

TRIES_MAX: Final = 12
"""Most attempts of a group in conflict. From the second attempt on, no cached state is trusted."""
SETTLE_TRIES_MAX: Final = 100
"""Most queries, a tenth of a second apart, for the result of a transaction still in progress."""
CANCELLED_MAX: Final = 3
"""Most cancelled waits for a standby. After that, the standby's state is unknown."""

_BEHIND_IT: Final = "SELECT pg_logical_emit_message(true, 'readback', '')"
"""A separate commit that waits for the synchronous standbys. Ending a session during its wait, or restarting the
server, leaves the session's commit on this server alone.
"""


class CutError(Exception):
    """The connection broke before the COMMIT was sent: nothing was stored."""


class Writer:
    """`run` executes a group and sets each job's result or error."""

    def __init__(self, opening: Opening, locks: Locks, watched: Watched) -> None:
        self._opening = opening
        self._shown = opening.shown
        self._locks = locks
        self._watched, self._known = watched, WriteCache(watched)
        self._connection, self._warned = opening.writer(), 0
        self._reconnection = Reconnection()
        self._connection.add_notice_handler(self._hear)
        self._origin = opening.origin(self._connection)

    def run(self, group: Sequence[Job[Work]]) -> None:
        """Run one transaction for the group. If one job's values break the transaction, each job gets its own."""
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
                job.error = self._watched.explained(error, self._connection)
                job.error.__cause__ = error

    def close(self) -> None:
        self._connection.close()

    def abandon(self) -> Connection:
        """In a forked child: the connection is the parent's."""
        return self._connection

    def _until_kept(self, group: Sequence[Job[Work]]) -> None:
        """Repeat while other sessions cause the failure. Nothing was stored in those attempts."""
        missed: BaseException | None = None
        for number in range(TRIES_MAX):
            try:
                results = self._try(group, optimistic=number == 0)
            except CacheMissError:
                continue
            except CutError as error:
                missed = error.__cause__
                self._reconnect(str(missed))
                continue
            except psycopg.Error as error:
                if not (was_missed(error) or isinstance(error, (errors.UniqueViolation, errors.UndefinedFunction))):
                    raise
                missed = error
                continue
            for job, result in zip(group, results, strict=True):
                job.result = result
            return
        if missed is not None and was_cut(missed):
            raise unreachable(self._shown, str(missed)) from missed
        raise StoreLockedError(
            f"The ledger at {self._shown} was changed by others {TRIES_MAX} times during this write ({missed}).",
            remedy="Nothing was stored: try again.",
        ) from missed

    def _try(self, group: Sequence[Job[Work]], *, optimistic: bool) -> list[object]:
        """Return each job's result after the commit."""
        if self._connection.broken or self._connection.closed:
            self._reconnect("the connection was lost")
        items = [item for job in group if isinstance(job.work, AppendWork) for item in job.work.batch]
        pacing = [job.work.tenant for job in group if isinstance(job.work, PaceWork)]
        transaction = Transaction(self._connection, self._known, self._locks, optimistic=optimistic)
        committing, results = False, cast("list[object]", [])
        try:
            transaction.begin(items, self._locks.wanted(items, pacing))
            results = [job.work.apply(transaction) for job in group]
            committing, warned = True, self._warned
            transaction.commit()
            if self._warned != warned:
                self._stand_by()
        except BaseException as error:
            self._known.forget()
            if not (self._connection.broken or was_cut(error)):
                self._roll_back()
                raise
            if not committing:
                raise CutError from error
            if self._was_kept(transaction, error):
                return results
            raise CutError from error
        return results

    def _roll_back(self) -> None:
        try:
            self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self._connection.close()  # the next group opens a new connection

    # --- after a connection was lost -----------------------------------------------------------------

    def _reconnect(self, said: str) -> None:
        """Open a new connection, as soon as possible. Raises StoreError."""
        self._connection.close()
        self._connection = self._reconnection.wait(self._opening.again, said)
        self._connection.add_notice_handler(self._hear)
        self._origin = self._opening.origin(self._connection)

    def _was_kept(self, transaction: Transaction, error: BaseException) -> bool:
        """Return whether a transaction was stored, after its COMMIT was sent without a reply."""
        before = self._origin
        try:
            self._reconnect(str(error))
            if self._origin.cluster != before.cluster:
                raise undetermined(self._shown, "another server answers there now") from error
            if self._status(transaction.xid) != "committed":
                return False
            if self._origin != before and not self._is_there(transaction):
                return False
            self._stand_by()
        except (psycopg.Error, StoreError) as lost:
            if isinstance(lost, StoreError) and lost.code == UNDETERMINED:
                raise
            raise undetermined(self._shown, str(lost)) from error
        return True

    def _hear(self, notice: Diagnostic) -> None:
        self._warned += notice.severity_nonlocalized == "WARNING"

    def _stand_by(self) -> None:
        """Wait until the synchronous standbys have the last commit. Raises StoreError.

        A cancelled wait ends with a warning, and with the commit on this server alone.
        """
        for _ in range(CANCELLED_MAX):
            warned = self._warned
            self._connection.execute(_BEHIND_IT)
            if self._warned == warned:
                return
        raise undetermined(self._shown, "another session cancelled the wait for a standby")

    def _status(self, xid: str) -> str:
        """Return the result of `pg_xact_status`. A running transaction is terminated: its session can receive nothing
        any more.
        """
        for _ in range(SETTLE_TRIES_MAX):
            try:
                found = self._connection.execute("SELECT pg_xact_status(%s::xid8)", (xid,)).fetchone()
            except errors.InvalidParameterValue:
                return "aborted"  # an id not yet assigned: the server crashed before the transaction reached the disk
            if found is None or found[0] is None:
                break
            if found[0] != "in progress":
                return str(found[0])
            self._connection.execute(
                "SELECT (SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE backend_xid = (%s::xid8)::xid AND usename = current_user), pg_sleep(0.1)",
                (xid,),
            )
        raise undetermined(self._shown, f"transaction {xid} has not ended")

    def _is_there(self, transaction: Transaction) -> bool:
        """Return whether the proof entry exists, written by this transaction.

        After a restart, or after promotion of a standby without the transaction, the id may belong to another
        transaction.
        """
        if transaction.proof is None:
            raise undetermined(self._shown, "the server started again")
        _, action_id, version, _, _, _, leaf = transaction.proof
        asked = "SELECT 1 FROM event WHERE action_id = %s AND version = %s AND leaf = %s AND xid = %s::xid8"
        return self._connection.execute(asked, (action_id, version, leaf, transaction.xid)).fetchone() is not None
