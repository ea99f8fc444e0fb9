"""A second writing connection, for sequence numbers, seals and positions, independent of appends.

Called by the store's maintenance of the log. Each change is a small transaction of its own, and harmless to repeat.
After a broken connection the change is repeated on a new connection.
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

# Binds each change to a schema known to this release: a newer release may migrate while this process runs.

AS_IT_IS: Final = "(SELECT max(number) FROM migration), current_schema()::text, current_setting('synchronous_commit')"
"""The input of `check`. A session-sharing pooler may have replaced the session meanwhile."""
_AS_IT_IS: Final = f"SELECT {AS_IT_IS}"
_HOLD: Final = "SELECT pg_advisory_xact_lock_shared(%s::int, %s::int)"


class Watched:
    """The schema one process expects."""

    def __init__(self, schema: str, shown: str) -> None:
        self._schema, self._shown = schema, shown
        self._class = lock_class(schema)
        self._number = len(migrations())
        """The last accepted schema number."""

    def hold(self, connection: Connection) -> None:
        """Block migrations until the end of this transaction. Raises StoreVersionError like `check`."""
        with together(connection):
            connection.execute(_HOLD, (self._class, SCHEMA), prepare=True)
            # A separate statement sees the state after the acquisition of the lock.
            found = connection.execute(_AS_IT_IS, prepare=True)
        self.check(connection, *cast("tuple[int, str, str]", found.fetchone()))

    def check(self, connection: Connection, number: int, schema: str, synchronous: str) -> None:
        """Check the values of `AS_IT_IS`, read under the lock.

        Raises StoreVersionError if this release may not write beside the last step, and StoreError in a foreign
        session.
        """
        if schema != self._schema or synchronous not in DURABLE:
            raise not_own_session(self._shown, schema, synchronous)
        if number != self._number:
            refuse_unknown(connection, self._schema, self._shown)
            self._number = number

    def explained(self, error: BaseException, connection: Connection) -> StoreError:
        """Return the typed error for an exception. A newer schema may have removed the target of the statement."""
        if isinstance(error, psycopg.ProgrammingError | psycopg.NotSupportedError) and not connection.broken:
            try:
                pending(connection, self._schema, self._shown)
            except StoreError as other:
                return other
            except psycopg.Error:
                pass  # the transaction has failed, and the first error is more exact
        return as_store_error(error, self._shown)


TRIES_MAX: Final = 3

T = TypeVar("T")


class SecondConnection:
    """Opened at first use. For one thread at a time."""

    def __init__(self, opening: Opening, watched: Watched) -> None:
        self._opening, self._shown, self._watched = opening, opening.shown, watched
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = self._forked = False

    def run(self, change: Callable[[Connection], T]) -> T:
        """Return the result of `change` after its commit. After StoreError the commit is uncertain."""
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
        """Wait for a running change, and close the connection."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    def abandon(self) -> list[Connection]:
        """In a forked child: the connection is the parent's, regardless of the lock's owner at the fork."""
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
