"""A mail server: SMTP accepts mail, IMAP shows the mailboxes: `python -m ...systems.mail --root DIR`.

Runs as a process of its own, prints one JSON line with its ports, and ends with its stdin. Mailboxes are Maildirs under
DIR/mailboxes/{domain}/{name}. A local sender's copy goes to the folder `Sent` with the 250 answer. The copy proves
submission and nothing more.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import mailbox
import math
import os
import threading
from argparse import Namespace
from collections.abc import Callable
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session
from proxyprotocol.reader import ProxyProtocolReader
from pymap.backend.maildir import Config, Identity, Login
from pymap.frozen import frozendict
from pymap.imap import IMAPServer
from pymap.user import UserMetadata
from pysasl.hashing import Cleartext

from readback.demo.systems.faults import (
    LOOPBACK,
    FaultBook,
    Rule,
    announce,
    live_until_stdin_closes,
    now_us,
    open_admin,
)

MAILBOXES = ("shop@acme.example", "ana@acme.example", "ben@acme.example", "ana@globex.example")
PASSWORD = "demo"  # of every mailbox; nothing here leaves this machine
ACCEPTED = "250 2.0.0 OK: queued"
FAULTS = frozenset(
    {
        "accepted_dropped", "delayed", "duplicate", "tempfail", "refuse", "wrong_mailbox", "wrong_value",
        "partial", "error_after_commit", "timeout_before", "timeout_after", "outage",
    }
)  # fmt: skip


class PostOffice:
    """Delivers accepted mail, honestly or with a fault of the book (aiosmtpd's handler)."""

    def __init__(self, root: Path, addresses: tuple[str, ...], book: FaultBook, settings: dict[str, int]) -> None:
        self.homes = {address: home(root, address) for address in addresses}
        self.book = book
        self.settings = settings
        self._numbers = itertools.count(1)
        self._imap_down_until_us: float = 0
        for place in self.homes.values():
            place.parent.mkdir(parents=True, exist_ok=True)
            inbox = mailbox.Maildir(place, create=True)
            inbox.add_folder("Sent")

    # The names of these two are aiosmtpd's.

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address.lower() not in self.homes:
            return f"550 5.1.1 no mailbox {address} here"
        envelope.rcpt_tos.append(address.lower())
        return "250 2.1.5 OK"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        raw = envelope.original_content or b""
        headers = message_from_bytes(raw, policy=policy.default)
        seen = {
            "from": envelope.mail_from or "",
            "to": ",".join(envelope.rcpt_tos),
            "subject": str(headers.get("Subject", "")),
            "stamp": str(headers.get("X-Stamp", "")),
        }
        rule = self.book.take(seen)
        if rule is None:
            return self._accept(envelope, raw, envelope.rcpt_tos)
        return await self._spoiled(rule, envelope, raw)

    async def _spoiled(self, rule: Rule, envelope: Envelope, raw: bytes) -> str:
        to, params = envelope.rcpt_tos, rule.params
        match rule.fault:
            case "accepted_dropped":
                return self._accept(envelope, raw, [])
            case "delayed":
                loop = asyncio.get_running_loop()
                loop.call_later(rule.ms("ms", 500), self._deliver, raw, list(to))
                return self._accept(envelope, raw, [])
            case "duplicate":
                return self._accept(envelope, raw, to * int(params.get("copies", 2)))
            case "wrong_mailbox":
                return self._accept(envelope, raw, [str(params["mailbox"])])
            case "wrong_value":
                old, new = str(params["old"]).encode(), str(params["new"]).encode()
                return self._accept(envelope, raw.replace(old, new), to)
            case "partial":
                keep = params.get("keep") or to[:1]
                return self._accept(envelope, raw, [address for address in to if address in keep])
            case "outage":
                ms = params.get("ms")
                self._imap_down_until_us = math.inf if ms is None else now_us() + ms * 1_000
                return self._accept(envelope, raw, to)
            case "error_after_commit":
                self._accept(envelope, raw, to)
                return str(params.get("reply", "451 4.3.0 local error in processing"))
            case "tempfail":
                return str(params.get("reply", "451 4.7.1 greylisted, please try again"))
            case "refuse":
                return str(params.get("reply", "554 5.7.1 refused"))
            case "timeout_after":
                self._accept(envelope, raw, to)
                return await self._hold()
            case _:  # timeout_before
                return await self._hold()

    async def _hold(self) -> str:
        """Send nothing until the client disconnects. aiosmtpd then cancels this call."""
        await asyncio.sleep(self.settings["hold_ms"] / 1_000)
        return "421 4.4.2 timed out"

    def _accept(self, envelope: Envelope, raw: bytes, to: list[str]) -> str:
        self._deliver(raw, to)
        sender = (envelope.mail_from or "").lower()
        if sender in self.homes:
            self._file(self.homes[sender] / ".Sent", raw)
        return ACCEPTED

    def _deliver(self, raw: bytes, to: list[str]) -> None:
        for address in to:
            self._file(self.homes[address], raw)

    def _file(self, maildir: Path, raw: bytes) -> None:
        """Put one message into a Maildir atomically."""
        name = f"{now_us()}.P{os.getpid()}Q{next(self._numbers)}.localhost:2,"
        (maildir / "tmp" / name).write_bytes(raw.replace(b"\r\n", b"\n"))
        # Into `cur`, not `new`: nothing moves it later under the hands of another IMAP session.
        (maildir / "tmp" / name).rename(maildir / "cur" / name)

    def imap_is_down(self) -> bool:
        return now_us() < self._imap_down_until_us

    def recover(self) -> None:
        """End lasting effects of faults."""
        self._imap_down_until_us = 0


def home(root: Path, address: str) -> Path:
    """The mailbox folder of an address."""
    name, _, domain = address.partition("@")
    return root / "mailboxes" / domain / name


async def open_imap(root: Path, office: PostOffice) -> int:
    """Serve the same Maildirs over IMAP, and return the port."""
    (root / "tmp").mkdir(parents=True, exist_ok=True)
    # pymap renames its index files from there, so it has to be the same file system.
    os.environ["TMPDIR"] = str(root / "tmp")
    os.environ["FQDN"] = "localhost"  # or it asks DNS for this machine's name at every greeting
    args = Namespace(host=LOOPBACK, port=0, debug=False, cert=None, key=None, tls=False,
                     passlib_cfg=None, proxy_protocol=None, base_dir=str(root), layout="++", colon=None,
                     concurrency=4)  # fmt: skip
    config = Config.from_args(args, hash_context=Cleartext())
    config.apply_context()
    login = Login(config)
    for address, place in office.homes.items():
        identity = Identity(config, login.tokens, address, None, frozenset({"admin"}))
        where = frozendict({"mailbox_path": str(place.relative_to(root))})
        await identity.set(UserMetadata(config, address, password=PASSWORD, params=where))
    imap, serving = IMAPServer(login, config), set[object]()

    async def served(*session: Any) -> None:
        task = asyncio.current_task()
        serving.add(task)  # a task without a reference would be collected while running
        try:
            await imap(*session)
        finally:
            serving.discard(task)

    callback: Callable[..., Any] = ProxyProtocolReader(config.proxy_protocol).get_callback(served)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if office.imap_is_down():
            writer.write(b"* BYE the mail store is down\r\n")
            writer.close()
            return
        await callback(reader, writer)

    server = await asyncio.start_server(connected, LOOPBACK, 0)
    return int(server.sockets[0].getsockname()[1])


async def serve(root: Path, addresses: tuple[str, ...]) -> None:
    book = FaultBook(FAULTS)
    settings = {"hold_ms": 30_000}
    office = PostOffice(root, addresses, book, settings)
    loop = asyncio.get_running_loop()
    smtp = await loop.create_server(lambda: SMTP(office, hostname="localhost", loop=loop), LOOPBACK, 0)
    imap_port = await open_imap(root, office)
    announce(
        smtp_port=smtp.sockets[0].getsockname()[1],
        imap_port=imap_port,
        admin_port=open_admin(book, settings, office.recover),
        mailboxes=list(addresses),
        password=PASSWORD,
    )
    threading.Thread(target=live_until_stdin_closes, args=(lambda: None,), daemon=True).start()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A mail server that lies on demand.")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--mailbox", action="append", help="an address with a mailbox here; several may be given")
    options = parser.parse_args()
    addresses = tuple(address.lower() for address in options.mailbox or MAILBOXES)
    asyncio.run(serve(options.root, addresses))


if __name__ == "__main__":
    main()
