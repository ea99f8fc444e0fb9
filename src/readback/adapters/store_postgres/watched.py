"""Holds each change to the schema that this release knows: a newer one may bring it up while this process runs.

Called inside every transaction that changes anything. Where the schema has moved on to what this release may not write,
the transaction ends, nothing of it is kept, and whoever asked for it is told which release to use.
"""

from __future__ import annotations

from typing import Final, cast

import psycopg

from readback.adapters.store_postgres.claiming import SCHEMA
from readback.adapters.store_postgres.faults import as_store_error
from readback.adapters.store_postgres.opening import Connection
from readback.adapters.store_postgres.pipelining import together
from readback.adapters.store_postgres.schema import lock_class, migrations, pending, refuse_unknown
from readback.domain.errors import StoreError

_NEWEST: Final = "SELECT max(number) FROM migration"
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
            found = connection.execute(_NEWEST, prepare=True)
        self.check(connection, cast("tuple[int]", found.fetchone())[0])

    def check(self, connection: Connection, number: int) -> None:
        """`number`: the last step, looked at under the lock. Raises StoreVersionError where this release may not
        write beside it.
        """
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
