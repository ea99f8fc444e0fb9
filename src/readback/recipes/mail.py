"""Verified mail: stamp, submit over SMTP, look for the stamp over IMAP, believe only what the mailbox shows.

Used by authors, who hand over a submission server and a mailbox. It makes a contract and adds nothing to the engine:
what was accepted and cannot be found is contested and retracted there, and every look is recorded there.

Source: "The Verification Ledger Pattern"; the schedule and the number of candidates are its own.
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
"""Pauses before each look, as measured in production; together they are the window."""
WINDOW: Final = "14s"
LATE_WINDOW: Final = "1h"
"""How long a mail that was accepted may still turn up; until then it is contested, and not yet retracted."""
CANDIDATES: Final = 6
"""Messages of one folder that are looked at, as measured in production; for `ImapSource(candidates=...)`."""
STAMP_HEADER: Final = "X-Readback-Stamp"


class MailAction(ActionDefinition[[str, str, str]]):
    """Proposes one mail: `mail(to=..., subject=..., text=...)`."""

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
    """An action that sends one text to one address, and is verified when the message is found by its stamp.

    `mailbox` proves what it says of itself: the recipient's own folders prove delivery, the sender's folder of sent
    mail only submission; the outcome says which. A mapping has a mailbox for each recipient, all of one kind. Nothing
    is sent to anybody whose mailbox is none of these. The looks are `SCHEDULE` after the answer, the last of them at
    the close of `WINDOW`, and go on ever more slowly until `LATE_WINDOW` has passed: what was accepted and is not there
    is contested at the close of the former, and retracted at the end of the latter. `choices` change what the contract
    says.
    """
    boxes = {_one_way(to): box for to, box in mailbox.items()} if isinstance(mailbox, Mapping) else None
    one = next(iter(mailbox.values())) if isinstance(mailbox, Mapping) else mailbox
    delivered = one.proves == "delivered"
    if boxes is not None and {each.proves for each in boxes.values()} != {one.proves}:
        raise ContractFieldError("The mailboxes of one action prove the same.")
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
    """As mail compares addresses: the domain without regard to case, the rest as it is written."""
    return normal((NormalForm.EMAIL,), address)


def _addressed(known: str) -> str:
    """An expression that holds of this address alone, by the same rule."""
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
    """The subject is that one. A header is folded on its way, so that one blank is as good as several."""
    shown = authoritative.get("subject")
    return shown.split() == str(requested["subject"]).split() if isinstance(shown, str) else None


@postcondition(version="3", name="text as asked for")
def text_as_asked(requested: dict[str, Json], authoritative: dict[str, Json]) -> bool | None:
    """The digest of the text is that one. Lines end on their way as mail ends them, and so does the last of them. Where
    something came along that was not asked for, such as the text once more as HTML, nobody can tell what is read of it.
    """
    shown = authoritative.get("body_sha256")
    text = str(requested["text"])
    if not isinstance(shown, str):
        return None
    if shown not in [sha256(each.encode()).hexdigest() for each in (text, as_mail(text))]:
        return False
    return True if authoritative.get("parts") == 1 else None
