"""A PostgreSQL that really writes: fsync and synchronous_commit on, its data on the disk that is measured."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from readback.testing.postgres_server import PRIMARY, PostgresPair

SETTINGS: Final = """
fsync = on
autovacuum = on
max_connections = 400
shared_buffers = '256MB'
max_wal_size = '4GB'
log_min_messages = fatal
"""
"""Room for the clients and their rows; all that is durable, and all else, is as PostgreSQL sets it."""
ASKED: Final = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
)


class PostgresServer(PostgresPair):
    """The server, from `__enter__` to `__exit__`, in a folder of its own inside the given one."""

    def __init__(self, inside: Path) -> None:
        super().__init__(standby=False, settings=SETTINGS, inside=inside)

    def url(self, database: str = "postgres") -> str:
        """What every driver here takes."""
        return f"postgresql://postgres@/{database}?host={quote(str(self.home), safe='/')}&port={PRIMARY}"

    def ask(self, question: str, database: str = "postgres") -> Any:
        """The first column of the first row, or None."""
        import psycopg

        with closing(psycopg.connect(self.url(database), autocommit=True)) as connection:
            cursor = connection.execute(question.encode())
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None

    def create(self, database: str) -> str:
        """A new database, and its URL."""
        self.ask(f'create database "{database}"')
        return self.url(database)

    def settings(self) -> dict[str, str]:
        """What it promises, asked of itself."""
        return {name: str(self.ask(f"show {name}")) for name in ASKED}

    def cpu_s(self) -> float:
        """What all its processes have used until now, those that have ended too."""
        ticks, boss = 0, str(self._running[0].pid)
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                after = stat.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if boss in (stat.parent.name, after[1]):
                ticks += int(after[11]) + int(after[12])
            if stat.parent.name == boss:
                ticks += int(after[13]) + int(after[14])
        return ticks / os.sysconf("SC_CLK_TCK")
