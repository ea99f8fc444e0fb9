"""A second connection that changes things: places, seals and positions, out of the way of appends.

Called by the parts of the store that keep the log. Each change is a transaction of its own, small, and such that making
it twice does no harm: where a connection breaks, it is made again on a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar, cast

import psycopg

from readback.errors import StoreError, StoreReadOnlyError
from readback.ports.storage.store_rules import closed_error
from readback.stores.postgres.connection.connect import DURABLE, Connection, Opening, together
from readback.stores.postgres.connection.faults import (
    as_store_error,
    forked_error,
    not_own_session,
    was_cut,
    was_missed,
)
from readback.stores.postgres.connection.schema import SCHEMA, lock_class, migrations, pending, refuse_unknown

# Holds each change to the schema that this release knows: a newer one may bring it up while this process runs.

AS_IT_IS: Final = "(SELECT max(number) FROM migration), current_schema()::text, current_setting('synchronous_commit')"
"""What `check` is told. A pooler that shares sessions may have put another one in this one's place meanwhile."""
_AS_IT_IS: Final = f"SELECT {AS_IT_IS}"
_HOLD: Final = "SELECT pg_advisory_xact_lock_shared(%s::int, %s::int)"


class Watched:
    """The schema as one process has to find it."""

    def __init__(self, schema: str, shown: str) -> None:
        self._schema, self._shown = schema, shown
        self._class = lock_class(schema)
        self._number = len(migrations())
        """The schema that this release may work on, as far as it was looked up."""

    def hold(self, connection: Connection) -> None:
        """Until this transaction's end nobody brings the schema up. Raises StoreVersionError as `check` does."""
        with together(connection):
            connection.execute(_HOLD, (self._class, SCHEMA), prepare=True)
            # A statement of its own: it sees what was there once the lock was held.
            found = connection.execute(_AS_IT_IS, prepare=True)
        self.check(connection, *cast("tuple[int, str, str]", found.fetchone()))

    def check(self, connection: Connection, number: int, schema: str, synchronous: str) -> None:
        """What `AS_IT_IS` says, looked at under the lock. Raises StoreVersionError where this release may not write
        beside the last step, and StoreError where this is not the session that was opened.
        """
        if schema != self._schema or synchronous not in DURABLE:
            raise not_own_session(self._shown, schema, synchronous)
        if number != self._number:
            refuse_unknown(connection, self._schema, self._shown)
            self._number = number

    def explained(self, error: BaseException, connection: Connection) -> StoreError:
        """The typed error for what was raised: what a statement asks for may be what a newer schema has ended."""
        if isinstance(error, psycopg.ProgrammingError | psycopg.NotSupportedError) and not connection.broken:
            try:
                pending(connection, self._schema, self._shown)
            except StoreError as other:
                return other
            except psycopg.Error:
                pass  # in a transaction that has failed: the first error says more
        return as_store_error(error, self._shown)


TRIES_MAX: Final = 3

T = TypeVar("T")


class SecondConnection:
    """Opened when it is first needed. One thread at a time."""

    def __init__(self, opening: Opening, watched: Watched) -> None:
        self._opening, self._shown, self._watched = opening, opening.shown, watched
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = self._forked = False

    def run(self, change: Callable[[Connection], T]) -> T:
        """What `change` answers, when it is kept. Raises StoreError, and nothing is known to be kept then."""
        with self._lock:
            for left in reversed(range(TRIES_MAX)):
                connection = self._open()
                try:
                    with connection.transaction():
                        self._watched.hold(connection)
                        return change(connection)
                except psycopg.Error as error:
                    if self._connection is not None and (self._connection.broken or was_cut(error)):
                        self._connection.close()
                    elif not was_missed(error):
                        raise self._watched.explained(error, connection) from error
                    if not left:
                        raise as_store_error(error, self._shown) from error
        raise AssertionError("the last try answers or raises")

    def close(self) -> None:
        """Give the connection back; a change that is being made is waited for."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    def abandon(self) -> list[Connection]:
        """In a forked child: the connection is the parent's, whoever held the lock at the fork."""
        self._lock = threading.Lock()
        self._forked = True
        return [] if self._connection is None else [self._connection]

    def _open(self) -> Connection:
        if self._forked:
            raise forked_error(self._shown)
        if self._closed:
            raise closed_error()
        if self._opening.read_only:
            raise StoreReadOnlyError(f"The ledger at {self._shown} was opened read-only.")
        if self._connection is None or self._connection.closed:
            self._connection = self._opening.again()
        return self._connection
