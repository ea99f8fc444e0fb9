"""The truth in the systems, from their own files, not through their doors.

Opens the order service's SQLite file and the Maildirs beside the running servers, reads only, and holds nothing open.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

Row = dict[str, Any]


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

    # ---- orders

    def sql(self, statement: str, *values: object) -> list[Row]:
        """The rows of a SELECT on the order service's database file."""
        with closing(sqlite3.connect(self.db_path, timeout=5)) as db:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA query_only = 1")
            return [dict(row) for row in db.execute(statement, values)]

    def order(self, order_id: str, tenant: str = "acme") -> Row | None:
        return self._one("SELECT * FROM orders WHERE tenant = ? AND id = ?", tenant, order_id)

    def charge(self, charge_id: str, tenant: str = "acme") -> Row | None:
        return self._one("SELECT * FROM charges WHERE tenant = ? AND id = ?", tenant, charge_id)

    def charges(self, order_id: str, tenant: str = "acme") -> list[Row]:
        return self.sql("SELECT * FROM charges WHERE tenant = ? AND order_id = ? ORDER BY id", tenant, order_id)

    def refunds(self, charge_id: str, tenant: str = "acme") -> list[Row]:
        return self.sql("SELECT * FROM refunds WHERE tenant = ? AND charge_id = ? ORDER BY id", tenant, charge_id)

    def shipments(self, order_id: str, tenant: str = "acme") -> list[Row]:
        return self.sql("SELECT * FROM shipments WHERE tenant = ? AND order_id = ? ORDER BY id", tenant, order_id)

    def notes(self, order_id: str, tenant: str = "acme") -> list[str]:
        rows = self.sql("SELECT text FROM notes WHERE tenant = ? AND order_id = ? ORDER BY id", tenant, order_id)
        return [row["text"] for row in rows]

    def stock(self, sku: str, tenant: str = "acme") -> int | None:
        row = self._one("SELECT qty FROM stock WHERE tenant = ? AND id = ?", tenant, sku)
        return row["qty"] if row else None

    def changes(self, stamp: str) -> list[Row]:
        """Every change under this stamp, in any place, oldest first.

        Later changes by the system itself (`op` is settle) are included.
        """
        rows = self.sql("SELECT * FROM changes WHERE stamp = ? ORDER BY seq", stamp)
        return [{**row, "row": json.loads(row["row"]) if row["row"] else None} for row in rows]

    def daybook(self, order_id: str, tenant: str = "acme") -> list[int]:
        """The cents of an order in the daybook, a local file in the work folder."""
        with closing(sqlite3.connect(self.work / "daybook.db", timeout=5)) as db:
            db.execute("PRAGMA query_only = 1")
            rows = db.execute("SELECT cents FROM daybook WHERE tenant = ? AND order_id = ?", (tenant, order_id))
            return [int(cents) for (cents,) in rows]

    def repeated(self, stamp: str) -> int:
        """The number of extra effects under this stamp in any one place: rows written twice, or mails."""
        counted = self.sql(
            "SELECT count(*) AS n FROM changes WHERE stamp = ? AND op != 'settle' GROUP BY resource", stamp
        )
        times = [int(row["n"]) for row in counted]
        return max([*times, len(self.mails(stamp=stamp)), 1]) - 1

    def effects(self, stamp: str, resource: str) -> int:
        """The number of writes to this resource under this stamp."""
        counted = self._one(
            "SELECT count(*) AS n FROM changes WHERE stamp = ? AND resource = ? AND op != 'settle'",
            stamp,
            resource,
        )
        return int(counted["n"]) if counted else 0

    def _one(self, statement: str, *values: object) -> Row | None:
        rows = self.sql(statement, *values)
        return rows[0] if rows else None

    # ---- mail

    def mails(self, *, mailbox: str | None = None, stamp: str | None = None, folder: str = "INBOX") -> list[Mail]:
        """Delivered messages, of one mailbox or all, with exactly this stamp or any."""
        found = []
        for home in sorted((self.mail_root / "mailboxes").glob("*/*")):
            address = f"{home.name}@{home.parent.name}"
            if mailbox is None or mailbox == address:
                place = home if folder == "INBOX" else home / f".{folder}"
                found += [_mail(address, folder, raw) for raw in _messages(place)]
        return [mail for mail in found if stamp is None or mail.stamp == stamp]

    # ---- files

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
    text = {name: str(message.get(name, "")) for name in ("From", "To", "Subject", "X-Stamp")}
    return Mail(
        address, folder, text["From"], text["To"], text["Subject"], text["X-Stamp"],
        body.get_content() if body else "",
    )  # fmt: skip
