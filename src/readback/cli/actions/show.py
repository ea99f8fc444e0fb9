"""`readback show` and `readback explain`: a picture of one action, and the reasons for its outcome, from the ledger."""

from __future__ import annotations

from typing import Any

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.sessions import again_with, reading
from readback.cli.terminal import OPEN, console, mark, moment, print_json, safe
from readback.config import Settings
from readback.domain.outcome.outcome import Outcome
from readback.domain.saga.outcome import SagaOutcome, StepOutcome
from readback.views.outcome_text import headline, mark_of, plain
from readback.views.saga import MARKS, Picture, step_line


def draw_any(outcome: Outcome, picture: dict[str, Json], *, whole: bool) -> None:
    """Draw an action on one screen or in full, or a saga as a tree of steps."""
    if isinstance(outcome, SagaOutcome):
        _draw_saga(outcome, picture, console())
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
@options.settings
@options.as_json
def show(action: str, verbose: bool, settings: Settings, as_json: bool) -> int:
    """Show the result of one action, the readings, and the next steps on one screen. -v shows everything.

    ID is an id, a stamp, the first letters of an id (4 or more), or `last` for the newest action. A saga is shown as a
    tree of steps. No contract is needed, because all facts come from the ledger. --json prints whole values.
    """
    from readback.views.action import outcome_and_picture

    with reading(settings) as session:
        outcome, picture = outcome_and_picture(session, action)
        if as_json:
            print_json(picture)
        else:
            draw_any(outcome, picture, whole=verbose)
    return 0


@click.command("explain")
@click.argument("action", metavar="ID")
@options.settings
@options.as_json
def explain(action: str, settings: Settings, as_json: bool) -> int:
    """Explain the outcome of an action and print the exact next commands.

    ID is an id, a stamp, the first letters of an id (4 or more), or `last` for the newest action.
    """
    from readback.views.action import outcome_and_picture
    from readback.views.explain import explained_any

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


# --- a saga ---


def _draw_saga(outcome: SagaOutcome, shown: Picture, console: Any) -> None:
    """Draw the saga as a tree: each step with action and reversal."""
    from rich.text import Text
    from rich.tree import Tree

    from readback.cli.actions.render import facts, safe_lines, section

    tree = Tree(Text.assemble(mark(mark_of(outcome)), " ", (headline(outcome), "bold")))
    for step in outcome.steps.values():
        branch = tree.add(Text.assemble(mark(MARKS.get(step.word, OPEN)), f" {step_line(step)}"))
        if step.outcome is not None:
            branch.add(Text(f"action {step.outcome.id}: {plain(step.outcome.state)}{_review(step)}"))
        if step.code:
            branch.add(Text(f"not begun ({safe(step.code)}): {safe(step.detail)}"))
        if step.compensation is not None:
            branch.add(Text(f"reversal {step.compensation.id}: {plain(step.compensation.state)}"))
    console.print(tree)
    console.print(Text(f"  {outcome.message}"))
    console.print(facts(_summary(outcome)))
    section(console, "What the model may be told", Text(safe_lines(shown["said"]["model"])))


def _review(step: StepOutcome) -> str:
    assert step.outcome is not None
    return f" ({safe(step.outcome.review)})" if step.outcome.review else ""


def _summary(outcome: SagaOutcome) -> list[tuple[str, str]]:
    return [
        ("state", plain(outcome.state)),
        ("heading", outcome.heading),
        ("because", safe(outcome.because)),
        ("row", outcome.row),
        ("repetition", "allowed" if outcome.may_repeat else "not allowed"),
        ("code", safe(outcome.code)),
        ("detail", safe(outcome.detail)),
        ("due", moment(outcome.due_us) if outcome.due_us is not None else ""),
        ("hold", safe(outcome.hold)),
        ("review", safe(outcome.review)),
        ("incident", safe(outcome.incident)),
        ("operation", safe(outcome.operation)),
        ("erased", f"its payloads, at {moment(outcome.erased_us)}" if outcome.erased else ""),
        ("ledger entry", outcome.ledger_entry),
    ]
