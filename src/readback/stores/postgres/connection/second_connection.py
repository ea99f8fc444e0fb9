"""A second connection that changes things: places, seals and positions, out of the way of appends.

Called by the parts of the store that keep the log. Each change is a transaction of its own, small, and such that making
it twice does no harm: where a connection breaks, it is made again on a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

import psycopg

from readback.domain.errors import StoreReadOnlyError
from readback.ports.storage.store_rules import closed_error
from readback.stores.postgres.connection.connect import Connection, Opening
from readback.stores.postgres.connection.faults import as_store_error, forked_error, was_cut, was_missed
from readback.stores.postgres.connection.schema_guard import Watched

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
