"""Opens connections to a PostgreSQL ledger: the checks before anything in it is believed.

Called by the store when it is opened, for the writer and for each reader. It refuses what it does not know, and
changes nothing in a schema that is not ours.
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

# What a `postgresql://` URL says: where the database is, and which of its schemas holds the ledger.

SCHEMA_DEFAULT: Final = "readback"
OBJECTS_OVER_BYTES: Final = 262_144
_OURS: Final = frozenset({"schema", "objects", "objects_over"})
WHICH: Final = "target_session_attrs"
SCHEMES: Final = ("postgresql", "postgres")
OVER_DIGITS_MAX: Final = 12
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class Address:
    """`url` is libpq's; `schema` the ledger's own; `shown` the address without its password. `objects`: the URL under
    which evidence of more than `objects_over` bytes is kept; "" for none.
    """

    url: str
    schema: str
    shown: str
    objects: str = ""
    objects_over: int = OBJECTS_OVER_BYTES


def address_of(url: str, *, primary: bool = False) -> Address:
    """Splits a URL into libpq's part and ours. Raises UsageError for what is no PostgreSQL address.

    `primary`: of several hosts only the one that is the primary will do, unless the URL says which others.
    """
    scheme, found, rest = url.partition("://")
    if scheme not in SCHEMES or not found:
        raise UsageError(
            "The address is no postgresql:// URL.",
            remedy="Write postgresql://user@host:5432/database, and ?schema=NAME for a schema of its own.",
        )
    # As libpq takes it apart: who comes before an @ that is before any slash, whatever else his password holds, and a
    # plus stands for itself. What is not ours is handed on as it is written.
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
            f"The schema {schema!r} is no name for one.",
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
        raise UsageError(f"objects_over={text!r} is no number of bytes.", remedy="Write it in digits.")
    return int(text)


SERVER_VERSION_MIN: Final = 140_000
"""PostgreSQL 14: what comes before it is no longer mended."""
SERVER_VERSION_17: Final = 170_000
CONNECT_TIMEOUT_S: Final = 10
APPLICATION: Final = "readback"
LOCK_TIMEOUT_MS: Final = 30_000
STATEMENT_TIMEOUT_MS: Final = 120_000
IDLE_IN_TRANSACTION_TIMEOUT_MS: Final = 60_000
"""A writer that was stopped in the middle keeps others waiting no longer than this."""
TCP_SILENCE_MS: Final = 20_000
"""A peer that acknowledges nothing for so long counts as gone."""
RECONNECT_TRIES_MAX: Final = 100
RECONNECT_PAUSE_MS: Final = 100
"""A server that starts again is waited for, and a standby to take over: ten seconds, and what each try itself takes."""
RECONNECT_SILENT_MAX: Final = 3
"""Of these, so many may end in no answer at all (`CONNECT_TIMEOUT_S` each)."""

Connection = psycopg.Connection[tuple[Any, ...]]

_SESSION: Final = {
    # Each statement finds its rows by an index, however empty a table was when its plan was made.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "default_transaction_isolation": "read committed",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",  # that a commit did not wait for its standby is said with a warning
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    "statement_timeout": str(STATEMENT_TIMEOUT_MS),
    "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_TIMEOUT_MS),
}

_SINCE_17: Final = {"transaction_timeout": "0"}
"""What a server of before would not know. Each statement, and each pause between two, has a limit of its own."""
WRITES: Final = {"synchronous_commit": "on", "default_transaction_read_only": "off"}
DURABLE: Final = frozenset({"on", "remote_apply"})
"""What `synchronous_commit` may be."""
READS: Final = {"default_transaction_read_only": "on"}


def waited_for(connect: Callable[[], Connection], said: str) -> Connection:
    """A connection in place of one that broke, as soon as there is one. Raises StoreError."""
    pause, silent = threading.Event(), 0
    for left in reversed(range(RECONNECT_TRIES_MAX)):
        try:
            return connect()
        except StoreError as error:
            silent += isinstance(error.__cause__, errors.ConnectionTimeout)
            if error.code not in (UNREACHABLE, STANDBY) or not left or silent == RECONNECT_SILENT_MAX:
                raise
        pause.wait(RECONNECT_PAUSE_MS / 1000)
    raise AssertionError(said)  # the last try answers or raises


@dataclass(frozen=True, slots=True)
class Origin:
    """`cluster`: that which is copied; a standby that took over is of the same. `since`: another one on each server and
    after every start, also after one that only a crashed session caused: then the numbers of transactions that were
    lost are given to others.
    """

    cluster: int
    since: str


@dataclass(frozen=True, slots=True)
class Opening:
    """How one store opens its connections."""

    address: Address
    read_only: bool
    rather: str = ""
    """Another URL, which is tried before the address's own."""

    @property
    def shown(self) -> str:
        return self.address.shown

    def writer(self) -> Connection:
        """The connection that changes things; also checks the server and migrates the schema."""
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
        """The writer's connection in place of one that broke."""
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
        """Which cluster's history the server tells, and since when without a break."""
        found = connection.execute(
            "SELECT system_identifier, pg_postmaster_start_time()::text || stats_reset::text"
            " FROM pg_control_system(), pg_stat_bgwriter"
        ).fetchone()
        return Origin(*cast("tuple[int, str]", found))

    def reader(self) -> Connection:
        """A connection that looks and changes nothing. Where the ledger is written too, the primary is what is looked
        at: a standby may lack what was acknowledged, which would be taken for lost.
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
        """The reader of a store that is opened read-only: with the checks that the writer would make."""
        connection = self.reader()
        try:
            self._refuse_unfit(connection, writes=False)
            missing = pending(connection, self.address.schema, self.shown)
            if len(missing) and missing[0].number == 1:
                raise StoreError(
                    f"There is no ledger at {self.shown}.",
                    remedy="Check the address; a store that is opened read-only is not created.",
                    code="store.absent",
                )
            if missing:
                raise StoreVersionError(
                    f"The ledger at {self.shown} has an older schema, and read-only it cannot be brought up.",
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
                f"The address {self.shown} is none that libpq understands.",
                remedy="Check the names of its options, and write what is no letter or digit encoded: %20.",
            ) from None  # what it says may quote the password
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
                pass  # no primary is there; what else there is may be looked at
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
        """What a ledger cannot be kept on."""
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
                remedy="Let the role set synchronous_commit to on: what is acknowledged has to be on the disk.",
                code="store.not-durable",
            )


# Statements that travel together: sent one after another, and answered in one round trip.


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
