"""Public: real local systems for the demo, the examples and your own tests. Each runs in a process of its own.

An order service and the providers of a trip (HTTP over SQLite), and a mail server (SMTP and IMAP over Maildir). The
systems lie on demand. No module here imports other parts of this project. `PostgresPair` and `S3Server` are those of
`readback.testing`. A name is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readback.demo.systems.launch import Systems
    from readback.testing.postgres_server import PostgresPair
    from readback.testing.s3_server import S3Server

_HOMES = {
    "PostgresPair": "readback.testing.postgres_server",
    "S3Server": "readback.testing.s3_server",
    "Systems": "readback.demo.systems.launch",
}

__all__ = ["PostgresPair", "S3Server", "Systems"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
