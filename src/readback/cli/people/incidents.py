"""`readback incidents`: incidents that need a person's attention, from the ledger alone."""

from __future__ import annotations

from typing import Final

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.sessions import again_with, reading
from readback.cli.terminal import console, moment, note, print_json, safe
from readback.client.operations import reviewing as reviews
from readback.config import Settings
from readback.ports.storage.store import Incident

SECONDS: Final = len("2026-01-01 00:00:00")


@click.group("incidents")
def incidents() -> None:
    """List incidents, and show one.

    While an incident is open, a second incident of the same cause only raises a counter. Resolving the review of the
    first action closes the incident. Subscribers receive `incident.opened` (see `readback events`). Without a
    subscriber, the file beside the ledger receives the message.
    """


@incidents.command("list", short_help="List open incidents.")
@click.option("--all", "everything", is_flag=True, help="Include closed incidents.")
@options.settings
@options.as_json
def list_incidents(everything: bool, settings: Settings, as_json: bool) -> int:
    """List the tenant's incidents, newest first."""
    with reading(settings) as session:
        found = reviews.incidents(session, open_only=not everything)
    if as_json:
        print_json([_row(one) for one in found])
    elif not found:
        note(f"No incident is {'on record' if everything else 'open'} in tenant {safe(settings.tenant)}.")
    else:
        _draw(found)
        note(f"Next: readback incidents show ID{again_with(settings)}")
    return 0


@incidents.command("show", short_help="Show one incident.")
@click.argument("incident", metavar="ID")
@options.settings
@options.as_json
def show(incident: str, settings: Settings, as_json: bool) -> int:
    """Show one incident, and the command for the action's review."""
    with reading(settings) as session:
        found = reviews.incident(session, incident)
    if as_json:
        print_json(_row(found))
        return 0
    for name, said in _row(found).items():
        if not name.endswith("_us"):
            print(f"{name:9} {safe(said)}")
    note(f"Next: readback review show {found.action_id}{again_with(settings)}")
    return 0


def _row(one: Incident) -> dict[str, Json]:
    return {
        "id": one.id,
        "severity": one.severity,
        "cause": one.cause,
        "action": one.action_id,
        "tenant": one.tenant,
        "seen": one.seen,
        "open": not one.closed_us,
        "opened_us": one.opened_us,
        "opened": moment(one.opened_us),
        "closed_us": one.closed_us,
        "closed": moment(one.closed_us),
    }


def _draw(found: list[Incident]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("id", "severity", "cause", "seen", "opened (UTC)", "state"):
        table.add_column(name, overflow="fold", no_wrap=name == "id")
    for one in found:
        state = "closed" if one.closed_us else "open"
        opened = moment(one.opened_us)[:SECONDS]
        table.add_row(one.id, one.severity, Text(safe(one.cause, 120)), str(one.seen), opened, state)
    console().print(table)
