"""The recovery table of a session: the default, or the operator's own, checked before anything is opened.

Called by Session and the command line. The default table is not checked here: tests and `readback doctor` check the
default.
"""

from __future__ import annotations

from os import PathLike, fspath

from readback.config import Settings
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryTable
from readback.errors import UsageError

TableLike = str | PathLike[str] | RecoveryTable
"""A recovery table, or the path of a table's YAML file."""


def path_of(given: TableLike | None) -> str | None:
    """Return the path, if given; the settings hold the pins."""
    if given is None or isinstance(given, RecoveryTable):
        return None
    try:
        return str(fspath(given))
    except TypeError as error:
        said = f"recovery_table must be a file or a RecoveryTable (got {type(given).__name__})."
        raise UsageError(said, remedy="Pass the path of the YAML file, or the result of `load_table`.") from error


def table_in_force(given: TableLike | None, settings: Settings) -> RecoveryTable:
    """Return the given table, or the settings' table. Raises SettingsError for a table with gaps or below the floor."""
    if isinstance(given, RecoveryTable):
        if given is not DEFAULT_TABLE:
            given.check()
        return given
    if not settings.recovery_table:
        return DEFAULT_TABLE
    from readback.contracts.documents.recovery_tables import load_table  # most processes bring no table

    return load_table(settings.recovery_table, pin=settings.table_pin)
