"""A SQL system of record: reads rows through any DB-API 2 driver and changes nothing.

Users or contract files construct the source, and reader functions call the source. Nothing is shared with executors.
Each reading opens a connection, makes the connection read-only where the driver can, and rolls the transaction back. So
no read sees an old snapshot or leaves a trace.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import field, replace
from functools import cache
from importlib import import_module
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

from readback.canon import CanonError, parse_json
from readback.canon.frozen import dataclass
from readback.canon.limits import PAYLOAD_MAX_BYTES
from readback.domain.side_effect import Consistency
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import ReaderFailedError, ReaderTypeError, UsageError
from readback.systems.isolated.sqlite_query import looks_only

# Exact values of PostgreSQL: values rounded by a driver or a setting are refused or read again.

CAST: Final = "Let the query cast that column, as to text."
CUT_FLOATS: Final = "select current_setting('extra_float_digits')::int < 1 as cut"
"""Whether the server shows floating-point numbers with too few digits to distinguish neighbours."""
WHOLE_FLOATS: Final = "select set_config('extra_float_digits', '3', false) as digits"
_CALENDAR: Final = re.compile(r"\b(?:mon|year)")
_INTERVAL: Final = 1186
_FLOATS: Final = frozenset({700, 701, 1021, 1022})
"""Type numbers of PostgreSQL for float4, float8 and lists of floats."""


def holds_floats(connection: object, shown: Sequence[Any]) -> bool:
    """Return whether a PostgreSQL query shows floating-point numbers. `shown`: the driver's column description."""
    return bool(_drivers(connection) & {"psycopg", "psycopg2"}) and any(column[1] in _FLOATS for column in shown)


def _drivers(connection: object) -> set[str]:
    return {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}


def read_exactly(cursor: Any, connection: object) -> None:
    """Parse JSON columns with our parser, and refuse intervals with months.

    Drivers turn JSON numbers into doubles, a month into 30 days and a year into 365 days.
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
    """Return the text of an interval. Raises ReaderTypeError for months or years, which have no fixed length."""
    if text is not None and _CALENDAR.search(text):
        said = f"An interval with months or years ({text!r:.80}) is not a number of seconds."
        raise ReaderTypeError(said, remedy=CAST)
    return text


ROWS_MAX: Final = 1_000
"""Maximum rows of one `all`. A larger search raises, because the search would be incomplete."""

TIMEOUT_DEFAULT_S: Final = 30.0
VALUE_MAX_BYTES: Final = PAYLOAD_MAX_BYTES
"""Maximum bytes of one value that SQLite holds or computes. Longer values do not fit in a reading."""
SHORT_MAX_BYTES: Final = 32_768
"""The same limit where a separate process can read longer values.

One function over two values can take the product of both lengths in time, and nothing interrupts the function.
"""
ROWS_MAX_BYTES: Final = 16_777_216
"""Maximum bytes of one SQLite query."""
_GIVES_NULL: Final = re.compile("printf|format", re.IGNORECASE)
"""Functions that return null, without an error, for values over the limit."""
_TOO_BIG: Final = 18  # SQLITE_TOOBIG
LIKE_MAX_BYTES: Final = 1_000
"""Maximum bytes of a LIKE or GLOB pattern: matching takes at least the product of both lengths."""
_LIKE_LENGTH: Final = 8  # SQLITE_LIMIT_LIKE_PATTERN_LENGTH

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]

_NOT_ALL: Final = "its policies keep rows from it: read as a role with BYPASSRLS"
_READS: Final = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*+(select|with|values)\b", re.I | re.S)
_PING: Final = "select 1"
_PING_SQLITE: Final = "select count(*) from sqlite_master"
"""SQLite answers `select 1` without reading the file."""
_SQLITE_UNREACHABLE: Final = frozenset({5, 6, 9, 10, 13, 14})
"""BUSY, LOCKED, INTERRUPT, IOERR, FULL, CANTOPEN: the primary result codes where another read may see more."""
_STATE_UNREACHABLE: Final = ("08", "53", "57", "58", "40001", "40P01", "55P03")
"""SQLSTATE classes and codes of the same kind: connection, resources, shutdown, system, conflict, lock."""
_STATE_HIDDEN: Final = ("42501", "28")
"""Insufficient privilege and rejected login: invisible data may exist."""
_STATE_NO_FUNCTION: Final = "42883"
_QUOTED: Final = re.compile(
    r"""\b[eE]'(?:[^'\\]|\\.)*'|'(?:[^']|'')*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?\*/|\$([A-Za-z_]\w*)?\$.*?\$\1\$""",
    re.DOTALL,
)
"""Texts, names and comments. A semicolon inside ends no statement."""
_FURTHER: Final = re.compile(r";\s*[^\s;]")
_ALL_ROWS: Final = "set local row_security = off"
"""Make PostgreSQL refuse partial results, with SQLSTATE 42501."""
_FOLLOWS: Final = "select pg_is_in_recovery()"
_HONOURED: Final = (
    "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() >= %s::pg_lsn"
    " else pg_current_wal_insert_lsn() >= %s::pg_lsn"
    " and substring(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) = %s end"
)
_SETTLED: Final = (
    "select case when pg_is_in_recovery() then 'standby'"
    " when substring(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) <> %s then 'other timeline'"
    " else pg_xact_status(%s::text::xid8) end as said,"
    " (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint || '.'"
    " || coalesce((extract(epoch from stats_reset) * 1000000)::bigint, 0) as since from pg_stat_bgwriter"
)
"""A restarted server has another start, also where only a session crashed: see the executor's `xid`."""


@dataclass(slots=True)
class _Looked:
    """The result of one read. `instead`: the reading with the reason for a missing result."""

    rows: list[dict[str, object]] = field(default_factory=list)
    instead: Reading | None = None
    honoured: bool = False
    standby: bool = False
    """The server reported that it follows a primary."""
    hidden: bool = False
    """No rows were visible, and the database's policies hide some rows."""


class Connection(Protocol):
    """The part of a DB-API 2 connection used here."""

    def cursor(self) -> Any: ...
    def rollback(self) -> Any: ...
    def close(self) -> Any: ...


class SqlSource:
    """Read rows of one database.

    Safe from any thread. Placeholders are the driver's own. Pass values in `params`, never in the text.

    A PostgreSQL standby is read as a replica, even where the reader declares more, and proves no absence. A server
    whose policies hide rows from the role (row-level security) proves no absence either: a hidden row is not visible.

    Args:
        name: Name in readings and messages.
        connect: Function that opens a connection or draws from a pool. The source closes the connection after
            each read.
        consistency: A weaker consistency than the reader declares, for a replica.
        timeout_s: Seconds for one read of SQLite. The read is interrupted afterwards.
        database: The SQLite file behind `connect`. Queries with values over 32 KiB then run in a process of
            their own, which ends with the time limit.

    Example:
        >>> import sqlite3
        >>> orders = SqlSource("orders", lambda: sqlite3.connect(":memory:"))
        >>> orders.scalar("select 1 + 1").value
        2
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], Connection],
        *,
        consistency: Consistency | str | None = None,
        timeout_s: float = TIMEOUT_DEFAULT_S,
        database: str = "",
    ) -> None:
        if not name:
            raise UsageError("A source needs a name.")
        self.name = name
        self._connect = connect
        self._consistency = None if consistency is None else Consistency(consistency)
        self._timeout_s = timeout_s
        self._database = database

    def one(
        self,
        sql: str,
        params: Parameters = (),
        *,
        version: str | None = None,
        stamp: str | None = None,
        author: str | None = None,
        booleans: Collection[str] = (),
        commit_token: str | None = None,
    ) -> Reading:
        """Read the row of a query, or absence where there is no row.

        Args:
            sql: A query by the identity of the request.
            params: Values of the placeholders.
            version: Column of the version.
            stamp: Column of the stamp.
            author: Column of the author.
            booleans: Columns with truth values as 0 and 1, as in SQLite. The reading shows false and true.
            commit_token: Token of the write, on PostgreSQL. A replica at that position is read like the writing
                session, and the reading records so. A replica behind it stays a replica.

        Raises:
            ReaderTypeError: The query found several rows, or a column is missing.
        """
        looked = self._rows(sql, params, 2, commit_token)
        if looked.instead is not None:
            return looked.instead
        if len(looked.rows) > 1:
            raise ReaderTypeError(
                f"Source {self.name!r} found several rows for one. Select by the identity of the request."
            )
        consistency = self._lowered(looked)
        if looked.rows:
            found = self._reading(self._with_booleans(looked.rows[0], booleans), version, stamp, author, consistency)
        elif looked.hidden:
            return Reading.not_visible(f"{self.name} shows no such row to this role, and {_NOT_ALL}")
        else:
            found = Reading.absent(consistency=consistency)
        if not looked.honoured:
            return found
        raised = found.consistency is Consistency.REPLICA
        return replace(
            found, commit_token_honoured=True, consistency=Consistency.SESSION if raised else found.consistency
        )

    def all(
        self,
        sql: str,
        params: Parameters = (),
        *,
        version: str | None = None,
        stamp: str | None = None,
        author: str | None = None,
        booleans: Collection[str] = (),
    ) -> list[Reading]:
        """Read every row as a reading, for `find`.

        An empty list proves a complete search. Raises ReaderFailedError where some rows were not visible, and where a
        standby or a source with a `consistency` below strong finds nothing.
        """
        looked = self._rows(sql, params, ROWS_MAX + 1)
        if looked.instead is not None:
            raise ReaderFailedError(f"Source {self.name!r} could not be searched: {looked.instead.detail}")
        if len(looked.rows) > ROWS_MAX:
            raise ReaderFailedError(f"Source {self.name!r} found more than {ROWS_MAX} rows.")
        if looked.hidden:
            raise ReaderFailedError(f"Source {self.name!r} found nothing, and {_NOT_ALL}.")
        consistency = self._lowered(looked)
        if not looked.rows and consistency not in (None, Consistency.STRONG):
            what = "a standby" if looked.standby else f"of {consistency} consistency"
            raise ReaderFailedError(f"Source {self.name!r} is {what}: an empty search proves nothing.")
        rows = [self._with_booleans(row, booleans) for row in looked.rows]
        return [self._reading(row, version, stamp, author, consistency) for row in rows]

    def scalar(self, sql: str, params: Parameters = ()) -> Reading:
        """Read the single value of the single row, such as a count. Absent where there is no row."""
        found = self.one(sql, params)
        if not isinstance(found.value, dict):
            return found
        if len(found.value) != 1:
            raise ReaderTypeError(f"Source {self.name!r} found several columns for one value. Select one column.")
        (value,) = found.value.values()
        return Reading.of(value, consistency=found.consistency)

    def settled(self, xid: str) -> Lookup:
        """Ask PostgreSQL for the state of a transaction, by the id recorded before the commit.

        An abort is final. A commit is final if the server has not restarted since: a crashed server reuses the ids of
        lost transactions. Ask the primary: a standby, a later promoted server, or a server without the record cannot
        answer. Raises ReaderFailedError where the server cannot answer.
        """
        timeline, _, rest = xid.partition(":")
        number, _, since = rest.partition(":")
        looked = self._rows(_SETTLED, (timeline, number), 1)
        if looked.instead is not None:
            raise ReaderFailedError(f"Source {self.name!r} cannot settle the transaction: {looked.instead.detail}")
        said, runs_since = looked.rows[0].values()
        if said == "committed":
            return Lookup.landed({"xid": xid}) if since == runs_since else Lookup.unknown_key()
        if said == "aborted":
            return Lookup.failed(f"transaction {number} was aborted")
        if said == "standby":
            raise ReaderFailedError(
                f"Source {self.name!r} is a standby and cannot settle a transaction. Ask the primary."
            )
        return Lookup.pending() if said == "in progress" else Lookup.unknown_key()

    def ping(self) -> None:
        """Check the database. Raises ReaderFailedError where the database does not answer."""
        looked = self._rows(_PING, (), 1)
        if looked.instead is not None:
            raise ReaderFailedError(f"Source {self.name!r} does not answer: {looked.instead.detail}")

    def _lowered(self, looked: _Looked) -> Consistency | None:
        """Return the consistency of a reading in place of the reader's declaration."""
        if not looked.standby:
            return self._consistency
        declared = self._consistency or Consistency.REPLICA
        return declared if declared.rank < Consistency.REPLICA.rank else Consistency.REPLICA

    def _with_booleans(self, row: dict[str, object], columns: Collection[str]) -> dict[str, object]:
        """Return the row with its truth values. Raises ReaderTypeError for other values."""
        shown = dict(row)
        for column in columns:
            if column not in row:
                raise ReaderTypeError(f"Source {self.name!r} found no column {column!r} in the row.")
            value = row[column]
            if value is not None and (not isinstance(value, bool | int) or value not in (0, 1)):
                raise ReaderTypeError(f"Column {column!r} of {self.name!r} does not hold a truth value.")
            shown[column] = None if value is None else bool(value)
        return shown

    def _reading(
        self,
        row: dict[str, object],
        version: str | None,
        stamp: str | None,
        author: str | None,
        consistency: Consistency | None,
    ) -> Reading:
        for column in (version, stamp, author):
            if column is not None and column not in row:
                raise ReaderTypeError(f"Source {self.name!r} found no column {column!r} in the row.")
        number = row[version] if version else None
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | str)):
            raise ReaderTypeError(f"Column {version!r} of {self.name!r} is neither a number nor a text.")
        try:
            return Reading.of(
                row,
                version=number,
                stamp=_text(row[stamp]) if stamp else None,
                author=_text(row[author]) if author else None,
                consistency=consistency,
                forms={name: "uuid" for name, value in row.items() if isinstance(value, UUID)},
            )
        except CanonError as error:
            raise ReaderTypeError(
                f"A row of {self.name!r} has no JSON form: {error.message}",
                remedy="Let the query cast that column, as to text, or leave it out.",
            ) from error

    def _rows(self, sql: str, params: Parameters, limit: int, token: str | None = None) -> _Looked:
        """Return at most `limit` rows, or the reading with the reason for missing rows."""
        if _READS.match(sql) is None or _FURTHER.search(_QUOTED.sub(" ", sql)):
            raise ReaderFailedError(f"Source {self.name!r} reads only: pass one select, with or values statement.")
        try:
            with closing(self._connect()) as connection, _interrupted(connection, self._timeout_s):
                apart = self._database and _GIVES_NULL.search(sql) is None
                _read_only(connection, SHORT_MAX_BYTES if apart else VALUE_MAX_BYTES)
                try:
                    # Ask first: the later read is at least as new.
                    honoured = token is not None and self._honours(connection, token)
                    found = self._fetch(connection, sql, params, limit)
                    looked = _Looked(found, honoured=honoured, standby=self._follows(connection))
                    looked.hidden = not found and self._hides(connection, sql, params)
                    return looked
                finally:
                    _unlocked(connection)
                    connection.rollback()
        except CanonError as error:
            raise ReaderTypeError(f"A row of {self.name!r} has no JSON form: {error.message}") from error
        except NotImplementedError as error:  # drivers parse only the default style of dates and intervals
            raise ReaderTypeError(f"A row of {self.name!r} cannot be read: {error}", remedy=CAST) from error
        except OSError as error:
            return _Looked(instead=Reading.unavailable(f"{type(error).__name__}: {error}"))
        except Exception as error:
            if not _is_driver_error(error):
                raise
            if self._database and getattr(error, "sqlite_errorcode", 0) == _TOO_BIG:
                return self._apart(sql, params, limit)
            detail = f"{type(error).__name__}: {error}"
            if _is_hidden(error):
                return _Looked(instead=Reading.not_visible(detail))
            if _is_unreachable(error):
                return _Looked(instead=Reading.unavailable(detail))
            raise ReaderFailedError(f"Source {self.name!r} answered with an error: {detail}") from error

    def _apart(self, sql: str, params: Parameters, limit: int) -> _Looked:
        """Read the same rows in a separate process, where a long value may take its time."""
        from readback.systems.isolated.process import rows

        try:
            return _Looked(rows(self.name, self._database, sql, params, limit, self._timeout_s))
        except OSError as error:  # includes TimeoutError
            return _Looked(instead=Reading.unavailable(f"{type(error).__name__}: {error}"))

    def _honours(self, connection: Connection, token: str) -> bool:
        """Return whether this server has replayed the write, or wrote it on the same timeline."""
        if not _is_postgres(connection):
            raise UsageError(f"Source {self.name!r} is not connected to PostgreSQL and has no commit tokens.")
        timeline, _, place = token.partition(":")
        (row,) = self._fetch(connection, _HONOURED, (place, place, timeline), 1)
        return next(iter(row.values())) is True

    def _follows(self, connection: Any) -> bool:
        """Return whether the server follows a primary.

        PostgreSQL 14 and later report their role. Older servers and poolers report nothing, so the server is asked.
        """
        if not _is_postgres(connection):
            return False
        said = connection.info.parameter_status("in_hot_standby")
        if said is not None:
            return bool(said == "on")
        try:
            (row,) = self._fetch(connection, _FOLLOWS, (), 1)
        except Exception as error:
            if _state(error) != _STATE_NO_FUNCTION:
                raise
            return False  # another database with PostgreSQL's protocol
        return next(iter(row.values())) is True

    def _hides(self, connection: Any, sql: str, params: Parameters) -> bool:
        """Return whether policies may hide rows from this query. The last question of a read."""
        if not _is_postgres(connection):
            return False
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute(_ALL_ROWS)
                cursor.execute(f"explain {sql}", params)
        except Exception as error:
            if not _is_driver_error(error) or _is_unreachable(error):
                raise
            return _is_hidden(error)
        return False

    def _fetch(self, connection: Connection, sql: str, params: Parameters, limit: int) -> list[dict[str, object]]:
        with closing(connection.cursor()) as cursor:
            read_exactly(cursor, connection)
            cursor.execute(_PING_SQLITE if sql == _PING and _is_sqlite(connection) else sql, params)
            shown = cursor.description or ()
            columns = [str(column[0]) for column in shown]
            if not columns or len(set(columns)) != len(columns):
                raise ReaderTypeError(f"A query of {self.name!r} names no columns, or a column twice: {columns}.")
            if _is_sqlite(connection):
                return self._bounded(columns, cursor, limit)
            rows = [_row(columns, row) for row in cursor.fetchmany(limit)]
            if holds_floats(connection, shown) and self._fetch(connection, CUT_FLOATS, (), 1)[0]["cut"]:
                self._fetch(connection, WHOLE_FLOATS, (), 1)
                cursor.execute(sql, params)
                rows = [_row(columns, row) for row in cursor.fetchmany(limit)]
            return rows

    def _bounded(self, columns: list[str], cursor: Any, limit: int) -> list[dict[str, object]]:
        """Yield rows of SQLite, row by row. Raises ReaderTypeError for too many bytes."""
        rows: list[dict[str, object]] = []
        size = 0
        for row in islice(cursor, limit):
            rows.append(_row(columns, row))
            size += sum(len(each) for each in rows[-1].values() if isinstance(each, str | bytes))
            if size > ROWS_MAX_BYTES:
                raise ReaderTypeError(f"A query of {self.name!r} gives more than {ROWS_MAX_BYTES} bytes.")
        return rows


def _row(columns: list[str], row: Any) -> dict[str, object]:
    """Some drivers return mappings in place of tuples."""
    if isinstance(row, Mapping):
        return {column: row[column] for column in columns}
    return dict(zip(columns, row, strict=True))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _is_sqlite(connection: object) -> bool:
    return any(kind.__module__ == "sqlite3" for kind in type(connection).__mro__)


def _is_postgres(connection: object) -> bool:
    return any(kind.__module__.partition(".")[0].startswith("psycopg") for kind in type(connection).__mro__)


def _read_only(connection: Any, value_bytes: int) -> None:
    """Make the connection read-only where the driver can. The roll-back is the first protection.

    SQLite's authorizer allows selects and read-only pragmas. A limit on the length of values bounds the time of one
    function over a value.
    """
    if _is_sqlite(connection):
        import sqlite3

        connection.execute("pragma query_only = on")
        for limit, most in ((sqlite3.SQLITE_LIMIT_LENGTH, value_bytes), (_LIKE_LENGTH, LIKE_MAX_BYTES)):
            if connection.getlimit(limit) > most:
                connection.setlimit(limit, most)
        connection.set_authorizer(looks_only)
    elif hasattr(type(connection), "read_only"):
        connection.read_only = True


def _unlocked(connection: Any) -> None:
    """Undo the limits: a pooled connection may write for others."""
    if _is_sqlite(connection):
        connection.set_authorizer(None)


@contextmanager
def _interrupted(connection: Any, seconds: float) -> Iterator[None]:
    """Interrupt a SQLite statement at the end of its time. Raises OSError.

    Drivers of servers have their own limits. A connection that limits its own statements, as in contract files, keeps
    that limit.
    """
    if not _is_sqlite(connection) or hasattr(connection, "within"):
        yield
        return
    over = threading.Timer(seconds, connection.interrupt)
    over.daemon = True
    try:
        over.start()
    except RuntimeError as error:
        raise OSError("the system starts no thread for the time limit") from error
    try:
        yield
    finally:
        over.cancel()
        over.join()


# --- what an error of a driver means, by the names and codes that DB-API drivers share --------------------------


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _is_driver_error(error: BaseException) -> bool:
    return bool(_names(error) & {"DatabaseError", "InterfaceError", "Warning"})


def _state(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")


def _is_hidden(error: BaseException) -> bool:
    return _state(error).startswith(_STATE_HIDDEN)


def _is_unreachable(error: BaseException) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return code & 0xFF in _SQLITE_UNREACHABLE
    state = _state(error)
    if state:
        return state.startswith(_STATE_UNREACHABLE)
    return "OperationalError" in _names(error)
