"""Public: built-in executors act on systems of record, and built-in sources read systems of record.

Contract authors construct both, and call both inside actions and readers. Each system of record has a folder:
`executor` acts, `source` reads. Neither half imports the other. A class is imported at first use.

Example:
    >>> import sqlite3
    >>> from readback.systems import SqlExecutor, SqlSource
    >>> orders = SqlExecutor("orders", lambda: sqlite3.connect("orders.db"))
    >>> shop = SqlSource("orders", lambda: sqlite3.connect("orders.db"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readback.systems.command.executor import CommandExecutor
    from readback.systems.command.source import CommandSource
    from readback.systems.files.executor import FileExecutor
    from readback.systems.files.source import FileSource
    from readback.systems.git.source import GitSource
    from readback.systems.http.answer import CommitToken
    from readback.systems.http.executor import HttpExecutor
    from readback.systems.http.source import HttpSource
    from readback.systems.mail.executor import SmtpExecutor
    from readback.systems.mail.source import ImapSource
    from readback.systems.s3.executor import S3Executor
    from readback.systems.s3.source import S3Source
    from readback.systems.sql.executor import SqlExecutor
    from readback.systems.sql.source import SqlSource
    from readback.systems.tables.source import TablesSource

_HOMES = {
    "CommandExecutor": "readback.systems.command.executor",
    "CommandSource": "readback.systems.command.source",
    "CommitToken": "readback.systems.http.answer",
    "FileExecutor": "readback.systems.files.executor",
    "FileSource": "readback.systems.files.source",
    "GitSource": "readback.systems.git.source",
    "HttpExecutor": "readback.systems.http.executor",
    "HttpSource": "readback.systems.http.source",
    "ImapSource": "readback.systems.mail.source",
    "S3Executor": "readback.systems.s3.executor",
    "S3Source": "readback.systems.s3.source",
    "SmtpExecutor": "readback.systems.mail.executor",
    "SqlExecutor": "readback.systems.sql.executor",
    "SqlSource": "readback.systems.sql.source",
    "TablesSource": "readback.systems.tables.source",
}

__all__ = [
    "CommandExecutor",
    "CommandSource",
    "CommitToken",
    "FileExecutor",
    "FileSource",
    "GitSource",
    "HttpExecutor",
    "HttpSource",
    "ImapSource",
    "S3Executor",
    "S3Source",
    "SmtpExecutor",
    "SqlExecutor",
    "SqlSource",
    "TablesSource",
]


def __getattr__(name: str) -> object:
    """Import a public class at first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return list(__all__)
