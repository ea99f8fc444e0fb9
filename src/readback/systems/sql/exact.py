"""Values of PostgreSQL as they are: what a driver or a setting would round is refused, or asked for again.

Used by `source_sql`. The executor has its own, since what verifies shares no code path with what acts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

from readback.canon import parse_json
from readback.domain.errors import ReaderTypeError

CAST: Final = "Let the query cast that column, as to text."
CUT_FLOATS: Final = "select current_setting('extra_float_digits')::int < 1 as cut"
"""Whether the server shows floating-point numbers with fewer digits than tell one from the next."""
WHOLE_FLOATS: Final = "select set_config('extra_float_digits', '3', false) as digits"
_CALENDAR: Final = re.compile(r"\b(?:mon|year)")
_INTERVAL: Final = 1186
_FLOATS: Final = frozenset({700, 701, 1021, 1022})
"""Types of columns, by PostgreSQL's numbers: float4 and float8, and lists of them."""


def holds_floats(connection: object, shown: Sequence[Any]) -> bool:
    """Whether a query of PostgreSQL shows floating-point numbers. `shown`: the driver's description of its columns."""
    return bool(_drivers(connection) & {"psycopg", "psycopg2"}) and any(column[1] in _FLOATS for column in shown)


def _drivers(connection: object) -> set[str]:
    return {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}


def read_exactly(cursor: Any, connection: object) -> None:
    """Has the driver's columns of JSON read by the one parser, and takes no interval with months.

    The drivers make doubles of JSON's numbers, 30 days of a month and 365 of a year.
    """
    driver = _drivers(connection)
    if "psycopg" in driver:
        from psycopg.types.json import set_json_loads

        set_json_loads(parse_json, cursor)
        cursor.adapters.register_loader("interval", _whole_spans())
    elif "psycopg2" in driver:
        extras, core = import_module("psycopg2.extras"), import_module("psycopg2.extensions")
        extras.register_default_json(cursor, loads=parse_json)
        extras.register_default_jsonb(cursor, loads=parse_json)
        own = core.INTERVAL
        core.register_type(core.new_type((_INTERVAL,), "INTERVAL", lambda text, at: own(_of_days(text), at)), cursor)


@cache
def _whole_spans() -> Any:
    from psycopg.types.datetime import IntervalLoader

    class WholeSpans(IntervalLoader):
        def load(self, data: Any) -> Any:
            _of_days(bytes(data).decode())
            return super().load(data)

    return WholeSpans


def _of_days(text: str | None) -> str | None:
    """The text of an interval. Raises ReaderTypeError for one with months or years, which have no fixed length."""
    if text is not None and _CALENDAR.search(text):
        said = f"An interval with months or years ({text!r:.80}) is no number of seconds."
        raise ReaderTypeError(said, remedy=CAST)
    return text
