"""The table of the delegation: answers, truth at that time, and both agents' reports. Draws, and judges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from readback.cli.terminal import console, safe, speaks_unicode
from readback.demo.delegated.tally import AttemptRow, AttemptTotals
from readback.demo.report import SAID_MAX, WORDS, counted

if TYPE_CHECKING:
    from rich.table import Table

SHARES: Final = (30, 26, 28)


def show_attempts(rows: Sequence[AttemptRow], totals: AttemptTotals) -> None:
    """Print the attempts and their counts on stdout."""
    out = console()
    out.print()
    out.print(_table(out.width, rows))
    out.print()
    for line in counted(_counts(totals)):
        out.print(line)


def _table(width: int, rows: Sequence[AttemptRow]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    room = width - (7 + 7 + 2 * 5)
    said, truth, last = (share * room // sum(SHARES) for share in SHARES)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), collapse_padding=True)
    table.add_column("attempt", width=7, no_wrap=True)
    table.add_column("the delegate said", width=said, overflow="fold")
    table.add_column("what was true then", width=truth, overflow="fold")
    table.add_column("naive", width=7)
    table.add_column("Readback", width=last)
    for number, row in enumerate(rows, 1):
        wrong = ("✗" if speaks_unicode() else "!") if row.naive_false else ""
        state = WORDS.get(row.state, row.state).replace("_", " ")
        verdict = f"{state}: {row.discrepancy.replace('_', ' ')}" if row.discrepancy else state
        table.add_row(
            str(number),
            Text(safe(row.said if len(row.said) <= SAID_MAX else f"{row.said[: SAID_MAX - 1]}…"), style="dim"),
            Text(safe(row.fact.text), style="green" if row.fact.done else "red"),
            Text(f"{wrong}{row.naive.claim.value}", style="bold red" if wrong else ""),
            Text(verdict, style="bold red" if row.readback_false or row.missed else ""),
        )
    return table


def _counts(totals: AttemptTotals) -> list[tuple[str, str, bool]]:
    return [
        ("attempts of the delegate", str(totals.attempts), True),
        ("false successes told by who believes it", str(totals.naive_false_successes), True),
        ("false successes told by Readback", str(totals.readback_false_successes), not totals.readback_false_successes),
        ("done, and not told by Readback", str(totals.missed_successes), not totals.missed_successes),
        ("the task in the end", "done, and read back" if totals.done else "NOT DONE", totals.done),
    ]
