"""Verified mail: stamp, submit over SMTP, search for the stamp over IMAP, believe only the mailbox.

Authors pass a mail server and a mailbox. Accepted but missing mail is contested and later retracted, and every read is
recorded. The recipe makes a contract and adds nothing to the engine.

Source: "The Verification Ledger Pattern". Schedule and number of candidates come from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Unpack

from readback.canon import Json
from readback.client.authoring.action import ActionDefinition
from readback.contracts.functions.conditions import postcondition
from readback.domain.context import Context
from readback.domain.line_ends import as_mail
from readback.domain.normal_form import NormalForm, normal
from readback.domain.verification.reading import Reading
from readback.errors import ContractFieldError
from readback.recipes.choices import Choices, quoted

if TYPE_CHECKING:
    from readback.client.proposal import Proposal
    from readback.systems import ImapSource, SmtpExecutor

SCHEDULE: Final = ("0s", "2s", "4s", "8s")
"""Pauses before each read, as measured in production. The sum is the window."""
WINDOW: Final = "14s"
LATE_WINDOW: Final = "1h"
"""How long an accepted mail may still arrive. The claim stays contested until then, and is retracted afterwards."""
CANDIDATES: Final = 6
"""Messages read in one folder, as measured in production, for `ImapSource(candidates=...)`."""
STAMP_HEADER: Final = "X-Readback-Stamp"


class MailAction(ActionDefinition[[str, str, str]]):
    """Propose one mail: `mail(to=..., subject=..., text=...)`.

    Example:
        >>> def propose(mail: MailAction):
        ...     return mail(to="ada@mail.example", subject="Order 7", text="Your order is shipped.")
    """

    if TYPE_CHECKING:

        def __call__(self, to: str, subject: str, text: str) -> Proposal: ...


def verified_mail(
    post: SmtpExecutor,
    mailbox: ImapSource | Mapping[str, ImapSource],
    *,
    sender: str,
    header: str = STAMP_HEADER,
    **choices: Unpack[Choices],
) -> MailAction:
    """Return an action that sends one text to one address.

    The action is verified when the message is found by its stamp. The outcome states the proof: folders of the
    recipient prove delivery, the sender's folder of sent mail proves only submission.

    The reads follow `SCHEDULE` after the answer. The last read is at the end of `WINDOW`. Further reads grow rarer
    until the end of `LATE_WINDOW`. Accepted but missing mail is contested at the end of `WINDOW` and retracted at the
    end of `LATE_WINDOW`.

    Args:
        post: The mail server.
        mailbox: The mailbox, or a mapping from recipient to mailbox, all with the same proof. With a mapping or a
            recipient's mailbox, mail to other recipients is refused.
        sender: Plain address of the sender.
        header: Header for the stamp.
        choices: Contract keys to change.

    Raises:
        ContractFieldError: The mailboxes prove different things.

    Example:
        >>> from readback.systems import ImapSource, SmtpExecutor
        >>> post = SmtpExecutor("mail", "mail.example", 465, sole=True)
        >>> inbox = ImapSource("inbox", "mail.example", 993, user="ada@m.example", password="x", proves="delivered")
        >>> mail = verified_mail(post, inbox, sender="shop@mail.example")
    """
    boxes = {_one_way(to): box for to, box in mailbox.items()} if isinstance(mailbox, Mapping) else None
    one = next(iter(mailbox.values())) if isinstance(mailbox, Mapping) else mailbox
    delivered = one.proves == "delivered"
    if boxes is not None and {each.proves for each in boxes.values()} != {one.proves}:
        raise ContractFieldError("All mailboxes of one action must have the same `proves`.")
    known = list(mailbox) if isinstance(mailbox, Mapping) else [one.user] if delivered else []

    def box(to: str) -> ImapSource:
        return one if boxes is None else boxes[_one_way(to)]

    def mail(ctx: Context, to: str, subject: str, text: str) -> object:
        return post.send(ctx, sender=sender, to=[to], subject=subject, text=text, stamp_header=header)

    def in_mailbox(ctx: Context, to: str, subject: str, text: str) -> Reading:
        return box(to).by_stamp(ctx, header=header)

    def copies(ctx: Context, to: str, subject: str, text: str) -> list[Reading]:
        return box(to).find(ctx, header=header)

    action = MailAction(mail, {**_contract(sender, one.proves, known), **choices})
    action.read(source=one.name, consistency="strong", independence="other_system" if delivered else "other_client")(
        in_mailbox
    )
    action.find(copies)
    return action


def _one_way(address: str) -> str:
    """Normalize an address as mail compares addresses: the domain ignores case, the rest does not."""
    return normal((NormalForm.EMAIL,), address)


def _addressed(known: str) -> str:
    """Return an expression that is true for this address only, by the same rule."""
    local = known.rpartition("@")[0]
    if not local:
        return f"requested.to == {quoted(known)}"
    lowered = f"requested.to.lowerAscii() == {quoted(known.lower())}"
    return f"(requested.to.startsWith({quoted(local + '@')}) && {lowered})"


def _contract(sender: str, proves: str, known: list[str]) -> dict[str, object]:
    whose = "authoritative.mailbox" if proves == "delivered" else "requested.to in authoritative.to"
    return {
        "name": "verified_mail",
        "kind": "send",
        "side_effect": "low_risk_internal",
        "target": "mailbox/{requested.to}",
        "identity": {
            "target": whose,
            "tenant": "not_offered",
            "account": "not_offered",
            "actor": "not_offered",
            "stamp": "authoritative.stamp",
        },
        "require": {"known recipient": " || ".join(map(_addressed, known))} if known else {},
        "ensure": {
            "sender": f"authoritative.from == {quoted(sender)}",
            "recipient": "requested.to in authoritative.to",
            "subject": subject_as_asked,
            "text": text_as_asked,
        },
        "proves": proves,
        "polls": SCHEDULE,
        "within": WINDOW,
        "late_window": LATE_WINDOW,
    }


@postcondition(version="1", name="subject as asked for")
def subject_as_asked(requested: dict[str, Json], authoritative: dict[str, Json]) -> bool | None:
    """The subject is as requested. Servers fold headers, so one blank equals several."""
    shown = authoritative.get("subject")
    return shown.split() == str(requested["subject"]).split() if isinstance(shown, str) else None


@postcondition(version="3", name="text as asked for")
def text_as_asked(requested: dict[str, Json], authoritative: dict[str, Json]) -> bool | None:
    """The digest of the text is as requested, with the line endings of mail, also at the end.

    Further parts, such as an HTML version of the text, leave the result open: a mail program may show another part.
    """
    shown = authoritative.get("body_sha256")
    text = str(requested["text"])
    if not isinstance(shown, str):
        return None
    if shown not in [sha256(each.encode()).hexdigest() for each in (text, as_mail(text))]:
        return False
    return True if authoritative.get("parts") == 1 else None
