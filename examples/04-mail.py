"""Mail: a 250 means that a server took the message over. Whether it was delivered is asked of the recipient's mailbox.

Run it with `python examples/04-mail.py`. It needs `pip install 'readback-ai[demo]'`: the demo's real SMTP and IMAP
servers stand here for yours, and one of them loses a message on request.

Prints:
    submitted: reconciled_success, proves submitted
    delivered: reconciled_success, proves delivered
    dropped:   unknown, though the server said: accepted
    injection: error, and nothing was sent
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from importlib.util import find_spec

from readback import Context, Readback, Reading, action
from readback.demo.systems import Systems
from readback.systems import ImapSource, SmtpExecutor

if find_spec("aiosmtpd") is None or find_spec("pymap") is None:
    sys.exit("This example needs: pip install 'readback-ai[demo]'")

SENDER, RECIPIENT = "shop@acme.example", "ana@acme.example"
systems = Systems().__enter__()
post = SmtpExecutor("post", *systems.smtp, security="none", sole=True)


def mailbox(name: str, user: str, folder: str, *, delivery: bool) -> ImapSource:
    """The sender's folder `Sent` proves that something was submitted; the recipient's own folders prove delivery."""
    return ImapSource(
        name,
        *systems.imap,
        user=user,
        password=systems.mail_password,
        folders=[folder],
        proves="delivered" if delivery else "submitted",
        security="none",
    )


sent = mailbox("sent", SENDER, "Sent", delivery=False)
inbox = mailbox("inbox", RECIPIENT, "INBOX", delivery=True)

SUBJECT = "authoritative.subject == requested.subject"
TEXT = "authoritative.body_sha256 == sha256(requested.text) && authoritative.parts == 1"


@action(
    kind="send",
    side_effect="low_risk_internal",
    target="mailbox/{requested.to}",
    identity={"target": "requested.to in authoritative.to", "tenant": "not_offered", "stamp": "authoritative.stamp"},
    ensure={"subject": SUBJECT, "text": TEXT},
    proves="submitted",
    within="2s",
)
def submit(ctx: Context, to: str, subject: str, text: str) -> object:
    return post.send(ctx, sender=SENDER, to=[to], subject=subject, text=text)


@submit.read(source="sent", consistency="strong", independence="other_client")
def in_sent(ctx: Context, to: str, subject: str, text: str) -> Reading:
    return sent.by_stamp(ctx)


@action(
    kind="send",
    side_effect="low_risk_internal",
    target="mailbox/{requested.to}",
    identity={"target": "authoritative.mailbox", "tenant": "not_offered", "stamp": "authoritative.stamp"},
    ensure={"subject": SUBJECT, "text": TEXT},
    proves="delivered",
    redact=["requested.text"],
    within="2s",
)
def deliver(ctx: Context, to: str, subject: str, text: str) -> object:
    return post.send(ctx, sender=SENDER, to=[to], subject=subject, text=text)


@deliver.read(source="inbox", consistency="strong", independence="other_system")
def in_inbox(ctx: Context, to: str, subject: str, text: str) -> Reading:
    return inbox.by_stamp(ctx)


@deliver.find
def copies(ctx: Context, to: str, subject: str, text: str) -> list[Reading]:
    """Two messages with one stamp are a duplicate, even when each is right."""
    return inbox.find(ctx)


def main() -> None:
    with (
        closing(systems),
        tempfile.TemporaryDirectory() as folder,
        Readback.open(f"sqlite:///{folder}/readback.db", tenant="acme", principal="agent:post") as rb,
    ):
        mail = {"to": RECIPIENT, "subject": "Your order", "text": "It is on its way."}
        submitted = rb.run(submit(**mail), operation="mail 1")
        print(f"submitted: {submitted.state}, proves {submitted.proves}")
        delivered = rb.run(deliver(**mail), operation="mail 2")
        print(f"delivered: {delivered.state}, proves {delivered.proves}")

        systems.fault("accepted_dropped", system="mail")
        dropped = rb.run(deliver(**mail), operation="mail 3")
        assert dropped.observation is not None
        print(f"dropped:   {dropped.state}, though the server said: {dropped.observation.status}")

        smuggled = rb.run(submit(to=RECIPIENT, subject="Hi\r\nBcc: eve@example.com", text="."), operation="mail 4")
        assert smuggled.observation is not None
        print(f"injection: {smuggled.observation.status}, and nothing was sent")


if __name__ == "__main__":
    main()
