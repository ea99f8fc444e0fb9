"""Takes what was erased out of the tables: PostgreSQL leaves what an update replaced where it was, until a VACUUM.

Called by the store. It says that it is done only where the server says so; of the server's write-ahead log, its
archive and its standbys it knows nothing.
"""

from __future__ import annotations

import re
from typing import Final

import psycopg

from readback.adapters.store_postgres.faults import as_store_error
from readback.adapters.store_postgres.opening import Opening

_LEFT: Final = re.compile(r"(\d+) are dead but not yet removable")


def purged(opening: Opening) -> bool:
    """Whether no row of erased evidence is left in the table. Raises StoreError."""
    said: list[str] = []
    connection = opening.again()
    try:
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        connection.execute("SET statement_timeout = 0")
        connection.execute("SET client_min_messages = info")
        connection.execute("VACUUM (VERBOSE, PARALLEL 0) evidence")
    except psycopg.Error as error:
        raise as_store_error(error, opening.shown) from error
    finally:
        connection.close()
    left = [int(number) for each in said for number in _LEFT.findall(each)]
    return bool(left) and not any(left)
