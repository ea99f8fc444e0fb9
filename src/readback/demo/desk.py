"""The connections of the order desk and of the travel desk: clients that act, and separate clients that read.

`main` opens the desk once, and so does the worker in its own process. Executors and sources are the built-in classes.
Nothing here verifies, and no executor shares a client with a source.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from readback.systems import (
    FileExecutor,
    FileSource,
    HttpExecutor,
    HttpSource,
    ImapSource,
    SmtpExecutor,
    SqlExecutor,
    SqlSource,
)

TENANT, AGENT = "acme", "agent:desk"
TOOL_TIMEOUT_S = 1.5
"""Time limit of the desk's tools for an answer, in seconds."""
OURS = {"X-Tenant": TENANT}
DAYBOOK = "CREATE TABLE daybook (tenant, order_id, cents INTEGER, stamp, PRIMARY KEY (tenant, order_id))"


class Desk:
    """All connections of a desk, between `open` or `open_trip` and `close`."""

    shop: HttpExecutor
    """Acts on the order service, with our key and our stamp in the headers of each request."""
    records: HttpSource
    """Reads the order service through a client of its own."""
    database: SqlSource
    """Reads the database behind the order service, for all tenants, independent of the service."""
    post: SmtpExecutor
    """Sends the shop's mail."""
    mailboxes: dict[str, ImapSource]
    """Reads the recipients' mailboxes, by address. Mail in a mailbox was delivered."""
    folder: FileExecutor
    files: FileSource
    daybook: SqlExecutor
    daybook_rows: SqlSource
    providers: HttpExecutor
    """Acts on the providers of a trip."""
    trip_records: HttpSource
    """Reads the providers' records, on another port and through a client of its own."""
    trip_books: SqlSource
    """Reads the books behind the providers, for all tenants, independent of both ports."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.overheard = Path()

    def open(
        self,
        *,
        orders_url: str,
        orders_db: str,
        smtp: tuple[str, int],
        imap: tuple[str, int],
        mailboxes: Sequence[str],
        mail_password: str,
        work: str,
        overheard: str,
        timeout_s: float = TOOL_TIMEOUT_S,
    ) -> None:
        """Connect to the shop's running systems. Nothing is sent yet.

        `overheard`: the file of all tool answers, for the naive agent and for the counts. `timeout_s`: time limit of
        tools, in seconds.
        """
        self.shop = self._acting(orders_url, "shop", timeout_s)
        # A 404 of the shop is believed where the same credentials are shown another order, the canary.
        self.records = self._reading("order-service", orders_url, canary="/orders/o-1")
        self.database = SqlSource("order-database", _opens(orders_db))
        self.post = SmtpExecutor("post", *smtp, security="none", timeout_s=timeout_s)
        self.mailboxes = {
            user: ImapSource(user, *imap, user=user, password=mail_password, proves="delivered", security="none")
            for user in mailboxes
        }
        self.folder, self.files = FileExecutor(work), FileSource("work-folder", work)
        self._daybook, self.overheard = Path(work) / "daybook.db", Path(overheard)
        connect = _opens(self._daybook)
        self.daybook, self.daybook_rows = SqlExecutor("daybook", connect), SqlSource("daybook", connect)

    def open_trip(self, act_url: str, read_url: str, books: Path, *, timeout_s: float = TOOL_TIMEOUT_S) -> None:
        """Connect to running providers. Nothing is sent yet."""
        self.providers = self._acting(act_url, "providers", timeout_s)
        self.trip_records = self._reading("provider-records", read_url)
        self.trip_books = SqlSource("provider-books", _opens(books))

    def _acting(self, url: str, name: str, timeout_s: float) -> HttpExecutor:
        headers = {**OURS, "X-Actor": AGENT}
        return self._stack.enter_context(HttpExecutor(url, name=name, headers=headers, timeout_s=timeout_s))

    def _reading(self, name: str, url: str, canary: str | None = None) -> HttpSource:
        return self._stack.enter_context(HttpSource(name, url, headers=OURS, canary=canary, timeout_s=2.0))

    def prepare(self) -> None:
        """Create the daybook, with one order of yesterday."""
        with closing(sqlite3.connect(self._daybook)) as db, db:
            db.execute(DAYBOOK)
            db.execute("INSERT INTO daybook VALUES (?, 'o-30', 4100, 'yesterday')", [TENANT])

    def close(self) -> None:
        """Close the connections. Later tool answers are not noted, because the file may be gone."""
        self.overheard = Path()
        self._stack.close()


def _opens(path: str | Path) -> Callable[[], sqlite3.Connection]:
    return lambda: sqlite3.connect(path, timeout=5, check_same_thread=False)


desk = Desk()
"""The only desk of this process."""
