"""Takes what was erased out of the tables: PostgreSQL leaves what an update replaced where it was, until a VACUUM.

Called by the store. It says that it is done only where the server says so, in its report or, where that is in another
language, in its statistics; of the server's write-ahead log, its archive and its standbys it knows nothing.
"""

from __future__ import annotations

import re
from typing import Final

import psycopg

from readback.stores.postgres.connection.connect import Opening
from readback.stores.postgres.connection.faults import as_store_error

_LEFT: Final = re.compile(r"(\d+) are dead but not yet removable")
_MISSED: Final = re.compile(r"tuples missed: (\d+) dead")
"""On pages that somebody had in hand, which a VACUUM does not wait for."""
COUNTS_AT_ONCE: Final = 150_000
"""From this version of the server on its statistics are those of now. Before, they may be of before the VACUUM."""
_DEAD: Final = (
    "SELECT current_setting('track_counts')::bool,"
    " pg_stat_get_dead_tuples(oid) + coalesce(pg_stat_get_dead_tuples(nullif(reltoastrelid, 0)), 0)"
    " FROM pg_class WHERE oid = 'payload'::regclass"
)


def purged(opening: Opening) -> bool:
    """Whether no row of erased evidence is left in the table. Raises StoreError."""
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
