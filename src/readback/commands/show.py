"""`readback show`: a picture of one action, from the ledger alone."""

from __future__ import annotations

import click

from readback.canon import Json
from readback.commands import options
from readback.commands.opening import reading, settings_of
from readback.commands.terminal import console, print_json
from readback.domain.outcome import Outcome
from readback.domain.saga.outcome import SagaOutcome


def draw_any(outcome: Outcome, picture: dict[str, Json]) -> None:
    """An action by itself, or a saga as a tree of its steps."""
    from readback.commands import saga
    from readback.commands.drawing import draw

    if isinstance(outcome, SagaOutcome):
        saga.draw(outcome, picture, console())
    else:
        draw(outcome, picture, console())


@click.command("show")
@click.argument("action", metavar="ID")
@options.ledger
@options.as_json
def show(action: str, url: str | None, tenant: str | None, principal: str | None, as_json: bool) -> int:
    """Show one action by its id or its stamp: what was intended, requested, observed and read, and what follows.

    A saga, by its id, is shown as a tree of its steps. It needs no contracts: everything
    comes from the ledger. Values are bounded; --json has them whole.
    """
    from readback.commands.gathering import outcome_and_picture

    settings = settings_of(url, tenant, principal)
    with reading(settings) as session:
        outcome, picture = outcome_and_picture(session, action)
        if as_json:
            print_json(picture)
        else:
            draw_any(outcome, picture)
    return 0
