"""Removal of erased bytes from the tables: PostgreSQL leaves old row versions in place until a VACUUM.

Called by the store. Completion is reported only with the server's confirmation: in the VACUUM's report, or, with
messages in another language, in the statistics. The server's write-ahead log, archive and standbys are out of reach.
"""

from __future__ import annotations

import re
from typing import Final

import psycopg

from readback.stores.postgres.connection.connect import Opening
from readback.stores.postgres.connection.faults import as_store_error

_LEFT: Final = re.compile(r"(\d+) are dead but not yet removable")
_MISSED: Final = re.compile(r"tuples missed: (\d+) dead")
"""On pages in use by another session. A VACUUM does not wait for them."""
COUNTS_AT_ONCE: Final = 150_000
"""From this server version on, statistics are current. Earlier, they may be from before the VACUUM."""
_DEAD: Final = (
    "SELECT current_setting('track_counts')::bool,"
    " pg_stat_get_dead_tuples(oid) + coalesce(pg_stat_get_dead_tuples(nullif(reltoastrelid, 0)), 0)"
    " FROM pg_class WHERE oid = 'payload'::regclass"
)


def purged(opening: Opening) -> bool:
    """Return whether no row of erased evidence is left in the table. Raises StoreError."""
    said: list[str] = []
    connection = opening.again()
    try:
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        connection.execute("SET statement_timeout = 0")
        connection.execute("SET client_min_messages = info")
        connection.execute("VACUUM (VERBOSE, PARALLEL 0) payload")
        left = [int(number) for each in said for number in _LEFT.findall(each)]
        if not left:
            if connection.info.server_version < COUNTS_AT_ONCE:
                return False
            counted, dead = connection.execute(_DEAD).fetchone() or (False, 0)
            return bool(counted) and not dead
    except psycopg.Error as error:
        raise as_store_error(error, opening.shown) from error
    finally:
        connection.close()
    missed = [int(number) for each in said for number in _MISSED.findall(each)]
    return not any(left) and not any(missed)
