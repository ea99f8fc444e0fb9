"""Database connections of contract files: an address, a user, a time limit.

Sources and executors each open their own connections here. The module knows no statements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final
from urllib.parse import quote

from readback.errors import SettingsError
from readback.ports.system_factory import TemplateParts
from readback.systems.configured.settings import Settled

SQLITE_TIMEOUT_MAX_S: Final = 10.0
BRIEF_INSTRUCTIONS: Final = 20_000
"""Instructions of SQLite's machine, about a millisecond."""
BRIEF_VALUE_BYTES: Final = 16_384
LONG_INSTRUCTIONS: Final = 1_000
"""A thread watches longer statements. Starting the thread costs as much as a short query."""
POSTGRES_SCHEMES: Final = ("postgresql://", "postgres://")
SILENCE_S: Final = 1.0
"""Seconds after the end of a statement's time in which the PostgreSQL server must report the timeout."""


def connection(settled: Settled, *, write: bool = False, briefly: bool = False) -> Callable[[], Any]:
    """Open a connection to the database in the settings. Raises SettingsError for an unknown scheme.

    `briefly`, for files: wait for no lock, and interrupt a long statement.
    """
    if settled.get("database") is not None:
        where = f"file:{quote(settled.path('database'))}?mode={'rw' if write else 'ro'}"
        timeout = min(settled.timeout_s, SQLITE_TIMEOUT_MAX_S)
        import sqlite3

        if briefly:

            def brief() -> sqlite3.Connection:
                opened = sqlite3.connect(where, uri=True, timeout=0, check_same_thread=False)
                opened.set_progress_handler(lambda: 1, BRIEF_INSTRUCTIONS)
                # One function over a long value is one instruction: a thread reads longer values.
                opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, BRIEF_VALUE_BYTES)
                return opened

            return brief
        most_s, bounded = settled.timeout_s, _bounded()
        return lambda: sqlite3.connect(
            where, uri=True, timeout=timeout, check_same_thread=False, factory=bounded
        ).within(most_s)
    url = str(settled.get("url"))
    if not url.startswith(POSTGRES_SCHEMES):
        raise SettingsError(
            f"The address of {settled.name!r} is not a PostgreSQL address.", remedy="Write postgresql://host/db."
        )
    staged = write and bool(settled.get("stage"))  # a staged transaction may stay open for long
    return lambda: _postgres(settled, url, 0.0 if staged else settled.timeout_s + SILENCE_S)


@cache
def _bounded() -> Any:
    """A SQLite connection that interrupts its statement at the end of the time.

    SQLite itself limits only waits for locks. A value can decide the length of a query (`with recursive`, `limit`).
    """
    import sqlite3

    class Bounded(sqlite3.Connection):
        _most_s = 0.0
        _over: Any = None

        def within(self, seconds: float) -> Bounded:
            self._most_s = seconds
            self.set_progress_handler(self._goes_on, LONG_INSTRUCTIONS)
            return self

        def _goes_on(self) -> int:
            """Start the timer of a long statement. A short statement costs no thread."""
            try:
                self._over = self._over or _ticking(self._most_s, self.interrupt)
            except OSError:
                return 1  # no thread could interrupt a long statement
            return 0

        def close(self) -> None:
            over, self._over = self._over, None
            _stopped(over)
            self.set_progress_handler(None, 0)  # break the reference cycle
            super().close()

    return Bounded


def _ticking(seconds: float, call: Callable[[], None]) -> Any:
    """Call a function at the end of the time, from a thread. Raises OSError where the system starts no thread."""
    from threading import Timer

    over = Timer(seconds, call)
    over.daemon = True
    try:
        over.start()
    except RuntimeError as error:
        raise OSError("the system starts no thread for the time limit") from error
    return over


def _stopped(over: Any) -> None:
    """Stop the thread and wait for a running call, so that the connection can be closed."""
    if over is not None:
        over.cancel()
        over.join()


def _postgres(settled: Settled, url: str, most_s: float) -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise SettingsError("PostgreSQL needs an extra.", remedy="Run: pip install 'readback-ai[postgres]'.") from error
    # Keep the options of the address, for example the schema: options passed alone would replace them.
    given = psycopg.conninfo.conninfo_to_dict(url).get("options") or _usual_options(psycopg.pq.Conninfo)
    options = f"{given} -c statement_timeout={int(settled.timeout_s * 1_000)}".strip()
    login = settled.some("user", "password")
    cls: Any = _watched(psycopg.Connection) if most_s else psycopg.Connection
    opened = cls.connect(url, connect_timeout=max(1, int(settled.timeout_s)), options=options, **login)
    return opened.within(most_s) if most_s else opened


@cache
def _watched(plain: Any) -> Any:
    """A PostgreSQL connection that is cut at the end of the time.

    The server normally ends the statement. A stalled server would otherwise block the reader.
    """
    import os
    import socket
    from contextlib import suppress

    import psycopg

    class Watched(plain):  # type: ignore[misc]
        _over: Any = None

        def within(self, seconds: float) -> Watched:
            try:
                self._over = _ticking(seconds, self._cut)
            except OSError:
                self.close()
                raise
            return self

        def _cut(self) -> None:
            with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)

        def close(self) -> None:
            over, self._over = self._over, None
            _stopped(over)
            super().close()

    return Watched


def _usual_options(conninfo: Any) -> str:
    """Options for an address without options: PGOPTIONS, or a service named in the environment."""
    usual = {each.keyword: each.val for each in conninfo.get_defaults()}
    return (usual.get(b"options") or b"").decode()


def bound(settled: Settled, pieces: object) -> tuple[str, tuple[object, ...]]:
    """Return the text with the driver's placeholders, and the values."""
    assert isinstance(pieces, TemplateParts)
    if settled.get("database") is not None:
        return "?".join(pieces.texts), pieces.values
    return "%s".join(text.replace("%", "%%") for text in pieces.texts), pieces.values
