"""The last entry of each action while a log is read through: in memory while they are few, else in a temporary file.

Chosen by bootstrap. The file is SQLite's own temporary one, without a name; nothing of it is left, and nothing of it is
believed beyond the run.
"""

from __future__ import annotations

from typing import Final, cast

import apsw

IN_MEMORY_MAX: Final = 20_000
"""Actions whose last entry is remembered without the file. Actions that are in flight together are far fewer."""
_TABLE: Final = (
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -16000; PRAGMA temp_store = FILE;"
    " CREATE TABLE last (action TEXT PRIMARY KEY, version INTEGER NOT NULL, leaf BLOB NOT NULL) STRICT, WITHOUT ROWID"
)
_PUT: Final = "INSERT OR REPLACE INTO last VALUES (?, ?, ?)"
_GET: Final = "SELECT version, leaf FROM last WHERE action = ?"


class TemporaryLinks:
    """Keeps `ports.export.Links`."""

    __slots__ = ("_file", "_recent")

    def __init__(self) -> None:
        self._recent: dict[str, tuple[int, bytes]] = {}
        self._file: apsw.Connection | None = None

    def last(self, action_id: str) -> tuple[int, bytes] | None:
        found = self._recent.get(action_id)
        if found is not None or self._file is None:
            return found
        row = self._file.execute(_GET, (action_id,)).fetchone()
        return cast("tuple[int, bytes] | None", row)

    def met(self, action_id: str, version: int, leaf: bytes) -> None:
        self._recent[action_id] = (version, leaf)
        if len(self._recent) > IN_MEMORY_MAX:
            self._spill()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        if self._file is None:
            self._file = apsw.Connection("")
            self._file.execute(_TABLE).fetchall()  # to the last statement
        with self._file:
            self._file.executemany(_PUT, [(action, *last) for action, last in self._recent.items()])
        self._recent.clear()
