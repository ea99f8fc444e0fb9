"""Statements that travel together: sent one after another, and answered in one round trip.

Called wherever several statements have no need of each other's answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from readback.stores.postgres.connection.connect import Connection


@contextmanager
def together(connection: Connection) -> Iterator[None]:
    """What runs inside is answered when it ends. The error that is raised is the first statement's that failed: those
    after it were not carried out, and psycopg itself would say so instead, and in the log of whoever uses us.
    """
    first: psycopg.Error | None = None
    try:
        with connection.pipeline():
            try:
                yield
            except psycopg.Error as error:
                first = error
    except psycopg.Error as error:
        raise first or error from None
    if first is not None:
        raise first
