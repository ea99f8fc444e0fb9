"""A saga at the shell: a tree of steps."""

from __future__ import annotations

from typing import Any

from readback.cli.terminal import OPEN, mark, moment, safe
from readback.domain.saga.outcome import SagaOutcome, StepOutcome
from readback.views.outcome_text import headline, mark_of, plain
from readback.views.saga import MARKS, Picture, step_line


def draw(outcome: SagaOutcome, shown: Picture, console: Any) -> None:
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
