"""Folds the write-ahead log back beside the writer, so that no commit has to.

Called by the store. SQLite's own way has the one commit in so many that finds the log long write all of it into the
database and wait for two syncs: every action of that moment waits with it. Here a thread does it, which lives as long
as that takes. What was written meanwhile is little, and the writer's: the log begins anew only where nothing is left,
and beside commits that go on there is always something. Where the thread does not get there, the writer does all of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import apsw

from readback.domain.errors import StoreError

LONG_PAGES: Final = 8000
"""32 MB. Of a shorter log the same pages are written into the database more often, and more commits have that beside
them. A longer one takes longer to read where a process was killed.
"""
REST_PAGES_MAX: Final = 1000
"""So much the writer folds back behind the thread, in a commit's call."""
AGAIN_PAGES: Final = LONG_PAGES // 4
"""So much longer it gets before it is tried again, where somebody who reads for long keeps it from being folded."""
TOO_LONG_PAGES: Final = 2 * LONG_PAGES
"""From here on the writer itself folds it back."""
_PASSIVE: Final = apsw.SQLITE_CHECKPOINT_PASSIVE
_OK: Final = apsw.SQLITE_OK


class Folding:
    """One store's. `connect` opens a connection beside the writer's, which is never in a transaction."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._mutex = threading.RLock()
        self._held = 0
        self._thread: threading.Thread | None = None
        self._due = LONG_PAGES
        self._folded = 0
        """Pages of the present log, all that a thread found and folded back; 0 where the writer has nothing to do."""

    def watch(self, writer: apsw.Connection) -> None:
        """From now on the log of this connection is looked after; SQLite's own way ends for it."""
        writer.set_wal_hook(self._committed)

    def hold(self) -> None:
        """Until as many `release` no thread begins; one that is at work has ended when this returns."""
        with self._mutex:
            self._held += 1
            thread = self._thread
        if thread is not None and thread.ident is not None:
            thread.join()

    def release(self) -> None:
        with self._mutex:
            self._held -= 1

    def _committed(self, writer: apsw.Connection, _name: str, pages: int) -> int:
        """Asked behind each commit. It raises nothing: what is durable is not to look like a failure."""
        if pages < LONG_PAGES:
            self._due, self._folded = LONG_PAGES, 0
        elif pages >= TOO_LONG_PAGES or (self._folded and 0 <= pages - self._folded <= REST_PAGES_MAX):
            self._folded = 0  # once: whoever still reads what is there keeps the log from beginning anew
            with suppress(apsw.Error):
                writer.wal_checkpoint(mode=_PASSIVE)
        elif pages >= self._due:
            self._due = pages + AGAIN_PAGES
            self._begin()
        return _OK

    def _begin(self) -> None:
        with self._mutex:
            if self._held or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._fold, name="readback-folding")
            with suppress(RuntimeError):  # the system gives no thread: the writer does it, later
                self._thread.start()

    def _fold(self) -> None:
        with suppress(apsw.Error, StoreError):  # whoever writes finds out what is wrong with the file, and says so
            connection = self._connect()
            try:
                there, folded = connection.wal_checkpoint(mode=_PASSIVE)
                self._folded = folded if folded == there else 0
            finally:
                connection.close()
