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

from readback.demo.systems.faults import HOLD_S, LOOPBACK, FaultBook, Rule, live, now_us

MAILBOXES = ("shop@acme.example", "ana@acme.example", "ben@acme.example", "ana@globex.example")
PASSWORD = "demo"  # of every mailbox; nothing here leaves this machine
ACCEPTED = "250 2.0.0 OK: queued"
Spoil = Callable[[Rule, bytes, list[str]], tuple[bytes, list[str]]]
DELIVERED: dict[str, Spoil] = {
    "accepted_dropped": lambda rule, raw, to: (raw, []),
    "delayed": lambda rule, raw, to: (raw, []),
    "duplicate": lambda rule, raw, to: (raw, to * 2),
    "wrong_mailbox": lambda rule, raw, to: (raw, [str(rule.params["mailbox"])]),
    "wrong_value": lambda rule, raw, to: (raw.replace(rule.params["old"].encode(), rule.params["new"].encode()), to),
}
"""What is delivered to whom, at once, with a fault; without a row the message as sent, or nothing before a refusal."""
REFUSED = {
    "error_after_commit": "451 4.3.0 local error in processing",
    "tempfail": "451 4.7.1 greylisted, please try again",
    "refuse": "554 5.7.1 refused",
}
SILENT = ("timeout_before", "timeout_after")


class PostOffice:
    """Delivers accepted mail, honestly or with a fault of the book (aiosmtpd's handler)."""

    def __init__(self, root: Path, addresses: tuple[str, ...], book: FaultBook) -> None:
        self.homes = {address: home(root, address) for address in addresses}
        self.book = book
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
        return self._accept(envelope, raw, envelope.rcpt_tos) if rule is None else await self._spoiled(rule, envelope)

    async def _spoiled(self, rule: Rule, envelope: Envelope) -> str:
        fault, raw, to = rule.fault, envelope.original_content or b"", envelope.rcpt_tos
        if fault in ("timeout_before", "tempfail", "refuse"):
            answer = ""
        else:
            sent, receivers = DELIVERED[fault](rule, raw, to) if fault in DELIVERED else (raw, to)
            answer = self._accept(envelope, sent, receivers)
        ms = rule.params.get("ms", 500 if fault == "delayed" else math.inf)
        if fault == "delayed":
            asyncio.get_running_loop().call_later(ms / 1_000, self._deliver, raw, list(to))
        elif fault == "outage":
            self._imap_down_until_us = now_us() + ms * 1_000
        elif fault in SILENT:
            await asyncio.sleep(HOLD_S)  # aiosmtpd cancels this call when the client disconnects
        return str(rule.params.get("reply", REFUSED[fault])) if fault in REFUSED else answer

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


async def serve(root: Path) -> None:
    book = FaultBook(*DELIVERED, *REFUSED, *SILENT, "outage")
    office = PostOffice(root, MAILBOXES, book)
    loop = asyncio.get_running_loop()
    smtp = await loop.create_server(lambda: SMTP(office, hostname="localhost", loop=loop), LOOPBACK, 0)
    addresses = {
        "smtp_port": smtp.sockets[0].getsockname()[1],
        "imap_port": await open_imap(root, office),
        "mailboxes": MAILBOXES,
        "password": PASSWORD,
    }
    threading.Thread(target=lambda: live(book, recover=office.recover, **addresses), daemon=True).start()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A mail server that lies on demand.")
    parser.add_argument("--root", type=Path, required=True)
    asyncio.run(serve(parser.parse_args().root))


if __name__ == "__main__":
    main()
