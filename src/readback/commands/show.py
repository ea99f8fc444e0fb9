"""`readback show`: a picture of one action, from the ledger alone."""

from __future__ import annotations

import click

from readback.commands import options
from readback.commands.opening import reading, settings_of
from readback.commands.terminal import console, print_json


@click.command("show")
@click.argument("action", metavar="ID")
@options.ledger
@options.as_json
def show(action: str, url: str | None, tenant: str | None, principal: str | None, as_json: bool) -> int:
    """Show one action by its id or its stamp: what was intended, requested, observed and read, and what follows.

    It needs no contracts: everything comes from the ledger. Values are bounded; --json has them whole.
    """
    from readback.commands.gathering import outcome_and_picture

    settings = settings_of(url, tenant, principal)
    with reading(settings) as session:
        outcome, picture = outcome_and_picture(session, action)
        if as_json:
            print_json(picture)
        else:
            from readback.commands.drawing import draw

            draw(outcome, picture, console())
    return 0
