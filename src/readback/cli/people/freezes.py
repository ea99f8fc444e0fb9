"""`readback freezes`: targets closed to new actions, and an operator's decision to reopen them."""

from __future__ import annotations

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.prompt import operator, signed, signing
from readback.cli.sessions import again_with, reading, working
from readback.cli.terminal import console, moment, note, print_json, safe
from readback.client.operations import reviewing as reviews
from readback.config import Settings
from readback.domain.people.review import lift_bytes
from readback.drivers.driver_sync import SyncDriver
from readback.engine.people import review as reviewing
from readback.ports.storage.store import Freeze
from readback.views.outcome_text import plain


@click.group("freezes")
def freezes() -> None:
    """List frozen targets, and lift freezes.

    A wrong target, a duplicate or a critical mismatch freezes the affected target. New actions on a frozen target are
    refused before execution, until an operator lifts the freeze.
    """


@freezes.command("list", short_help="List frozen targets.")
@options.settings
@options.as_json
def list_freezes(settings: Settings, as_json: bool) -> int:
    """List the frozen targets of the tenant, oldest first."""
    with reading(settings) as session:
        found = reviews.freezes(session)
    if as_json:
        print_json([_row(one) for one in found])
    elif not found:
        note(f"Nothing is frozen in tenant {safe(settings.tenant)}.")
    else:
        _draw(found)
        note(f"Next: readback freezes lift SUBJECT --reason TEXT{again_with(settings)}")
    return 0


@freezes.command("lift", short_help="Lift a freeze.")
@click.argument("subject")
@click.option("--reason", required=True, metavar="TEXT", help="The reason, for the record.")
@operator
@options.settings
@options.as_json
def lift(
    subject: str,
    reason: str,
    who: str | None,
    key: str | None,
    settings: Settings,
    as_json: bool,
) -> int:
    """Lift the freezes of a subject, such as resource:order/o-17. Every action behind a freeze records the decision.

    Only an approver may lift the freeze of a critical mutation, signing with --key.
    """
    with working(settings, None, new=False) as session:
        name = signing(who)
        frozen = reviews.freezers(session, subject)
        signature = signed(lift_bytes(session.scope.tenant, subject, frozen, name, reason), key)
        ids, order = reviews.lifting(session, subject, who=name, reason=reason, signature=signature)
        driver = SyncDriver(session.store, session.runtime, session.courier)
        try:
            for action_id in ids:
                driver.drive(reviewing.lift(action_id, subject, order, session.scope.tenant))
        finally:
            driver.close()
    if as_json:
        print_json({"subject": subject, "actions": list(ids), "who": name})
    else:
        print(f"Lifted: {safe(subject)}, frozen by {', '.join(ids)}.")
    return 0


def _row(one: Freeze) -> dict[str, Json]:
    return {
        "subject": one.subject,
        "action": one.action_id,
        "reason": one.reason,
        "since_us": one.since_us,
        "since": moment(one.since_us),
        "tenant": one.tenant,
    }


def _draw(found: list[Freeze]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("subject", "since", "because", "by action"):
        table.add_column(name, overflow="fold")
    for one in found:
        shown = Text(safe(one.subject, 120)), Text(plain(safe(one.reason)))
        table.add_row(shown[0], moment(one.since_us), shown[1], one.action_id)
    console().print(table)
