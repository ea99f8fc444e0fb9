"""The truth of a trip, from the providers' own books, not through their doors.

Opens the five SQLite files beside the running providers, reads only, and holds nothing open. Neither agent sees the
result.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from readback.demo.systems.trip_books import TRADES, Row, path_of


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of one book, with the stamps of its reversals: one, or none."""

    book: str
    id: str
    what: str
    cents: int
    live: bool
    made_stamp: str
    undone_stamps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TripBooks:
    """All entries of one trip."""

    trip: str
    entries: tuple[Entry, ...]

    def live(self, book: str) -> list[Entry]:
        """The standing entries."""
        return [entry for entry in self.entries if entry.book == book and entry.live]

    def made(self, book: str) -> int:
        """The number of entries ever made."""
        return sum(entry.book == book for entry in self.entries)

    def undone(self, book: str) -> int:
        """The number of reversals."""
        return sum(len(entry.undone_stamps) for entry in self.entries if entry.book == book)

    def complete(self, wanted: Mapping[str, str]) -> bool:
        """Exactly one of each entry stands, as wanted and at the right price: the trip is booked."""
        if any(len(self.live(book)) != 1 for book in TRADES):
            return False
        right = all(self.live(book)[0].what == what for book, what in wanted.items())
        return right and self.live("payments")[0].cents == sum(self.live(book)[0].cents for book in wanted)

    @property
    def clear(self) -> bool:
        """Nothing stands: no hold, no charge, no ticket."""
        return not any(entry.live for entry in self.entries)

    @property
    def repeated(self) -> int:
        """Extra effects under one stamp, made or taken back."""
        made = Counter((entry.book, entry.made_stamp) for entry in self.entries)
        undone = Counter((entry.book, stamp) for entry in self.entries for stamp in entry.undone_stamps)
        return sum(count - 1 for counts in (made, undone) for count in counts.values())

    def as_text(self) -> str:
        """The standing entries, in a few words."""
        parts = [f"{len(found)} {book}" if len(found) > 1 else book for book in TRADES if (found := self.live(book))]
        return ", ".join(parts) if parts else "nothing"


def books(folder: Path, trip: str, tenant: str = "acme") -> TripBooks:
    """The truth of one trip, from the providers' files."""
    entries = [entry for book in TRADES for entry in _entries(folder, book, trip, tenant)]
    return TripBooks(trip, tuple(entries))


def _entries(folder: Path, book: str, trip: str, tenant: str) -> list[Entry]:
    rows = _ask(folder, book, "SELECT * FROM entries WHERE trip = ? AND tenant = ? ORDER BY id", trip, tenant)
    changes = _ask(folder, book, "SELECT * FROM journal WHERE trip = ? AND tenant = ? ORDER BY seq", trip, tenant)
    trade = TRADES[book]
    return [
        Entry(
            book,
            row["id"],
            row["what"],
            row["cents"],
            row["status"] == trade.made,
            row["made_stamp"],
            tuple(each["stamp"] for each in changes if each["id"] == row["id"] and each["op"] == trade.undo),
        )
        for row in rows
    ]


def _ask(folder: Path, book: str, statement: str, *values: object) -> list[Row]:
    with closing(sqlite3.connect(path_of(folder, book), timeout=5)) as db:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA query_only = 1")
        return [dict(row) for row in db.execute(statement, values)]
