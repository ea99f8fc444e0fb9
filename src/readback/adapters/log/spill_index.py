"""The last entry of each action during a read of a log: in memory, or in a temporary file for many actions.

Chosen by bootstrap. The file is a nameless temporary file of SQLite. Nothing of the file remains or is believed after
the run.
"""

from __future__ import annotations

from typing import Final, cast

import apsw

IN_MEMORY_MAX: Final = 20_000
"""Maximum actions remembered in memory. Far fewer actions are in flight together."""
_TABLE: Final = (
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -16000; PRAGMA temp_store = FILE;"
    " CREATE TABLE last (action TEXT PRIMARY KEY, version INTEGER NOT NULL, leaf BLOB NOT NULL) STRICT, WITHOUT ROWID"
)
_PUT: Final = "INSERT OR REPLACE INTO last VALUES (?, ?, ?)"
_GET: Final = "SELECT version, leaf FROM last WHERE action = ?"


class TemporaryLinks:
    """Implements `ports.export.Links`."""

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
