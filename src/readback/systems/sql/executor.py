"""Act on a database through any DB-API 2 driver: committed statements, or a transaction left open.

Users construct the executor and call it inside actions. Answers are evidence, including a row count of zero; the
executor does not verify. A staged transaction lives in its own thread: some drivers tie a connection to a thread, and
the engine may commit from another thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import cache
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

from readback.canon import CanonError, Json, json_value, parse_json
from readback.domain.context import Context
from readback.domain.verification.observation import Observation, ObservationStatus, one_line
from readback.domain.verification.reading import Reading
from readback.errors import NotDispatchedError, ReaderTypeError, ToolError, UsageError

ROWS_MAX: Final = 100
"""Maximum rows of a returning clause in the evidence. The evidence marks a cut."""

_IDLE: Final = 0
"""PostgreSQL's client library's value for a connection without a transaction."""

_XID: Final = (
    "select pg_current_xact_id_if_assigned()::text || ':'"
    " || (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint || '.'"
    " || coalesce((extract(epoch from stats_reset) * 1000000)::bigint, 0) from pg_stat_bgwriter"
)
"""The transaction id, which outlives a lost reply, and the start time of the server.

A crashed server reuses the ids of lost transactions. None where nothing was written.
"""
_TOKEN: Final = (
    "select substring(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || ':' || pg_current_wal_insert_lsn()::text"
)
"""Timeline and log position. A replica at this position shows everything committed by now."""

_CALENDAR: Final = re.compile(r"\b(?:mon|year)")
_INTERVAL: Final = 1186
_FLOATS: Final = frozenset({700, 701, 1021, 1022})
"""Type numbers of PostgreSQL for float4, float8 and lists of floats."""
_CUT_FLOATS: Final = "select current_setting('extra_float_digits')::int < 1 as cut"
_WHOLE_FLOATS: Final = "select set_config('extra_float_digits', '3', true)"

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]
_T = TypeVar("_T")


class Connection(Protocol):
    """The part of a DB-API 2 connection used here."""

    def cursor(self) -> Any: ...
    def commit(self) -> Any: ...
    def rollback(self) -> Any: ...
    def close(self) -> Any: ...


class SqlExecutor:
    """Write to one database.

    Safe from any thread. Placeholders are the driver's own. Pass values in `params`, never in the text.

    Args:
        name: Name in evidence and messages.
        connect: Function that opens a connection or draws from a pool. The executor closes the connection after
            each use.
        sole: The action makes one call here and does nothing else. A connection that fails to open then proves
            that nothing was sent.

    Example:
        >>> import sqlite3
        >>> orders = SqlExecutor("orders", lambda: sqlite3.connect("orders.db"), sole=True)
        >>> def ship(ctx, order_id):
        ...     return orders.execute(ctx, "update orders set status = 'shipped' where id = ?", (order_id,))
    """

    def __init__(self, name: str, connect: Callable[[], Connection], *, sole: bool = False) -> None:
        self.name = name
        self._connect = connect
        self._sole = sole

    def execute(self, ctx: Context, sql: str, params: Parameters = ()) -> dict[str, Json]:
        """Run one statement and commit it.

        Args:
            ctx: Context of the action.
            sql: The statement.
            params: Values of the placeholders.

        Returns:
            `rowcount`, and `rows` where the statement returns rows.

        Raises:
            ToolError: The statement failed. Before the commit, the statement was rolled back. After a failed
                commit, the effect is open.
        """
        connection = self._open(ctx)
        with closing(connection):
            try:
                answer = _run(connection, sql, params)
            except BaseException as error:
                try:
                    connection.rollback()
                finally:
                    raise _tool_error(ctx, self.name, error, "tool.sql") from error
            try:
                connection.commit()
            except BaseException as error:
                raise _tool_error(ctx, self.name, error, "tool.commit-open") from error
        return answer

    def execute_recorded(self, ctx: Context, sql: str, params: Parameters = ()) -> dict[str, Json] | Observation:
        """Run `execute` on PostgreSQL and add the evidence for settling: `xid` and `commit_token`.

        `xid` holds the transaction id with the timeline and the start of the server; pass `xid` to `SqlSource.settled`.
        `commit_token` is the log position that a replica must reach.

        Returns:
            The answer. If the reply to the commit is lost, an observation with the `xid`: the effect is open.

        Raises:
            ToolError: The statement failed and was rolled back.
            UsageError: The connection is not to PostgreSQL.
        """
        connection = self._open(ctx)
        with closing(connection):
            if not _is_postgres(connection):
                raise UsageError(f"{self.name!r} is not connected to PostgreSQL.")
            try:
                before = _value(connection, _TOKEN)
                answer = _run(connection, sql, params)
                number = _value(connection, _XID)
            except BaseException as error:
                try:
                    connection.rollback()
                finally:
                    raise _tool_error(ctx, self.name, error, "tool.sql") from error
            xid = None if number is None else f"{str(before).partition(':')[0]}:{number}"
            try:
                connection.commit()
                token = _value(connection, _TOKEN)
            except Exception as error:
                if xid is None:
                    raise _tool_error(ctx, self.name, error, "tool.commit-open") from error
                return _open_commit(self.name, error, xid)
        return {**answer, "xid": xid, "commit_token": str(token)}

    def staged(self, ctx: Context) -> SqlStaged:
        """Open a transaction. Return it from the action: the engine verifies the state before the commit."""
        return SqlStaged(ctx, self.name, lambda: self._begin(ctx))

    def _begin(self, ctx: Context) -> Connection:
        connection = self._open(ctx)
        try:
            _begin(connection)
        except Exception as error:
            connection.close()
            raise _tool_error(ctx, self.name, error, "tool.sql") from error
        return connection

    def _open(self, ctx: Context) -> Connection:
        try:
            return self._connect()
        except Exception as error:
            if self._sole:
                raise NotDispatchedError(
                    f"{self.name!r} could not be reached: {type(error).__name__}: {error}"
                ) from error
            raise _tool_error(ctx, self.name, error, "tool.unreachable") from error


class SqlStaged:
    """An open transaction, an implementation of `ports.acting.Staged`.

    If the process dies, the database drops the transaction. Use it in a `with` block: an error in the block abandons
    the transaction, a normal end leaves the transaction open. `answer` is the last statement's, unless the action sets
    another.
    """

    def __init__(self, ctx: Context, name: str, begin: Callable[[], Connection]) -> None:
        self.answer: object = None
        self._ctx = ctx
        self._name = name
        self._look: tuple[str, Parameters, str | None, str | None] | None = None
        self._settled = ""
        self._running: Future[Any] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"readback-{name}")
        try:
            self._connection = self._there(begin)
        except BaseException:
            self._thread.shutdown(wait=False)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not self._settled:
            self.abandon()

    def execute(self, sql: str, params: Parameters = ()) -> dict[str, Json]:
        """Run one more statement inside the transaction. Raises ToolError, also where the statement ended the
        transaction.
        """
        self._still_open()
        try:
            answer = self._there(lambda: _run(self._connection, sql, params))
        except Exception as error:
            raise _tool_error(self._ctx, self._name, error, "tool.sql") from error
        if _has_ended(self._connection):
            # Earlier statements are committed by now and cannot be undone here. The engine reads them back.
            raise ToolError(
                f"A statement ended the transaction of {self._name!r} before it was verified.",
                remedy="Remove commit, rollback and statements that imply them from the action.",
                details={"action": self._ctx.action_id},
                code="tool.commit-open",
            )
        self.answer = answer
        return answer

    def look(self, sql: str, params: Parameters = (), *, version: str | None = None, stamp: str | None = None) -> None:
        """Set the query for the row of the staged state. `version` and `stamp` name columns."""
        self._look = (sql, params, version, stamp)

    def read(self) -> Reading:
        """Read the row of `look` from inside the transaction."""
        self._still_open()
        if self._look is None:
            raise UsageError("The staged transaction has nothing to show. Call its `look` in the action.")
        sql, params, version, stamp = self._look
        row = self._there(lambda: _only(self._connection, self._name, sql, params))
        if row is None:
            return Reading.absent()
        if not {version, stamp} - {None} <= set(row):
            raise ReaderTypeError(f"The look into {self._name!r} does not show the named columns.")
        number = row[version] if version else None
        mark = row[stamp] if stamp else None
        try:
            return Reading.of(
                row,
                version=number if isinstance(number, int | str) else None,
                stamp=None if mark is None else str(mark),
            )
        except CanonError as error:
            raise ReaderTypeError(f"The row of {self._name!r} has no JSON form: {error.message}") from error

    def commit(self) -> object:
        """Commit. An exception leaves the outcome open."""
        return self._settle("committed", lambda: self._connection.commit(), "tool.commit-open")

    def abandon(self) -> object:
        """Roll back."""
        return self._settle("abandoned", lambda: self._connection.rollback(), "tool.sql")

    def _settle(self, word: str, act: Callable[[], object], code: str) -> dict[str, Json]:
        self._still_open()
        self._settled = word
        if word == "abandoned":
            self._interrupt()
        try:
            self._there(act)
        except Exception as error:
            raise _tool_error(self._ctx, self._name, error, code) from error
        finally:
            self._thread.submit(self._connection.close)
            self._thread.shutdown(wait=True)
        return {"transaction": word}

    def _still_open(self) -> None:
        if self._settled:
            raise UsageError(f"The staged transaction of {self._name!r} is {self._settled} already.")

    def _interrupt(self) -> None:
        """Stop the statement of a caller over its time limit, so that the rollback need not wait."""
        if self._running is None or self._running.done():
            return
        stop = getattr(self._connection, "interrupt", None) or getattr(self._connection, "cancel", None)
        if stop is not None:
            stop()

    def _there(self, work: Callable[[], _T]) -> _T:
        self._running = running = self._thread.submit(work)
        return running.result()


def _begin(connection: Any) -> None:
    """Begin a transaction that holds from the first statement, with every driver."""
    if any(kind.__module__ == "sqlite3" for kind in type(connection).__mro__):
        if not connection.in_transaction:
            connection.execute("begin immediate")
    elif getattr(connection, "autocommit", False) is True:
        connection.autocommit = False


def _has_ended(connection: Any) -> bool:
    """Return whether the transaction is known to be over. A silent driver means unknown."""
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    return getattr(connection, "in_transaction", None) is False or status == _IDLE


def _is_postgres(connection: object) -> bool:
    return any(kind.__module__.partition(".")[0].startswith("psycopg") for kind in type(connection).__mro__)


def _value(connection: Connection, sql: str) -> object:
    with closing(connection.cursor()) as cursor:
        cursor.execute(sql)
        (value,) = cursor.fetchone()
        return value


def _open_commit(name: str, error: Exception, xid: str) -> Observation:
    """The commit was sent and not answered. The commit may have happened; the transaction id says where to ask."""
    detail = one_line(f"{name!r} lost the reply to its commit: {type(error).__name__}: {error}")
    return Observation(ObservationStatus.TIMEOUT, True, "tool.commit-open", detail, {"xid": xid}, xid, 0)


def _run(connection: Connection, sql: str, params: Parameters) -> dict[str, Json]:
    with closing(connection.cursor()) as cursor:
        _read_json_exactly(cursor, connection)
        cursor.execute(sql, params)
        if not cursor.description:
            return {"rowcount": int(cursor.rowcount)}
        columns = [str(column[0]) for column in cursor.description]
        try:
            rows = cursor.fetchmany(ROWS_MAX + 1)
            cut = len(rows) > ROWS_MAX
            while cut and cursor.fetchmany(ROWS_MAX):
                continue  # Some drivers finish a statement, and count its rows, only when all were fetched.
            shown = [json_value(_row(columns, row)) for row in rows[:ROWS_MAX]]
        except CanonError:  # drop evidence without a JSON form; the effect is unchanged
            shown, cut = [], True
        return {"rowcount": int(cursor.rowcount), "rows": shown, **({"cut": True} if cut else {})}


def _read_json_exactly(cursor: Any, connection: object) -> None:
    """Parse JSON columns with our parser: the driver's parser turns numbers into doubles."""
    driver = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
    if "psycopg" in driver:
        from psycopg.types.json import set_json_loads

        set_json_loads(parse_json, cursor)
    elif "psycopg2" in driver:
        extras = import_module("psycopg2.extras")
        extras.register_default_json(cursor, loads=parse_json)
        extras.register_default_jsonb(cursor, loads=parse_json)


def _only(connection: Connection, name: str, sql: str, params: Parameters) -> dict[str, object] | None:
    """Return the row of the query. A result of another shape is no absence and raises ReaderTypeError."""
    with closing(connection.cursor()) as cursor:
        _read_json_exactly(cursor, connection)
        _refuse_months(cursor, connection)
        cursor.execute(sql, params)
        if _cut_floats(connection, cursor.description or ()):
            cursor.execute(sql, params)
        columns = [str(column[0]) for column in cursor.description or ()]
        if not columns or len(set(columns)) != len(columns):
            raise ReaderTypeError(f"The look into {name!r} names no columns, or a column twice: {columns}.")
        rows = cursor.fetchmany(2)
        if len(rows) > 1:
            raise ReaderTypeError(f"The look into {name!r} must show at most one row.")
        return _row(columns, rows[0]) if rows else None


def _refuse_months(cursor: Any, connection: object) -> None:
    """Refuse intervals with months or years: drivers take 30 days for a month and 365 days for a year."""
    driver = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
    if "psycopg" in driver:
        cursor.adapters.register_loader("interval", _whole_spans())
    elif "psycopg2" in driver:
        core = import_module("psycopg2.extensions")
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
        raise ReaderTypeError(
            f"An interval with months or years ({text!r:.80}) is not a number of seconds.",
            remedy="Let the look cast that column, as to text.",
        )
    return text


def _cut_floats(connection: Any, shown: Sequence[Any]) -> bool:
    """Return whether the server cut the digits of floating-point numbers. The server shows all digits from now on."""
    if not _is_postgres(connection) or not any(column[1] in _FLOATS for column in shown):
        return False
    with closing(connection.cursor()) as cursor:
        cursor.execute(_CUT_FLOATS)
        (cut,) = _row(["cut"], cursor.fetchone()).values()
        if cut is True:
            cursor.execute(_WHOLE_FLOATS)
        return cut is True


def _row(columns: list[str], row: Any) -> dict[str, object]:
    if isinstance(row, Mapping):
        return {column: row[column] for column in columns}
    return dict(zip(columns, row, strict=True))


def _tool_error(ctx: Context, name: str, error: BaseException, code: str) -> BaseException:
    """Convert a driver error. Interruptions pass unchanged."""
    if not isinstance(error, Exception):
        return error
    return ToolError(
        f"{name!r} failed: {type(error).__name__}: {error}",
        remedy="Its effect is being read back.",
        details={"action": ctx.action_id},
        code=code,
    )
