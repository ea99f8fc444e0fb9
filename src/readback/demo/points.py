"""The short report: the false successes of the naive agent, and the counts of both agents last.

Called by `main` with finished rows. This module draws, and judges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from readback.canon.frozen import dataclass
from readback.cli.terminal import console, safe
from readback.demo.report import naive_cell, readback_cell, short, where_next
from readback.demo.tally import Row, Totals

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from readback.demo.delegated.tally import AttemptTotals
    from readback.demo.trip.tally import TripTotals

BRIEF_SHARES: Final = (24, 28, 26, 30)
BRIEF_ROWS_MAX: Final = 20
COUNT_WIDTH: Final = 50


@dataclass(frozen=True, slots=True)
class Points:
    """The counts of all chapters, for the short report."""

    morning: Totals
    attempts: AttemptTotals
    trips: TripTotals


def show_points(rows: Sequence[Row], points: Points, ledger: str, events: int) -> None:
    """Print the false successes of the naive agent, one a line, and the counts of both agents last."""
    out = console()
    believed = sorted((row for row in rows if row.naive_false), key=lambda row: row.pattern or "~")
    out.print()
    out.print(_brief_table(out, believed[:BRIEF_ROWS_MAX]))
    if len(believed) > BRIEF_ROWS_MAX:
        out.print(f"and {len(believed) - BRIEF_ROWS_MAX} more")
    out.print()
    everything = "All steps, trips and attempts: readback demo -v (in a checkout: make demo V=1)"
    for each in (*where_next(rows, ledger), everything, ""):
        out.print(each, soft_wrap=True)
    for line in _points(points, events):
        out.print(line)


def _brief_table(out: Console, rows: Sequence[Row]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    room = out.width - (6 + 2 * 5)
    step, tool, truth, last = (share * room // sum(BRIEF_SHARES) for share in BRIEF_SHARES)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), collapse_padding=True)
    for title, width in (("step", step), ("the tool said", tool), ("what is true", truth), ("naive", 6)):
        table.add_column(title, width=width, no_wrap=True, overflow="ellipsis")
    table.add_column("Readback", width=last, no_wrap=True, overflow="ellipsis")
    for row in rows:
        fact = Text(safe(row.fact.text), style="green" if row.fact.done else "red")
        table.add_row(
            safe(row.name), Text(short(row.tool_said), style="dim"), fact, naive_cell(row), readback_cell(row)
        )
    return table


def _points(points: Points, events: int) -> list[Text]:
    """The comparison of both agents: one line for each part of the demo, and the sums."""
    from rich.text import Text

    morning, attempts, trips = points.morning, points.attempts, points.trips
    counts = (
        (
            f"false successes in {morning.actions} steps",
            morning.naive_false_successes,
            morning.readback_false_successes,
        ),
        (
            f"false successes in {attempts.attempts} attempts of a delegate",
            attempts.naive_false_successes,
            attempts.readback_false_successes,
        ),
        (f"false reports of {trips.trips} trips of five steps", trips.naive_wrong, trips.readback_false),
    )
    naive, ours = sum(each[1] for each in counts), sum(each[2] for each in counts)
    missed = morning.missed_successes + attempts.missed_successes + trips.missed
    doubled = morning.duplicated_effects + trips.doubled_effects
    found = "sound" if morning.ledger_ok else "FAULTS FOUND"
    good = morning.good and attempts.good and trips.good
    lines = [Text.assemble(f"{'':<{COUNT_WIDTH}}", (f"{'naive agent':>11}{'Readback':>11}", "bold"))]
    for name, theirs, own in counts:
        numbers = ((f"{theirs:>11}", "bold red" if theirs else ""), (f"{own:>11}", "bold red" if own else "bold green"))
        lines.append(Text.assemble(f"{name:<{COUNT_WIDTH}}", *numbers))
    kept = f"Readback: {missed} true outcomes not reported, {doubled} effects doubled; {events} entries {found}."
    last = f"The naive agent reported {naive} things that are not so. Readback reported {ours}."
    return [*lines, Text(kept), Text(last, style="bold" if good else "bold red")]
