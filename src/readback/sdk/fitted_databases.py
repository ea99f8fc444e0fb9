"""How a contract file's SQL reaches its database: by an address, as a user, for a limited time.

Called by `sdk.fitted_sources` and `sdk.fitted_executors`, each of which opens connections of its own. It knows no
statement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from readback.domain.errors import SettingsError
from readback.ports.fittings import Pieces
from readback.sdk.fitted_settings import Settled

SQLITE_TIMEOUT_MAX_S: Final = 10.0
BRIEF_INSTRUCTIONS: Final = 20_000
"""Of SQLite's machine: about a thousandth of a second."""
POSTGRES_SCHEMES: Final = ("postgresql://", "postgres://")
SILENCE_S: Final = 1.0
"""How long after a statement's time is over its PostgreSQL server may take to say so."""


def connection(settled: Settled, *, write: bool = False, briefly: bool = False) -> Callable[[], Any]:
    """Opens a connection to the database that the settings name. Raises SettingsError for no such scheme.

    `briefly`: to a file; it waits for nobody's lock, and a statement that goes on for long is interrupted.
    """
    if settled.get("database") is not None:
        where = f"file:{quote(settled.path('database'))}?mode={'rw' if write else 'ro'}"
        timeout = min(settled.timeout_s, SQLITE_TIMEOUT_MAX_S)
        import sqlite3

        if briefly:

            def brief() -> sqlite3.Connection:
                opened = sqlite3.connect(where, uri=True, timeout=0, check_same_thread=False)
                opened.set_progress_handler(lambda: 1, BRIEF_INSTRUCTIONS)
                return opened

            return brief
        bounded = _bounded(settled.timeout_s)
        return lambda: sqlite3.connect(where, uri=True, timeout=timeout, check_same_thread=False, factory=bounded)
    url = str(settled.get("url"))
    if not url.startswith(POSTGRES_SCHEMES):
        raise SettingsError(
            f"The address of {settled.name!r} is none of PostgreSQL.", remedy="Write postgresql://host/db."
        )
    staged = write and bool(settled.get("stage"))  # one that stays open is not judged by how long it does
    return lambda: _postgres(settled, url, 0.0 if staged else settled.timeout_s + SILENCE_S)


def _bounded(seconds: float) -> Any:
    """A connection to SQLite whose statement is interrupted when its time is over: the library limits the waiting for
    others alone, and a value may make a search as long as it likes (`glob '*a*a*a*...'`).
    """
    import sqlite3
    from threading import Timer

    class Bounded(sqlite3.Connection):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            self._over = Timer(seconds, self.interrupt)
            self._over.daemon = True
            try:
                self._over.start()
            except RuntimeError as error:
                super().close()
                raise OSError("the system gives no thread that would watch over it") from error

        def close(self) -> None:
            self._over.cancel()
            self._over.join()  # it interrupts no connection that is closed
            super().close()

    return Bounded


def _postgres(settled: Settled, url: str, most_s: float) -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise SettingsError("PostgreSQL needs an extra.", remedy="Run: pip install 'readback[postgres]'.") from error
    # Beside those of the address, which may name the schema that is meant: given alone, these took their place.
    given = psycopg.conninfo.conninfo_to_dict(url).get("options") or _usual_options(psycopg.pq.Conninfo)
    options = f"{given} -c statement_timeout={int(settled.timeout_s * 1_000)}".strip()
    login = settled.some("user", "password")
    cls: Any = _watched(psycopg.Connection, most_s) if most_s else psycopg.Connection
    return cls.connect(url, connect_timeout=max(1, int(settled.timeout_s)), options=options, **login)


def _watched(plain: Any, seconds: float) -> Any:
    """A connection to PostgreSQL that is cut when its time is over: a server that stands still would be waited for as
    long as it does, since it is the one that ends a statement in time.
    """
    import os
    import socket
    from contextlib import suppress
    from threading import Timer

    import psycopg

    class Watched(plain):  # type: ignore[misc]
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            self._over = Timer(seconds, self._cut)
            self._over.daemon = True
            try:
                self._over.start()
            except RuntimeError as error:
                super().close()
                raise OSError("the system gives no thread that would watch over it") from error

        def _cut(self) -> None:
            with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)

        def close(self) -> None:
            self._over.cancel()
            self._over.join()  # it cuts no connection that is closed
            super().close()

    return Watched


def _usual_options(conninfo: Any) -> str:
    """What an address without options has: by PGOPTIONS, or a service that the environment names."""
    usual = {each.keyword: each.val for each in conninfo.get_defaults()}
    return (usual.get(b"options") or b"").decode()


def bound(settled: Settled, pieces: object) -> tuple[str, tuple[object, ...]]:
    """The text with the driver's own marks, and the values beside it."""
    assert isinstance(pieces, Pieces)
    if settled.get("database") is not None:
        return "?".join(pieces.texts), pieces.values
    return "%s".join(text.replace("%", "%%") for text in pieces.texts), pieces.values
