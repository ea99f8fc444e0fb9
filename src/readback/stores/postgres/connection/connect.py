"""Opens connections to a PostgreSQL ledger, with checks before first use.

Called by the store at opening, for the writer and for each reader. Unknown schemas are refused, and foreign schemas
never changed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast
from urllib.parse import unquote

import psycopg
from psycopg import errors
from psycopg.types.numeric import Int8BinaryDumper

from readback.canon.frozen import dataclass
from readback.errors import StoreError, StoreVersionError, UsageError
from readback.stores.postgres.connection.faults import STANDBY, UNREACHABLE, as_store_error, not_the_primary
from readback.stores.postgres.connection.row_encoding import Bodies, BodiesDumper, Texts, TextsDumper
from readback.stores.postgres.connection.rows import TextDumper
from readback.stores.postgres.connection.schema import migrate, pending

# The parts of a `postgresql://` URL: the database, and the schema of the ledger.

SCHEMA_DEFAULT: Final = "readback"
OBJECTS_OVER_BYTES: Final = 262_144
_OURS: Final = frozenset({"schema", "objects", "objects_over"})
WHICH: Final = "target_session_attrs"
SCHEMES: Final = ("postgresql", "postgres")
OVER_DIGITS_MAX: Final = 12
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class Address:
    """`url` is for libpq; `schema` is the ledger's own; `shown` is the address without password. `objects`: the URL for
    evidence of more than `objects_over` bytes; "" for none.
    """

    url: str
    schema: str
    shown: str
    objects: str = ""
    objects_over: int = OBJECTS_OVER_BYTES


def address_of(url: str, *, primary: bool = False) -> Address:
    """Split a URL into libpq's part and ours. Raises UsageError for any other URL.

    `primary`: of several hosts accept only the primary, unless the URL permits others.
    """
    scheme, found, rest = url.partition("://")
    if scheme not in SCHEMES or not found:
        raise UsageError(
            "The address is no postgresql:// URL.",
            remedy="Write postgresql://user@host:5432/database, and ?schema=NAME for a schema of its own.",
        )
    # Split as libpq does: an @ before any slash ends user and password, and a plus is a plus. Foreign parameters
    # are passed on unchanged.
    who, at, after = rest.partition("@") if "@" in rest.partition("/")[0] else ("", "", rest)
    where, _, query = after.partition("?")
    if "@" in where:
        raise UsageError(
            "The address has an @ or a slash in its password.",
            remedy="Write %40 for @ and %2F for /; or keep the password in PGPASSFILE.",
        )
    user = unquote(who.partition(":")[0])
    written = [one for one in query.split("&") if one]
    options = {_named(one): unquote(one.partition("=")[2]) for one in written}
    schema = options.get("schema", SCHEMA_DEFAULT)
    if not _NAME.fullmatch(schema):
        raise UsageError(
            f"The schema {schema!r} is not a valid schema name.",
            remedy="Use small letters, digits and underscores, 48 at most, and begin with a letter.",
        )
    host = options.get("host", "")
    kept = [one for one in written if _named(one) not in _OURS]
    if primary and WHICH not in options and "," in where.partition("/")[0] + host + options.get("hostaddr", ""):
        kept.append(f"{WHICH}=primary")
    theirs = "&".join(kept)
    return Address(
        url=f"postgresql://{who}{at}{where}{'?' if theirs else ''}{theirs}",
        schema=schema,
        shown=f"{scheme}://{user + '@' if user else ''}{where} ({host + ', ' if host else ''}schema {schema})",
        objects=options.get("objects", ""),
        objects_over=_bytes_of(options.get("objects_over", str(OBJECTS_OVER_BYTES))),
    )


def _named(option: str) -> str:
    return unquote(option.partition("=")[0])


def _bytes_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= OVER_DIGITS_MAX):
        raise UsageError(f"objects_over={text!r} is not a number of bytes.", remedy="Write it in digits.")
    return int(text)


SERVER_VERSION_MIN: Final = 140_000
"""PostgreSQL 14: earlier versions receive no fixes any more."""
SERVER_VERSION_17: Final = 170_000
CONNECT_TIMEOUT_S: Final = 10
APPLICATION: Final = "readback"
LOCK_TIMEOUT_MS: Final = 30_000
STATEMENT_TIMEOUT_MS: Final = 120_000
IDLE_IN_TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Longest time a stopped writer can block others inside a transaction."""
TCP_SILENCE_MS: Final = 20_000
"""A peer without acknowledgements for so long counts as gone."""
RECONNECT_TRIES_MAX: Final = 100
RECONNECT_PAUSE_MS: Final = 100
"""Pause between attempts while a server restarts or a standby takes over: ten seconds in total, plus the attempts."""
RECONNECT_SILENT_MAX: Final = 3
"""Most attempts without any reply (`CONNECT_TIMEOUT_S` each)."""

Connection = psycopg.Connection[tuple[Any, ...]]

_SESSION: Final = {
    # Each statement uses an index, even if its plan was made for an empty table.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "default_transaction_isolation": "read committed",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",  # a commit without its standby produces only a warning
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    "statement_timeout": str(STATEMENT_TIMEOUT_MS),
    "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_TIMEOUT_MS),
}

_SINCE_17: Final = {"transaction_timeout": "0"}
"""A setting unknown to earlier servers. Each statement, and each pause between two, has a limit of its own."""
WRITES: Final = {"synchronous_commit": "on", "default_transaction_read_only": "off"}
DURABLE: Final = frozenset({"on", "remote_apply"})
"""Permitted values of `synchronous_commit`."""
READS: Final = {"default_transaction_read_only": "on"}


class Reconnection:
    """Replaces broken connections. After a wait in vain each call makes one attempt, until an attempt succeeds.

    Otherwise the callers of a server that stays away wait one after another, and an event loop waits with them.
    """

    def __init__(self) -> None:
        self._in_vain = False

    def wait(self, connect: Callable[[], Connection], said: str) -> Connection:
        """Return a replacement for a broken connection, as soon as possible. Raises StoreError."""
        pause, silent = threading.Event(), 0
        for left in reversed(range(1 if self._in_vain else RECONNECT_TRIES_MAX)):
            try:
                found = connect()
            except StoreError as error:
                silent += isinstance(error.__cause__, errors.ConnectionTimeout)
                if error.code not in (UNREACHABLE, STANDBY) or not left or silent == RECONNECT_SILENT_MAX:
                    self._in_vain = True
                    raise
            else:
                self._in_vain = False
                return found
            pause.wait(RECONNECT_PAUSE_MS / 1000)
        raise AssertionError(said)  # unreachable: the last attempt returns or raises


@dataclass(frozen=True, slots=True)
class Origin:
    """`cluster`: the replicated cluster, the same after a promotion. `since`: different for each server and after each
    start, including a restart after a crashed session. After such a restart the server reuses the ids of lost
    transactions.
    """

    cluster: int
    since: str


@dataclass(frozen=True, slots=True)
class Opening:
    """The options for the connections of one store."""

    address: Address
    read_only: bool
    rather: str = ""
    """A preferred URL, tried before the address's own."""

    @property
    def shown(self) -> str:
        return self.address.shown

    def writer(self) -> Connection:
        """Return the writing connection. Also checks the server and migrates the schema."""
        connection = self._connect(WRITES)
        try:
            self._refuse_unfit(connection)
            migrate(connection, self.address.schema, self.shown)
        except psycopg.Error as error:
            connection.close()
            raise as_store_error(error, self.shown) from error
        except StoreError:
            connection.close()
            raise
        return connection

    def again(self) -> Connection:
        """Return a new writing connection after a broken one."""
        connection = self._connect(WRITES)
        try:
            self._refuse_unfit(connection)
        except psycopg.Error as error:
            connection.close()
            raise as_store_error(error, self.shown) from error
        except StoreError:
            connection.close()
            raise
        return connection

    def origin(self, connection: Connection) -> Origin:
        """Return the identity of the cluster, and of the server's unbroken run."""
        found = connection.execute(
            "SELECT system_identifier, pg_postmaster_start_time()::text || stats_reset::text"
            " FROM pg_control_system(), pg_stat_bgwriter"
        ).fetchone()
        return Origin(*cast("tuple[int, str]", found))

    def reader(self) -> Connection:
        """Return a read-only connection. A writable store reads only from the primary: a standby may lack acknowledged
        entries, and they would seem lost.
        """
        connection = self._connect(READS)
        try:
            found = None if self.read_only else connection.execute("SELECT pg_is_in_recovery()").fetchone()
        except psycopg.Error as error:
            connection.close()
            raise as_store_error(error, self.shown) from error
        if found and found[0]:
            connection.close()
            raise not_the_primary(self.shown)
        return connection

    def first_reader(self) -> Connection:
        """Return the reader of a read-only store, with the writer's checks."""
        connection = self.reader()
        try:
            self._refuse_unfit(connection, writes=False)
            missing = pending(connection, self.address.schema, self.shown)
            if len(missing) and missing[0].number == 1:
                raise StoreError(
                    f"There is no ledger at {self.shown}.",
                    remedy="Check the address. A read-only store is never created.",
                    code="store.absent",
                )
            if missing:
                raise StoreVersionError(
                    f"The ledger at {self.shown} has an older schema, and a read-only store cannot migrate.",
                    remedy="Open it once for writing.",
                )
        except psycopg.Error as error:
            connection.close()
            raise as_store_error(error, self.shown) from error
        except StoreError:
            connection.close()
            raise
        return connection

    def _connect(self, said: Mapping[str, str]) -> Connection:
        try:
            connection = self._connected()
        except psycopg.ProgrammingError:
            raise UsageError(
                f"The address {self.shown} is invalid for libpq.",
                remedy="Check the option names, and percent-encode special characters: %20.",
            ) from None  # its text may quote the password
        except psycopg.Error as error:
            raise as_store_error(error, self.shown) from error
        try:
            settings = {**_SESSION, "search_path": f'"{self.address.schema}"', **said}
            if connection.info.server_version >= SERVER_VERSION_17:
                settings |= _SINCE_17
            names = list(settings)
            calls = ", ".join(["set_config(%s, %s, false)"] * len(names))
            connection.execute(f"SELECT {calls}", [part for name in names for part in (name, settings[name])])
            connection.adapters.register_dumper(int, Int8BinaryDumper)
            connection.adapters.register_dumper(str, TextDumper)
            connection.adapters.register_dumper(Texts, TextsDumper)
            connection.adapters.register_dumper(Bodies, BodiesDumper)
        except psycopg.Error as error:
            connection.close()
            raise as_store_error(error, self.shown) from error
        return connection

    def _connected(self) -> Connection:
        if self.rather and self.rather != self.address.url:
            try:
                return self._connected_to(self.rather)
            except psycopg.OperationalError:
                pass  # no primary is available; a standby may be read
        return self._connected_to(self.address.url)

    def _connected_to(self, url: str) -> Connection:
        return psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            fallback_application_name=APPLICATION,
            tcp_user_timeout=TCP_SILENCE_MS,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
        )

    def _refuse_unfit(self, connection: Connection, *, writes: bool = True) -> None:
        """Refuse a server unfit for a ledger."""
        version = connection.info.server_version
        if version < SERVER_VERSION_MIN:
            raise StoreError(
                f"The server of {self.shown} is PostgreSQL {version // 10_000}; {SERVER_VERSION_MIN // 10_000} or"
                " later is needed.",
                remedy="Upgrade the server.",
                code="store.server-too-old",
            )
        found = connection.execute(
            "SELECT current_setting('server_encoding'), current_setting('synchronous_commit'),"
            " current_setting('full_page_writes'), pg_is_in_recovery()"
        ).fetchone()
        encoding, synchronous, _, standby = cast("tuple[str, str, str, bool]", found)
        if encoding != "UTF8":
            raise StoreError(
                f"The database of {self.shown} is encoded in {encoding}; a ledger needs UTF8.",
                remedy="Create a database with ENCODING 'UTF8' for it.",
                code="store.encoding",
            )
        if writes and standby:
            raise not_the_primary(self.shown)
        if writes and synchronous not in DURABLE:
            raise StoreError(
                f"The session at {self.shown} commits with synchronous_commit = {synchronous}.",
                remedy="Set synchronous_commit to on for the role: acknowledged entries must be on disk.",
                code="store.not-durable",
            )


# Pipelines: several statements in one round trip.


@contextmanager
def together(connection: Connection) -> Iterator[None]:
    """Send the statements inside as one pipeline, with results at its end.

    Raises the error of the first failed statement. The server skips later statements. psycopg itself would report the
    skipped statements, also in the log of the using program.
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
