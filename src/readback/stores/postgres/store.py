"""The ledger store on PostgreSQL: one writer a process with group commit, separate readers, any number of processes.

Chosen by `bootstrap`. The store keeps the promises in `readback.ports.storage.store` and decides nothing: permitted
event sequences are the engine's business.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Final, Literal, cast

from readback.errors import StoreReadOnlyError
from readback.ports.storage.batch_reads import LeaseWanted
from readback.ports.storage.store import Append, AppendResult
from readback.ports.storage.store_rules import closed_error
from readback.stores.postgres.batch_reads import Looking
from readback.stores.postgres.blob_store import Objects
from readback.stores.postgres.connection import rows
from readback.stores.postgres.connection.connect import Connection, Opening, address_of
from readback.stores.postgres.connection.faults import forked_error
from readback.stores.postgres.connection.schema import Locks, bucket_of, lock_class
from readback.stores.postgres.connection.second_connection import SecondConnection, Watched
from readback.stores.postgres.outbox import Outgoing
from readback.stores.postgres.queries import Readers
from readback.stores.postgres.sealing import SealedQueries
from readback.stores.postgres.sequencing import Sequencing
from readback.stores.postgres.writing.commands import (
    AppendWork,
    LeasesWork,
    LeaseWork,
    PaceWork,
    ReleaseWork,
    WakeWork,
    Work,
)
from readback.stores.postgres.writing.vacuum import purged
from readback.stores.postgres.writing.writer import Writer
from readback.stores.shared_commit import GroupCommit, Job

Clock = Literal["database", "callers"]
DATABASE: Final = "database"


def open_postgres_store(url: str, *, read_only: bool = False, clock: Clock = DATABASE) -> PostgresStore:
    """Open or create the ledger under a `postgresql://` URL. `?schema=NAME` names its schema.

    `clock`: the clock for leases; the callers' clock is for virtual time. Raises a `StoreError` (the type names
    the reason), and UsageError for any other URL.
    """
    primary = address_of(url, primary=True)
    opening = Opening(address_of(url), True, primary.url) if read_only else Opening(primary, False)
    return PostgresStore(opening, own_clock=clock == DATABASE)


class PostgresStore(Sequencing, SealedQueries, Outgoing, Looking):
    """Implements `LedgerStore`. Safe for threads, and for any number of processes. Not safe across fork()."""

    def __init__(self, opening: Opening, *, own_clock: bool) -> None:
        self._opening = opening
        self.address = opening.address
        """The address of the ledger, for its wake-ups."""
        self._shown = opening.shown
        self._read_only = opening.read_only
        self._forked = False
        self._writer: Writer | None = None
        self._group: GroupCommit[Work] = GroupCommit(self._run)
        self._lock_class = lock_class(opening.address.schema)
        watched = Watched(opening.address.schema, self._shown)
        self._beside = SecondConnection(opening, watched)
        self._objects = Objects(opening.address.objects, opening.address.objects_over)
        readers = Readers(self._shown, opening.reader, watched)
        if self._read_only:
            readers.give_back(opening.first_reader())
        else:
            locks = Locks(self._lock_class, own_clock)
            self._writer = Writer(opening, locks, watched)
        super().__init__(readers, own_clock=own_clock)
        _opened.add(self)

    def clock_us(self) -> int | None:
        """Return the database's time. None if the callers' clock is used."""
        return int(self._rows("SELECT clock_us()", ())[0][0]) if self._own_clock else None

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        if not batch:
            return []
        work = AppendWork(tuple(batch), ensure=self._objects.ensure)
        work.check()
        if not self._read_only:
            work.outside = self._objects.keep(batch)
        return cast("list[AppendResult]", self._submit(work, len(batch)))

    def lease(self, action_id: str, owner: str, now_us: int, until_us: int, dead: str = "") -> int | None:
        work = LeaseWork(action_id, owner, now_us, until_us, dead, self._own_clock)
        return cast("int | None", self._submit(work))

    def leases(self, wanted: Sequence[LeaseWanted], owner: str, now_us: int) -> list[int | None]:
        if not wanted:
            return []
        work = LeasesWork(tuple(wanted), owner, now_us, self._own_clock)
        return cast("list[int | None]", self._submit(work, len(wanted)))

    def release(self, owner: str) -> None:
        self._submit(ReleaseWork(owner))

    def make_due(self, action_id: str, at_us: int) -> bool:
        return cast("bool", self._submit(WakeWork(action_id, at_us)))

    def pace(self, tenant: str, now_us: int, wanted_us: int, per_minute: int) -> int:
        return cast("int", self._submit(PaceWork(tenant, now_us, wanted_us, per_minute)))

    def purge(self) -> bool:
        """Purge the tables. The server's write-ahead log, archive and standbys drop the old bytes in their own time."""
        if self._read_only:
            raise StoreReadOnlyError(f"The ledger at {self._shown} was opened read-only.")
        self._remove_objects()
        return purged(self._opening)

    def _remove_objects(self) -> None:
        """Remove objects of erased evidence, one tenant at a time. The tenant's appends are blocked meanwhile, so none
        brings a removed object back.
        """
        for (tenant,) in map(rows.plain, self._many_rows(rows.TENANTS_TO_REMOVE)):
            self._beside.run(partial(self._remove_objects_of, tenant))

    def _remove_objects_of(self, tenant: str, connection: Connection) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s::int, %s::int)", (self._lock_class, bucket_of(tenant)))
        for place, kept in map(rows.plain, connection.execute(rows.TO_REMOVE, (tenant,)).fetchall()):
            if not kept:
                # After a crash here the object is gone and the row unchanged: the next run removes the object again.
                self._objects.drop(place)
            connection.execute(rows.REMOVED, (tenant, place))

    def close(self) -> None:
        if not self._forked:
            self._group.close(closed_error, self._close_connections)

    def __enter__(self) -> PostgresStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- writing -------------------------------------------------------------------------------------

    def _submit(self, work: Work, weight: int = 1) -> object:
        if self._forked:
            raise forked_error(self._shown)
        if self._read_only:
            raise StoreReadOnlyError(f"The ledger at {self._shown} was opened read-only.")
        return self._group.submit(Job(work, weight))

    def _run(self, group: Sequence[Job[Work]]) -> None:
        if self._writer is None:
            raise closed_error()
        self._writer.run(group)

    # --- the end -------------------------------------------------------------------------------------

    def _close_connections(self) -> None:
        self._readers.close(closed_error)
        self._beside.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _after_fork_in_child(self) -> None:
        """Refuse every further call, and never close the parent's connections."""
        self._forked = True
        connections: list[Connection] = self._readers.abandon(lambda: forked_error(self._shown))
        connections += self._beside.abandon()
        if self._writer is not None:
            connections.append(self._writer.abandon())
        _left.extend(connections)


def _refuse_in_child() -> None:
    for store in list(_opened):
        store._after_fork_in_child()  # noqa: SLF001 - of this module


_left: list[Connection] = []
"""The parent's connections, in a forked child. Closing a connection would end the parent's session."""
_opened: weakref.WeakSet[PostgresStore] = weakref.WeakSet()
os.register_at_fork(after_in_child=_refuse_in_child)
