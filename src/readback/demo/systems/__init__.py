"""Public: real local systems for the demo, the examples and your own tests. Each runs in a process of its own.

An order service (HTTP over SQLite), a mail server (SMTP and IMAP over Maildir), the five providers of a trip (HTTP over
five SQLite files), a PostgreSQL pair and an S3 server. The systems lie on demand. No module here imports other parts of
this project. A name is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readback.demo.systems.launch import Systems
    from readback.demo.systems.postgres import PostgresPair
    from readback.demo.systems.s3 import S3Server

_HOMES = {
    "PostgresPair": "readback.demo.systems.postgres",
    "S3Server": "readback.demo.systems.s3",
    "Systems": "readback.demo.systems.launch",
}

__all__ = ["PostgresPair", "S3Server", "Systems"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
