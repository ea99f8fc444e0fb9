"""Translation of PostgreSQL's errors into `readback.errors`.

Called at each access to the database. No retry is decided here.
"""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors

from readback.errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
)

OVERTAKEN: Final = "RB001"
"""The SQLSTATE of our own function `hold`."""

UNREACHABLE: Final = "store.unreachable"
UNDETERMINED: Final = "store.undetermined"
STANDBY: Final = "store.standby"

_MISSED: Final = (errors.SerializationFailure, errors.DeadlockDetected)
_BAD_VALUES: Final = (psycopg.DataError, UnicodeError, OverflowError, TypeError)
_AWAY: Final = frozenset({"57P01", "57P02", "57P03", "57P05"})
"""The server is stopping or starting."""
_CROWDED: Final = ("too many connections", "too many clients", "connection slots are reserved")
"""The text of a server with English messages."""


def was_missed(error: BaseException) -> bool:
    """Return whether the transaction failed only because of other sessions. Nothing was stored, and a retry is safe."""
    return isinstance(error, _MISSED) or getattr(error, "sqlstate", None) == OVERTAKEN


def was_cut(error: BaseException) -> bool:
    """Return whether the connection is gone, so the result of the transaction is unknown."""
    if isinstance(error, errors.PipelineAborted):
        return False  # a statement after the failed statement; the session is intact
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and (
        error.sqlstate is None or error.sqlstate in _AWAY or error.sqlstate.startswith("08")
    )


def was_crowded(error: StoreError) -> bool:
    """Return whether the server refused a further connection. A process with other connections may wait for one of
    them.
    """
    cause = error.__cause__
    return isinstance(cause, errors.TooManyConnections) or any(each in str(cause) for each in _CROWDED)


def is_bad_value(error: BaseException) -> bool:
    """Return whether one append's values caused the error. The error must not fail the group's other appends."""
    return isinstance(error, (*_BAD_VALUES, errors.ProgramLimitExceeded, errors.StatementTooComplex))


def as_store_error(error: BaseException, shown: str) -> StoreError:
    """Return the typed error for an exception. The text names the ledger and the remedy."""
    said = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if isinstance(error, StoreError):
        return error
    if is_bad_value(error):
        return unstorable(said)
    match error:
        case errors.LockNotAvailable() | errors.QueryCanceled() | errors.DeadlockDetected():
            return StoreLockedError(
                f"The ledger at {shown} is locked by another session ({said}).",
                remedy="Find the session in pg_stat_activity and end it; then run `readback resume`. Nothing changed.",
                details={"path": shown, "holders": ()},
            )
        case errors.ReadOnlySqlTransaction() | errors.InsufficientPrivilege():
            return StoreReadOnlyError(
                f"The ledger at {shown} cannot be written ({said}).",
                remedy="Connect to the primary, with a role that may write the ledger's schema.",
            )
        case errors.DiskFull() | errors.OutOfMemory():
            return StoreFullError(f"There is no space left for the ledger at {shown} ({said}).")
        case errors.TooManyConnections():
            return _crowded(shown, said)
        case psycopg.OperationalError() if error.sqlstate is None and any(each in said for each in _CROWDED):
            return _crowded(shown, said)  # before the session exists, a server sends only a text
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return StoreCorruptError(
                f"The database {shown} is damaged ({said}).",
                remedy="Keep it as it is, restore the last backup, and run `readback ledger verify`.",
            )
        case errors.IoError():
            return StoreError(
                f"The disk under {shown} failed ({said}).",
                remedy="Check the volume and the server's log; then run `readback ledger verify`.",
                code="store.io",
            )
        case _ if was_cut(error):
            return unreachable(shown, said)
        case _:
            return StoreError(f"The ledger at {shown} could not be used ({said}).")


def unreachable(shown: str, said: str) -> StoreError:
    """Return the error for a server without a reply."""
    return StoreError(
        f"The ledger at {shown} cannot be reached ({said}).",
        remedy="Check the address, the network and that the server runs; then run `readback resume`.",
        code=UNREACHABLE,
    )


def not_the_primary(shown: str) -> StoreError:
    """Return the error for a standby: writes are refused, and reads may lack acknowledged entries."""
    return StoreError(
        f"The server of {shown} is a standby; a ledger is written on the primary.",
        remedy="Give the primary's address, or the addresses of all servers: Readback connects to the primary.",
        code=STANDBY,
    )


def _crowded(shown: str, said: str) -> StoreError:
    """Return the error for the session limit of a server, database or role. The end of any session makes room."""
    return StoreError(
        f"The server of {shown} takes no more connections ({said}).",
        remedy="Raise max_connections, or the limit of the role or the database, or let fewer processes use it.",
        code=UNREACHABLE,
    )


def unstorable(said: str) -> StoreError:
    """Return the error for a value the database refuses: the fault of this append, not of the store."""
    return StoreError(
        f"A value of this append cannot be stored ({said}); nothing of it was kept.",
        remedy="Report this error: values must be bounded before they reach the store.",
        code="store.value",
    )


def undetermined(shown: str, said: str) -> StoreError:
    """Return the error for a lost reply to a COMMIT, with an unknown result."""
    return StoreError(
        f"The connection to {shown} broke during a commit, and the result is unknown ({said}).",
        remedy="Run `readback resume`: a stored change is found by its version, and never repeated.",
        code=UNDETERMINED,
    )


def not_own_session(shown: str, schema: str, synchronous: str) -> StoreError:
    """Return the error for foreign session settings: an append could reach another schema, or stay volatile."""
    return StoreError(
        f"The session at {shown} is shared with others: it works in schema {schema}, with synchronous_commit ="
        f" {synchronous}. Nothing was kept.",
        remedy="Set the pooler to session pooling, or connect directly to the server.",
        code="store.session",
    )


def forked_error(shown: str) -> StoreError:
    """Two processes on one connection misread each other's replies."""
    return StoreError(
        f"The ledger at {shown} was opened before this process was forked and cannot be used in the child.",
        remedy="Open the store again in the child process.",
        code="store.forked",
    )
