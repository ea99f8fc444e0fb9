"""`readback show`: a picture of one action, from the ledger alone."""

from __future__ import annotations

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.sessions import reading, settings_of
from readback.cli.terminal import console, print_json
from readback.domain.outcome.outcome import Outcome
from readback.domain.saga.outcome import SagaOutcome


def draw_any(outcome: Outcome, picture: dict[str, Json], *, whole: bool) -> None:
    """Draw an action on one screen or in full, or a saga as a tree of steps."""
    from readback.cli.actions import saga

    if isinstance(outcome, SagaOutcome):
        saga.draw(outcome, picture, console())
    elif whole:
        from readback.cli.actions.render import draw

        draw(outcome, picture, console())
    else:
        from readback.cli.actions.render_brief import draw_brief

        draw_brief(outcome, picture, console())


@click.command("show")
@click.argument("action", metavar="ID")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show everything: states side by side, readings, lifecycle, record."
)
@options.ledger
@options.as_json
def show(action: str, verbose: bool, url: str | None, tenant: str | None, principal: str | None, as_json: bool) -> int:
    """Show the result of one action, the readings, and the next steps on one screen. -v shows everything.

    ID is an id, a stamp, the first letters of an id (4 or more), or `last` for the newest action. A saga is shown as a
    tree of steps. No contract is needed, because all facts come from the ledger. --json prints whole values.
    """
    from readback.views.action import outcome_and_picture

    settings = settings_of(url, tenant, principal)
    with reading(settings) as session:
        outcome, picture = outcome_and_picture(session, action)
        if as_json:
            print_json(picture)
        else:
            draw_any(outcome, picture, whole=verbose)
    return 0
