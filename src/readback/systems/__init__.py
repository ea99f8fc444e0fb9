"""The built-in sources and executors: what reads systems of record, and what acts on systems.

Used by authors of contracts, who construct them and call them inside readers and actions. They are chosen by the
composition root, and imported when they are first used; nothing here acts or reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import readback.bootstrap

if TYPE_CHECKING:
    from readback.bootstrap import (
        CommandExecutor,
        CommandSource,
        CommitToken,
        FileExecutor,
        FileSource,
        GitSource,
        HttpExecutor,
        HttpSource,
        ImapSource,
        S3Executor,
        S3Source,
        SmtpExecutor,
        SqlExecutor,
        SqlSource,
        TablesSource,
    )

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
    """One of the names above, when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(readback.bootstrap, name)


def __dir__() -> list[str]:
    return list(__all__)
