"""The table of the trips: fault, tool answer, and the result for both agents. Draws, and judges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from readback.cli.terminal import console, safe, speaks_unicode
from readback.demo.naive import Claim
from readback.demo.report import counted, short
from readback.demo.trip.tally import Ending, TripRow, TripTotals

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

SHARES: Final = (22, 14, 26, 26)
TOLD: Final = {Claim.DONE: "booked", Claim.FAILED: "not booked", Claim.REVERSED: "taken back", Claim.OPEN: "open"}


def show_trips(rows: Sequence[TripRow], totals: TripTotals) -> None:
    """Print the trips and their counts on stdout."""
    out = console()
    out.print()
    out.print(_table(out.width, rows))
    out.print()
    for line in counted(_counts(totals)):
        out.print(line)


def _table(width: int, rows: Sequence[TripRow]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    room = width - (7 + 2 * 5)
    spoiled, tool, naive, readback = (share * room // sum(SHARES) for share in SHARES)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), collapse_padding=True)
    table.add_column("trip", width=7, no_wrap=True)
    titles = (("what is spoiled", spoiled), ("the tool said", tool), ("naive: told, and what stands", naive))
    for title, share in (*titles, ("Readback: told, and what stands", readback)):
        table.add_column(title, width=share, overflow="fold")
    for index, row in enumerate(rows):
        ends = index + 1 < len(rows) and rows[index + 1].where != row.where
        table.add_row(
            safe(row.trip),
            safe(f"{row.where}: {row.words}" if row.where else row.words),
            Text(short(row.tool_said), style="dim"),
            _ending(row.naive),
            _ending(row.readback),
            end_section=ends,
        )
    return table


def _ending(ending: Ending) -> Text:
    from rich.text import Text

    wrong = ending.false or ending.missed or ending.doubled
    mark = ("✗" if speaks_unicode() else "!") if wrong else ""
    return Text(f"{mark}{TOLD[ending.told.claim]}: {safe(ending.stands)}", style="bold red" if wrong else "")


def _counts(totals: TripTotals) -> list[tuple[str, str, bool]]:
    ours = (
        ("told by Readback, and not so", totals.readback_false),
        ("effects doubled under Readback", totals.doubled_effects),
        ("half trips left standing by Readback", totals.left_standing),
        ("booked, and not told by Readback", totals.missed),
        ("without an end under Readback", totals.unsettled),
    )
    return [
        ("trips", str(totals.trips), True),
        ("told by the naive agent, and not so", str(totals.naive_wrong), True),
        *((name, str(number), not number) for name, number in ours),
    ]
