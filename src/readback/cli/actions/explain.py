"""`readback explain`: the reasons for an outcome and the next steps, in plain sentences, from the ledger alone."""

from __future__ import annotations

import click

from readback.cli import options
from readback.cli.sessions import again_with, reading, settings_of
from readback.cli.terminal import console, mark, print_json
from readback.views.explain import explained_any
from readback.views.outcome_text import headline, mark_of


@click.command("explain")
@click.argument("action", metavar="ID")
@options.ledger
@options.as_json
def explain(action: str, url: str | None, tenant: str | None, principal: str | None, as_json: bool) -> int:
    """Explain the outcome of an action and print the exact next commands.

    ID is an id, a stamp, the first letters of an id (4 or more), or `last` for the newest action.
    """
    from readback.views.action import outcome_and_picture

    settings = settings_of(url, tenant, principal)
    with reading(settings) as session:
        outcome, picture = outcome_and_picture(session, action)
    told = explained_any(outcome, picture, again_with(settings), again_with(settings, contracts=True))
    if as_json:
        print_json(told)
        return 0
    out = console()
    from rich.text import Text

    out.print(Text.assemble(mark(mark_of(outcome)), " ", (headline(outcome), "bold")))
    for title, key in (("Why", "why"), ("Now", "now"), ("Next commands", "commands")):
        said = told[key]
        if isinstance(said, list) and said:
            out.print(Text(f"\n{title}", style="bold"))
            # Not folded: a command has to stay on one line to be copied, and a sentence to be searched for.
            out.print(Text("\n".join(f"  {line}" for line in said)), soft_wrap=True)
    return 0
