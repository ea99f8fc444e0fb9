"""The truth in the systems, from their own files, not through their doors.

Opens the SQLite files and the Maildirs beside the running servers, reads only, and holds nothing open.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

from readback.demo.systems.rules import TRADES

Row = dict[str, Any]


def rows_of(path: Path, statement: str, *values: object) -> list[Row]:
    """The rows of a SELECT on a database file."""
    with closing(sqlite3.connect(path, timeout=5)) as db:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA query_only = 1")
        return [dict(row) for row in db.execute(statement, values)]


@dataclass(frozen=True, slots=True)
class Mail:
    """One message in a mailbox."""

    mailbox: str
    folder: str
    sender: str
    to: str
    subject: str
    stamp: str
    body: str


@dataclass(frozen=True, slots=True)
class Truth:
    """The three places of truth: the orders' database, the mail's folders, the work folder."""

    db_path: Path
    mail_root: Path
    work: Path

    def sql(self, statement: str, *values: object) -> list[Row]:
        """The rows of a SELECT on the order service's database file."""
        return rows_of(self.db_path, statement, *values)

    def order(self, order_id: str, tenant: str = "acme") -> Row | None:
        return next(iter(self.sql("SELECT * FROM orders WHERE tenant = ? AND id = ?", tenant, order_id)), None)

    def charges(self, order_id: str) -> list[Row]:
        return self.sql("SELECT * FROM charges WHERE tenant = 'acme' AND order_id = ? ORDER BY id", order_id)

    def refunds(self, charge_id: str) -> list[Row]:
        return self.sql("SELECT * FROM refunds WHERE tenant = 'acme' AND charge_id = ? ORDER BY id", charge_id)

    def shipments(self, order_id: str) -> list[Row]:
        return self.sql("SELECT * FROM shipments WHERE tenant = 'acme' AND order_id = ? ORDER BY id", order_id)

    def notes(self, order_id: str) -> list[str]:
        rows = self.sql("SELECT text FROM notes WHERE tenant = 'acme' AND order_id = ? ORDER BY id", order_id)
        return [row["text"] for row in rows]

    def stock(self, sku: str) -> int | None:
        return next((r["qty"] for r in self.sql("SELECT qty FROM stock WHERE tenant = 'acme' AND id = ?", sku)), None)

    def daybook(self, order_id: str) -> list[int]:
        """The cents of an order in the daybook, a local file in the work folder."""
        statement = "SELECT cents FROM daybook WHERE tenant = 'acme' AND order_id = ?"
        return [row["cents"] for row in rows_of(self.work / "daybook.db", statement, order_id)]

    def effects(self, stamp: str) -> dict[str, int]:
        """The number of writes under this stamp in each table, without later changes by the system itself."""
        statement = "SELECT resource, count(*) AS n FROM changes WHERE stamp = ? AND op != 'settle' GROUP BY resource"
        return {row["resource"]: row["n"] for row in self.sql(statement, stamp)}

    def repeated(self, stamp: str) -> int:
        """The number of extra effects under this stamp in any one place: rows written twice, or mails."""
        return max([*self.effects(stamp).values(), len(self.mails(stamp=stamp)), 1]) - 1

    def mails(self, *, mailbox: str | None = None, stamp: str | None = None, folder: str = "INBOX") -> list[Mail]:
        """Delivered messages, of one mailbox or all, with exactly this stamp or any."""
        found = []
        for home in sorted((self.mail_root / "mailboxes").glob("*/*")):
            address = f"{home.name}@{home.parent.name}"
            if mailbox is None or mailbox == address:
                place = home if folder == "INBOX" else home / f".{folder}"
                found += [_mail(address, folder, raw) for raw in _messages(place)]
        return [mail for mail in found if stamp is None or mail.stamp == stamp]

    def file(self, name: str) -> bytes | None:
        """The bytes of a file in the work folder, or None."""
        path = self.work / name
        return path.read_bytes() if path.is_file() else None


def _messages(maildir: Path) -> list[bytes]:
    """The messages of one Maildir, even while the IMAP server moves messages from `new` to `cur`."""
    while True:
        # `new` first: what moves in between is then seen twice, under one name, and never missed.
        paths = [path for sub in ("new", "cur") if (maildir / sub).is_dir() for path in (maildir / sub).iterdir()]
        latest = {path.name.partition(":")[0]: path for path in paths}
        try:
            return [path.read_bytes() for _, path in sorted(latest.items())]
        except FileNotFoundError:
            continue  # moved under our hands: look again


def _mail(address: str, folder: str, raw: bytes) -> Mail:
    message = message_from_bytes(raw, policy=policy.default)
    body = message.get_body(("plain",))
    sender, to, subject, stamp = (str(message.get(name, "")) for name in ("From", "To", "Subject", "X-Stamp"))
    return Mail(address, folder, sender, to, subject, stamp, body.get_content() if body else "")


# ---- a trip


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of one provider's book, with the stamps of its reversals: one, or none."""

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
        return ", ".join(parts) or "nothing"


def trip_books(db_path: Path, trip: str) -> TripBooks:
    """The truth of one trip, from the providers' file."""
    entries = rows_of(db_path, "SELECT * FROM entries WHERE trip = ? AND tenant = 'acme' ORDER BY id", trip)
    undone = rows_of(db_path, "SELECT id, stamp FROM changes WHERE tenant = 'acme' AND op != 'make' ORDER BY seq")
    return TripBooks(
        trip,
        tuple(
            Entry(row["book"], row["id"], row["what"], row["cents"], row["status"] == TRADES[row["book"]].made,
                  row["made_stamp"], tuple(each["stamp"] for each in undone if each["id"] == row["id"]))
            for row in entries
        ),
    )  # fmt: skip
