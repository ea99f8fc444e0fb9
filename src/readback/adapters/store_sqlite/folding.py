"""Folds the write-ahead log back beside the writer, so that no commit has to.

Called by the store. SQLite's own way has the one commit in so many that finds the log long write all of it into the
database and wait for two syncs: every action of that moment waits with it. Here a thread does it, which lives as long
as that takes. Where it does not get there, the writer does as SQLite would.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import apsw

from readback.domain.errors import StoreError

LONG_PAGES: Final = 2000
"""8 MB. A longer log makes commits slower: a file that grows costs more to sync than one that is written over. Of a
shorter one the same pages are written into the database more often.
"""
AGAIN_PAGES: Final = LONG_PAGES // 2
"""So much longer it gets before it is tried again, where somebody who reads for long keeps it from being folded."""
TOO_LONG_PAGES: Final = 4 * LONG_PAGES
"""From here on the writer itself folds it back."""
TURNS_MAX: Final = 8
"""What is written meanwhile is folded back as well: only when nothing is left does the log begin anew."""
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
            self._due = LONG_PAGES
        elif pages >= TOO_LONG_PAGES:
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
                for _ in range(TURNS_MAX):
                    there, folded = connection.wal_checkpoint(mode=_PASSIVE)
                    if folded >= there or self._held:
                        break
            finally:
                connection.close()
