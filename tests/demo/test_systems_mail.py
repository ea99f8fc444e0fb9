"""The demo's mail server does what it is told, lies included; what is true is read from its Maildirs."""

from __future__ import annotations

import imaplib
import re
import smtplib
from email.message import EmailMessage

import pytest

from readback.demo.systems.launch import Systems
from tests.demo.waiting import eventually


def send(systems: Systems, stamp: str, to: str = "ana@acme.example", timeout: float = 5) -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "shop@acme.example", to, f"About {stamp}"
    message["X-Stamp"] = stamp
    message.set_content("Your order left.")
    with smtplib.SMTP(*systems.smtp, timeout=timeout) as smtp:
        smtp.send_message(message)


def imap_stamps(systems: Systems, stamp: str, user: str = "ana@acme.example") -> list[str]:
    """The stamps of the messages that an IMAP search by header finds."""
    with imaplib.IMAP4(*systems.imap, timeout=5) as imap:
        imap.login(user, systems.mail_password)
        imap.select("INBOX", readonly=True)
        _, found = imap.uid("SEARCH", "HEADER", "X-Stamp", stamp)
        answers = [
            imap.uid("FETCH", uid.decode(), "(BODY.PEEK[HEADER.FIELDS (X-STAMP)])")[1] for uid in found[0].split()
        ]
    # Only the pairs are what was asked for; a server may tell of other messages' flags in between.
    headers = [part[1].decode() for answer in answers for part in answer if isinstance(part, tuple)]
    return [re.sub(r"\s", "", header.partition(":")[2]) for header in headers]


def test_a_message_is_delivered_and_found_over_imap_by_its_exact_stamp(systems: Systems) -> None:
    send(systems, "m-1")
    send(systems, "m-11")
    (mail,) = systems.truth.mails(mailbox="ana@acme.example", stamp="m-1")
    assert (mail.sender, mail.subject, mail.body.strip()) == (
        "shop@acme.example",
        "About m-1",
        "Your order left.",
    )
    # IMAP looks for a part of the text: telling m-1 from m-11 is the reader's affair.
    assert sorted(imap_stamps(systems, "m-1")) == ["m-1", "m-11"]
    assert imap_stamps(systems, "m-1", user="ben@acme.example") == []


def test_an_unknown_recipient_is_refused(systems: Systems) -> None:
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        send(systems, "m-2", to="nobody@acme.example")


def test_an_accepted_message_is_lost_though_it_lies_in_the_senders_sent_folder(systems: Systems) -> None:
    systems.fault("accepted_dropped", system="mail", match={"stamp": "m-3"})
    send(systems, "m-3")
    assert systems.truth.mails(stamp="m-3") == []
    assert imap_stamps(systems, "m-3") == []
    assert len(systems.truth.mails(stamp="m-3", folder="Sent")) == 1


def test_a_message_is_delivered_late(systems: Systems) -> None:
    for stamp, ms in (("m-4a", 60_000), ("m-4b", 50)):
        systems.fault("delayed", system="mail", match={"stamp": stamp}, ms=ms)
        send(systems, stamp)
    eventually(lambda: imap_stamps(systems, "m-4b") == ["m-4b"])
    assert systems.truth.mails(stamp="m-4a") == []


def test_a_message_is_delivered_twice(systems: Systems) -> None:
    systems.fault("duplicate", system="mail", match={"stamp": "m-5"})
    send(systems, "m-5")
    assert imap_stamps(systems, "m-5") == ["m-5", "m-5"]


@pytest.mark.parametrize(("fault", "delivered"), [("tempfail", 0), ("refuse", 0), ("error_after_commit", 1)])
def test_a_refused_message_may_still_have_been_delivered(systems: Systems, fault: str, delivered: int) -> None:
    systems.fault(fault, system="mail", match={"stamp": f"m-6-{fault}"})
    with pytest.raises(smtplib.SMTPDataError):
        send(systems, f"m-6-{fault}")
    assert len(systems.truth.mails(stamp=f"m-6-{fault}")) == delivered


@pytest.mark.parametrize(("fault", "delivered"), [("timeout_before", 0), ("timeout_after", 1)])
def test_a_silent_mail_server_may_have_delivered(systems: Systems, fault: str, delivered: int) -> None:
    systems.fault(fault, system="mail", match={"stamp": f"m-7-{fault}"})
    with pytest.raises((TimeoutError, smtplib.SMTPServerDisconnected)):
        send(systems, f"m-7-{fault}", timeout=0.5)
    eventually(lambda: len(systems.truth.mails(stamp=f"m-7-{fault}")) == delivered)


def test_a_message_lands_in_another_mailbox_or_says_something_else(systems: Systems) -> None:
    systems.fault("wrong_mailbox", system="mail", match={"stamp": "m-8"}, mailbox="ana@globex.example")
    send(systems, "m-8")
    assert [mail.mailbox for mail in systems.truth.mails(stamp="m-8")] == ["ana@globex.example"]
    systems.fault("wrong_value", system="mail", match={"stamp": "m-9"}, old="left", new="burned")
    send(systems, "m-9")
    assert systems.truth.mails(stamp="m-9")[0].body.strip() == "Your order burned."


def test_the_mail_store_is_down_for_readers(systems: Systems) -> None:
    systems.fault("outage", system="mail", match={"stamp": "m-10"})
    send(systems, "m-10")
    with pytest.raises(imaplib.IMAP4.error):
        imap_stamps(systems, "m-10")
    systems.clear_faults()
    assert imap_stamps(systems, "m-10") == ["m-10"]
