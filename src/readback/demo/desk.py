"""The order desk's connections: clients that act on the demo's systems, and separate clients that read them.

`main` opens the desk once, and so does the worker in its own process. Executors and sources are the built-in classes.
Nothing here verifies, and no executor shares a client with a source.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from readback.canon.frozen import dataclass
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

TENANT = "acme"
AGENT = "agent:desk"
TOOL_TIMEOUT_S = 1.5
"""Time limit of the desk's tools for an answer, in seconds."""

DAYBOOK = """
CREATE TABLE daybook (
    tenant TEXT, order_id TEXT, cents INTEGER, stamp TEXT, PRIMARY KEY (tenant, order_id)
)
"""


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of the systems, in a form for another process."""

    orders_url: str
    orders_db: str
    smtp: tuple[str, int]
    imap: tuple[str, int]
    mailboxes: tuple[str, ...]
    mail_password: str
    work: str
    overheard: str
    """The file of all tool answers, for the naive agent and for the counts."""

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Addresses:
        """The addresses written by `as_text`."""
        given = json.loads(text)
        pairs = {name: tuple(given[name]) for name in ("smtp", "imap", "mailboxes")}
        return cls(**{**given, **pairs})


class Desk:
    """All connections of the desk, between `open` and `close`."""

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

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.overheard = Path()

    def open(self, addresses: Addresses, *, timeout_s: float = TOOL_TIMEOUT_S) -> None:
        """Connect to running systems. Nothing is sent yet. `timeout_s`: time limit of tools, in seconds."""
        work, enter = Path(addresses.work), self._stack.enter_context
        ours = {"X-Tenant": TENANT}
        self.shop = enter(
            HttpExecutor(addresses.orders_url, name="shop", headers={**ours, "X-Actor": AGENT}, timeout_s=timeout_s)
        )
        # A 404 of the shop is believed where the same credentials are shown another order, the canary.
        self.records = enter(
            HttpSource("order-service", addresses.orders_url, headers=ours, canary="/orders/o-1", timeout_s=2.0)
        )
        self.database = SqlSource("order-database", _opens(Path(addresses.orders_db)))
        self.post = SmtpExecutor("post", *addresses.smtp, security="none", timeout_s=timeout_s)
        self.mailboxes = {each: _mailbox(addresses, each) for each in addresses.mailboxes}
        self.folder, self.files = FileExecutor(work), FileSource("work-folder", work)
        connect = _opens(work / "daybook.db")
        self.daybook, self.daybook_rows = SqlExecutor("daybook", connect), SqlSource("daybook", connect)
        self._work = work
        self.overheard = Path(addresses.overheard)

    def prepare(self) -> None:
        """Create the daybook, with one order of yesterday."""
        db = sqlite3.connect(self._work / "daybook.db")
        try:
            db.execute(DAYBOOK)
            db.execute("INSERT INTO daybook VALUES (?, 'o-30', 4100, 'yesterday')", [TENANT])
            db.commit()
        finally:
            db.close()

    def close(self) -> None:
        """Close the connections. Later tool answers are not noted, because the file may be gone."""
        self.overheard = Path()
        self._stack.close()


def _mailbox(addresses: Addresses, user: str) -> ImapSource:
    password = addresses.mail_password
    return ImapSource(user, *addresses.imap, user=user, password=password, proves="delivered", security="none")


def _opens(path: Path) -> Callable[[], sqlite3.Connection]:
    return lambda: sqlite3.connect(path, timeout=5, check_same_thread=False)


desk = Desk()
"""The only desk of this process."""
