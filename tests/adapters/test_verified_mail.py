"""A mail from proposal to verdict: sent over a real SMTP server, believed by what a real IMAP server shows.

Only the clock is not real: between looks hours may pass in no time, and the servers are given what has arrived by then.
"""

from __future__ import annotations

import imaplib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from readback import Context, Readback, Reading, action
from readback.demo.systems.launch import Systems
from readback.domain.events import Event, EventKind, open_envelope
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.domain.verification.observation import ObservationStatus
from readback.systems.mail.executor import SmtpExecutor
from readback.systems.mail.source import ImapSource
from readback.testing.runtime_virtual import START_US, VirtualRuntime
from readback.testing.store_memory import MemoryStore

SHOP, ANA = "shop@acme.example", "ana@acme.example"
SUBJECT: Final = "Your order"
HEADER: Final = "X-Stamp"
FOLDERS: Final = ("INBOX", "Junk")
US: Final = 1_000_000
SEEDS: Final = itertools.count(1)
"""Each post office draws stamps of its own: they share their mailboxes."""


@pytest.fixture(scope="module")
def running() -> Iterator[Systems]:
    with Systems() as systems:
        with imaplib.IMAP4(*systems.imap) as box:
            box.login(ANA, systems.mail_password)
            box.create("Junk")
        yield systems


@pytest.fixture
def systems(running: Systems) -> Iterator[Systems]:
    yield running
    running.clear_faults()


@dataclass(slots=True)
class Post:
    """A post office with its ledger. `arriving`: what lands before which look: the folder, and the stamp on it."""

    systems: Systems
    password: str = ""
    store: MemoryStore = field(default_factory=MemoryStore)
    runtime: VirtualRuntime = field(default_factory=lambda: VirtualRuntime(seed=next(SEEDS)))
    looks: list[float] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)
    arriving: dict[int, tuple[str, str]] = field(default_factory=dict)

    def send(self, text: str) -> Outcome:
        smtp = SmtpExecutor("post", *self.systems.smtp, security="none", timeout_s=5)
        password = self.password or self.systems.mail_password
        inbox = ImapSource(
            "inbox", *self.systems.imap, user=ANA, password=password, proves="delivered", folders=FOLDERS,
            security="none", timeout_s=5,
        )  # fmt: skip

        @action(
            kind="send",
            side_effect="low_risk_internal",
            target="mailbox/{requested.to}",
            identity={"target": "authoritative.mailbox", "tenant": "not_offered", "stamp": "authoritative.stamp"},
            ensure={
                "subject": "authoritative.subject == requested.subject",
                "text": "authoritative.body_sha256 == sha256(requested.text)",
            },
            proves="delivered",
            within="30s",
            polls=["0s", "2s", "4s", "8s"],
        )
        def tell(ctx: Context, to: str, subject: str, text: str) -> object:
            self.sent.append(smtp.send(ctx, sender=SHOP, to=[to], subject=subject, text=text, stamp_header=HEADER))
            return self.sent[-1]

        @tell.read(source="inbox", consistency="strong", independence="other_system")
        def in_mailbox(ctx: Context, to: str, subject: str, text: str) -> Reading:
            self.looks.append((self.runtime.now_us() - START_US) / US)
            folder, stamp = self.arriving.get(len(self.looks), ("", ""))
            if folder:
                self._deliver(folder, stamp.format(stamp=ctx.stamp), text)
            return inbox.by_stamp(ctx, header=HEADER)

        with Readback.open(store=self.store, runtime=self.runtime, tenant="acme", principal="agent:post") as rb:
            return rb.run(tell(to=ANA, subject=SUBJECT, text=text), operation=text)

    def _deliver(self, folder: str, stamp: str, text: str) -> None:
        raw = f"From: {SHOP}\r\nTo: {ANA}\r\nSubject: {SUBJECT}\r\n{HEADER}: {stamp}\r\n\r\n{text}\r\n"
        with imaplib.IMAP4(*self.systems.imap) as box:
            box.login(ANA, self.systems.mail_password)
            assert box.append(folder, "", "", raw.encode())[0] == "OK"

    def events(self, outcome: Outcome, kind: EventKind) -> list[Event]:
        events = [open_envelope(stored.envelope).event for stored in self.store.reopened().events(outcome.id)]
        return [event for event in events if event.kind is kind]


def _shown(outcome: Outcome, name: str) -> object:
    """What the mailbox showed under that name."""
    return outcome.authoritative.get(name) if isinstance(outcome.authoritative, dict) else None


@pytest.mark.requirement("CLAIM-stamp", "CLAIM-other-path")
def test_a_mail_that_arrived_is_found_by_the_stamp_in_its_header(systems: Systems) -> None:
    post = Post(systems)
    told = post.send("It left.")
    assert told.verified
    assert _shown(told, "stamp") == told.stamp
    assert _shown(told, "folder") == "INBOX"
    (mail,) = systems.truth.mails(mailbox=ANA, stamp=told.stamp)
    assert (mail.subject, mail.body.strip()) == (SUBJECT, "It left.")
    assert told.observation is not None
    assert told.observation.status is ObservationStatus.ACCEPTED  # which decided nothing
    (read,) = post.events(told, EventKind.READ)
    assert (read.data["source"], read.data["independence"]) == ("inbox", "other_system")


@pytest.mark.requirement("CLAIM-other-path")
@pytest.mark.parametrize("stamp", ["", "{stamp}-2", "x{stamp}", "{stamp} {stamp}"])
def test_what_the_server_accepted_and_nobody_received_is_not_believed(systems: Systems, stamp: str) -> None:
    """Nor is a mail with the same text whose stamp only resembles the one that was sent."""
    systems.fault("accepted_dropped", system="mail")
    post = Post(systems, arriving={1: ("INBOX", stamp)} if stamp else {})
    told = post.send(f"Dropped {stamp}.")
    assert post.sent[0]["status"] == "accepted"
    assert not told.verified
    assert "completed" not in told.message
    assert len(post.sent) == 1


@pytest.mark.requirement("CLAIM-backoff")
@pytest.mark.parametrize(("look", "folder"), [(2, "INBOX"), (3, "Junk"), (5, "Junk")])
def test_the_search_goes_on_by_its_schedule_over_every_named_folder(systems: Systems, look: int, folder: str) -> None:
    systems.fault("accepted_dropped", system="mail")
    post = Post(systems, arriving={look: (folder, "{stamp}")})
    told = post.send(f"Late {look}.")
    assert told.verified
    assert _shown(told, "folder") == folder
    assert len(post.looks) == look
    assert len(post.sent) == 1
    pauses = [later - earlier for earlier, later in zip(post.looks, post.looks[1:], strict=False)]
    for pause, planned in zip(pauses, (2, 4, 8), strict=False):
        assert planned * 0.9 <= pause <= planned * 1.1


@pytest.mark.requirement("CLAIM-always-recorded")
@pytest.mark.parametrize(
    ("case", "presence", "verdict"),
    [
        ("arrived", "present", "verified"),
        ("dropped", "absent", "refuted"),
        ("no access", "not_visible", "undetermined"),
    ],
)
def test_every_verification_is_recorded_whatever_it_found(
    systems: Systems, case: str, presence: str, verdict: str
) -> None:
    if case == "dropped":
        systems.fault("accepted_dropped", system="mail")
    post = Post(systems, password="not it" if case == "no access" else "")
    told = post.send(f"Recorded {case}.")
    assert told.verified == (case == "arrived")
    reads, judged = post.events(told, EventKind.READ), post.events(told, EventKind.JUDGED)
    assert len(reads) == len(judged) == len(post.looks) >= 1
    assert {read.data["presence"] for read in reads} == {presence}
    assert judged[-1].data["verdict"] == verdict
    assert (told.state is State.RECONCILED_SUCCESS) == (case == "arrived")
    assert told.ledger_entry
