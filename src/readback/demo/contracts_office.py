"""The order desk's other contracts: mail, files, the daybook, and a pager without a system of record.

A mail is read back in the recipient's mailbox. A file is verified before it replaces the target. A daybook entry is
verified inside the open transaction. The pager's contract states that no reading is possible.
"""

from __future__ import annotations

from readback import Context, Reading, action
from readback.demo.desk import desk
from readback.demo.overheard import overheard

SENDER = "shop@acme.example"

# --- send: delivered, not merely accepted ---------------------------------------------------------------------


@action(
    kind="send",
    side_effect="medium_risk_write",
    target="mailbox/{requested.to}",
    identity={
        "target": "authoritative.mailbox",
        "stamp": "authoritative.stamp",
        "tenant": "not_offered",
        "actor": "not_offered",
    },
    ensure={
        "subject": "authoritative.subject == requested.subject",
        "text": "authoritative.body_sha256 == sha256(requested.text)",
    },
    proves="delivered",
    redact=["requested.text"],  # the ledger keeps no copy of what was written to a customer
    within="3s",
    polls=("0s", "200ms", "400ms", "800ms"),
    late_window="3s",
)
@overheard
def send_mail(ctx: Context, to: str, subject: str, text: str) -> object:
    """Write to a customer."""
    return desk.post.send(ctx, sender=SENDER, to=[to], subject=subject, text=text, stamp_header="X-Stamp")


@send_mail.read(source="mailboxes", consistency="strong", independence="other_system", attributes=True)
def delivered_mail(ctx: Context, to: str, subject: str, text: str) -> Reading:
    return desk.mailboxes[to].by_stamp(ctx, header="X-Stamp")


@send_mail.find
def mails_anywhere(ctx: Context, to: str, subject: str, text: str) -> list[Reading]:
    return [found for box in desk.mailboxes.values() for found in box.find(ctx, header="X-Stamp")]


# --- staged: verified before it counts ------------------------------------------------------------------------


@action(
    kind="set",
    side_effect="ephemeral_write",
    target="file/{requested.path}",
    ensure={"the bytes": "authoritative.sha256 == sha256(requested.text)"},
)
@overheard
def write_file(ctx: Context, path: str, text: str) -> object:
    """Write a file into the work folder, beside the target until verified."""
    return desk.folder.stage(ctx, path, text, parents=True)


@write_file.read(source="work-folder", consistency="strong", independence="other_client")
def file_there(ctx: Context, path: str, text: str) -> Reading:
    return desk.files.stat(path)


ENTRY = "SELECT * FROM daybook WHERE tenant = ? AND order_id = ?"


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={
        "target": "authoritative.order_id",
        "tenant": "authoritative.tenant",
        "stamp": "authoritative.stamp",
    },
    ensure={"amount": "authoritative.cents == requested.cents"},
    within="1s",
    late_window="0s",  # a transaction of our own: when it has ended, nothing can still land
)
@overheard
def enter_in_daybook(ctx: Context, order_id: str, cents: int) -> object:
    """Enter an order into the daybook. Returns an open transaction; Readback commits or rolls back."""
    with desk.daybook.staged(ctx) as entry:
        # "OR IGNORE" keeps a refused row from being an error. It keeps it from being noticed, too.
        sql = "INSERT OR IGNORE INTO daybook VALUES (?, ?, ?, ?)"
        entry.execute(sql, [ctx.tenant, order_id, cents, ctx.stamp])
        entry.look(ENTRY, [ctx.tenant, order_id], stamp="stamp")
        return entry


@enter_in_daybook.read(source="daybook", consistency="strong", independence="other_client")
def daybook_entry(ctx: Context, order_id: str, cents: int) -> Reading:
    return desk.daybook_rows.one(ENTRY, [ctx.tenant, order_id], stamp="stamp")


# --- unverifiable: said so, and never told as done ------------------------------------------------------------


@action(
    kind="send",
    side_effect="low_risk_internal",
    target="pager/{requested.team}",
    ensure={"received": "authoritative.received"},
    unverifiable="The pager company offers no way to ask what became of a message.",
)
@overheard
def page_team(ctx: Context, team: str, text: str) -> object:
    """Page a team. The gateway accepts every message, and no reading can confirm delivery."""
    return {"status": "sent", "team": team}
