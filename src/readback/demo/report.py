"""The reports on stdout: short by default, with the counts of both agents last, and all tables with -v.

Draws finished rows, and judges nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, Literal

from readback.canon import Json
from readback.cli.terminal import console, safe, speaks_unicode
from readback.demo.naive import Claim
from readback.demo.tally import (
    ATTEMPT_COUNTS,
    STEP_COUNTS,
    TRIP_COUNTS,
    Counted,
    Ending,
    Reckoning,
    Row,
    Totals,
    TripRow,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Cell = tuple[str, str]
"""A text and its style."""
Columns = tuple[tuple[str, int, int], ...]
"""Titles, with a fixed width, or with a share (in percent) of the remaining room."""

SAID_MAX: Final = 48
BRIEF_ROWS_MAX: Final = 20
COUNT_WIDTH: Final = 50
WORDS: Final = {"reconciled_success": "done", "review_required": "review"}
ENDS: Final = {Claim.DONE: "booked", Claim.FAILED: "not booked", Claim.REVERSED: "taken back", Claim.OPEN: "open"}
SAID, TRUE, NAIVE = ("the tool said", 0, 22), ("what is true", 0, 24), ("naive", 7, 0)
STEPS: Final[Columns] = (("", 5, 0), ("step", 0, 29), SAID, TRUE, NAIVE, ("Readback", 0, 25))
BRIEF: Final[Columns] = (("step", 0, 23), ("the tool said", 0, 25), TRUE, NAIVE, ("Readback", 0, 28))
ATTEMPTS: Final[Columns] = (
    ("attempt", 7, 0), ("the delegate said", 0, 36), ("what was true then", 0, 31), NAIVE, ("Readback", 0, 33)
)  # fmt: skip
ENDING = "told, and what stands"
TRIPS: Final[Columns] = (
    ("trip", 7, 0), ("what is spoiled", 0, 26), ("the tool said", 0, 16), (f"naive: {ENDING}", 0, 29),
    (f"Readback: {ENDING}", 0, 29),
)  # fmt: skip


def show_brief(found: Reckoning, ledger: str, events: int) -> None:
    """Print the false successes of the naive agent, one a line, and the counts of both agents last."""
    out = console()
    believed = sorted((row for row in found.rows if row.naive_false), key=lambda row: row.pattern or "~")
    out.print()
    out.print(_table(out, BRIEF, [_cells(row) for row in believed[:BRIEF_ROWS_MAX]], one_line=True))
    if len(believed) > BRIEF_ROWS_MAX:
        out.print(f"and {len(believed) - BRIEF_ROWS_MAX} more")
    everything = "All steps, trips and attempts: readback demo -v (in a checkout: make demo V=1)"
    for line in ("", *_where_next(found.rows, ledger), everything, ""):
        out.print(line, soft_wrap=True)
    _compare(out, found, events)


def show_all(found: Reckoning, ledger: str, events: int) -> None:
    """Print every trip, attempt and step with the counts of its chapter."""
    out = console()
    wheres = [row.booked.case.where for row in found.trips]
    ends = {number for number, pair in enumerate(itertools.pairwise(wheres)) if pair[0] != pair[1]}
    _show(out, _table(out, TRIPS, [_trip_cells(row) for row in found.trips], ends), TRIP_COUNTS, found.travel)
    cells = [[(row.name, ""), (_shortened(row.tool_said), "dim"), *_cells(row)[2:]] for row in found.attempts]
    _show(out, _table(out, ATTEMPTS, cells), ATTEMPT_COUNTS, found.delegation)
    spoiled = sorted((row for row in found.rows if row.spoiled), key=lambda row: row.pattern or "~")
    ordered = [*spoiled, *(row for row in found.rows if not row.spoiled)]
    cells = [[(row.pattern, "dim"), *_cells(row)] for row in ordered]
    _show(out, _table(out, STEPS, cells, {len(spoiled) - 1}), STEP_COUNTS, found.morning)
    for line in (f"{'entries recomputed':<42}{events}", "", *_where_next(spoiled, ledger)):
        out.print(line, soft_wrap=True)


def _show(out: Console, table: Table, counts: Counted, totals: Totals) -> None:
    """Print a table, and the counts one a line, bad counts in red."""
    from rich.text import Text

    out.print()
    out.print(table)
    out.print()
    for _, field, words in counts:
        value = getattr(totals, field)
        shown = ("yes" if value else "NO") if field == "sound" else str(value)
        good = field in ("number", "naive_false") or (value if field == "sound" else not value)
        out.print(Text.assemble(f"{words:<42}", (shown, "bold" if good else "bold red")))


def _table(
    out: Console,
    columns: Columns,
    rows: Sequence[Sequence[Cell]],
    ends: Collection[int] = (),
    *,
    one_line: bool = False,
) -> Table:
    """A table over the whole width. `ends`: rows with a line beneath. `one_line`: longer texts are cut."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    room = out.width - sum(fixed for _, fixed, _ in columns) - 2 * len(columns)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), collapse_padding=True)
    for title, fixed, share in columns:
        overflow: Literal["ellipsis", "fold"] = "ellipsis" if one_line else "fold"
        table.add_column(title, width=fixed or share * room // 100, no_wrap=one_line, overflow=overflow)
    for number, row in enumerate(rows):
        table.add_row(*(Text(safe(text), style) for text, style in row), end_section=number in ends)
    return table


def _cells(row: Row) -> list[Cell]:
    """Name, tool, truth, naive agent and Readback: the state, and the finding of an unintended result."""
    wrong = _cross() if row.naive_wrong else ""
    state = WORDS.get(row.state, row.state).replace("_", " ")
    found = "compensation failed" if row.review == "compensation_failed" else row.discrepancy.replace("_", " ")
    ours = state if row.readback.claim is Claim.DONE or not found else f"{state}: {found}"
    return [
        (row.name, ""),
        (short(row.tool_said), "dim"),
        (row.fact.text, "green" if row.fact.done else "red"),
        (f"{wrong}{row.naive.claim.value}", "bold red" if wrong else ""),
        (ours or "not on record", "bold red" if row.readback_false or row.missed else ""),
    ]


def _trip_cells(row: TripRow) -> list[Cell]:
    case = row.booked.case
    spoiled = f"{case.where}: {case.words}" if case.where else case.words
    return [(case.trip, ""), (spoiled, ""), (short(row.tool_said), "dim"), _ending(row.naive), _ending(row.readback)]


def _ending(ending: Ending) -> Cell:
    wrong = ending.false or ending.missed or ending.doubled
    text = f"{ENDS[ending.told.claim]}: {ending.stands}"
    return (f"{_cross()}{text}", "bold red") if wrong else (text, "")


def _cross() -> str:
    return "✗" if speaks_unicode() else "!"


def short(said: str) -> str:
    """A tool's answer in a few words: the status with the body's own word, or the text."""
    status, _, body = said.partition(" ")
    return (f"{status} {_word(body)}" if status.isdecimal() else _word(said))[:SAID_MAX]


def _word(body: str) -> str:
    try:
        found: Json = json.loads(body)
    except ValueError:
        return body
    if not isinstance(found, dict):
        return body
    if "reply" in found:
        return f"{found['code']} {found['reply']}"
    for name in ("message", "status", "text"):
        if isinstance(found.get(name), str):
            return str(found[name])
    return ", ".join(f"{name} {found[name]}" for name in ("qty", "rowcount", "size") if name in found)


def _shortened(text: str) -> str:
    return text if len(text) <= SAID_MAX else f"{text[: SAID_MAX - 1]}…"


def _where_next(rows: Sequence[Row], ledger: str) -> list[str]:
    worth = max(rows, key=lambda row: (row.review == "compensation_failed", row.state == "review_required"))
    setting = f"READBACK_URL={ledger} READBACK_TENANT=acme"
    return [
        f"Look closer, for instance at {worth.name!r}:",
        f"  {setting} readback show {worth.id}",
        f"  {setting} readback list",
    ]


def _compare(out: Console, found: Reckoning, events: int) -> None:
    """Print the comparison of both agents: one line for each part of the demo, and the sums."""
    from rich.text import Text

    morning, attempts, trips = found.morning, found.delegation, found.travel
    lines = {
        f"false successes in {morning.number} steps": morning,
        f"false successes in {attempts.number} attempts of a delegate": attempts,
        f"false reports of {trips.number} trips of five steps": trips,
    }
    out.print(Text.assemble(f"{'':<{COUNT_WIDTH}}", (f"{'naive agent':>11}{'Readback':>11}", "bold")))
    for name, each in lines.items():
        theirs = (f"{each.naive_false:>11}", "bold red" if each.naive_false else "")
        ours = (f"{each.readback_false:>11}", "bold red" if each.readback_false else "bold green")
        out.print(Text.assemble(f"{name:<{COUNT_WIDTH}}", theirs, ours))
    missed, doubled = sum(each.missed for each in lines.values()), sum(each.doubled for each in lines.values())
    ledger = "sound" if morning.sound else "FAULTS FOUND"
    out.print(f"Readback: {missed} true outcomes not reported, {doubled} effects doubled; {events} entries {ledger}.")
    naive, ours_false = (sum(getattr(each, f"{who}_false") for each in lines.values()) for who in ("naive", "readback"))
    last = f"The naive agent reported {naive} things that are not so. Readback reported {ours_false}."
    out.print(last, style="bold" if found.good else "bold red")
