"""A query of SQLite whose values are too long for a process that must not wait: the same rows, from a process apart.

Called by `source_sql`. One function over two long values takes the product of their lengths, and the library interrupts
none; a process is ended with its time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from readback.canon import Json
from readback.canon.limits import PAYLOAD_MAX_BYTES
from readback.domain.errors import ReaderFailedError, ReaderTypeError
from readback.systems.isolated.process import query

STEPS_MAX: Final = 1_000_000_000


def rows(
    name: str, database: str, sql: str, params: Iterable[object], limit: int, timeout_s: float
) -> list[dict[str, object]]:
    """At most `limit` rows. Raises OSError where it took too long or cannot be asked, ReaderTypeError, and
    ReaderFailedError with what SQLite says.
    """
    given = [*params]
    plain: list[Json] = [each for each in given if each is None or isinstance(each, bool | int | float | str)]
    if len(plain) < len(given):
        raise ReaderFailedError(f"Source {name!r} asks for values over 32 KiB with a parameter of bytes.")
    try:
        found = query(
            database,
            sql,
            plain,
            timeout_s=timeout_s,
            steps=STEPS_MAX,
            rows=limit,
            value_bytes=PAYLOAD_MAX_BYTES,
            as_bytes=True,
        )
    except ValueError as error:
        raise ReaderTypeError(f"Source {name!r}: {error}.") from error
    except RuntimeError as error:
        raise ReaderFailedError(f"Source {name!r} answered with an error: {error}") from error
    return [dict(row) for row in found]
