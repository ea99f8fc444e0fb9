"""Holds each change to the schema that this release knows: a newer one may bring it up while this process runs.

Called inside every transaction that changes anything. Where the schema has moved on to what this release may not write,
the transaction ends, nothing of it is kept, and whoever asked for it is told which release to use.
"""

from __future__ import annotations

from typing import Final, cast

import psycopg

from readback.domain.errors import StoreError
from readback.stores.postgres.connection.connect import DURABLE, Connection
from readback.stores.postgres.connection.faults import as_store_error, not_own_session
from readback.stores.postgres.connection.locks import SCHEMA
from readback.stores.postgres.connection.pipeline import together
from readback.stores.postgres.connection.schema import lock_class, migrations, pending, refuse_unknown

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
