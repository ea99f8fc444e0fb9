"""The closing table: tool, truth and the two agents side by side, and the counts. Draws, and judges nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from readback.canon import Json
from readback.cli.terminal import console, safe, speaks_unicode
from readback.demo.naive import Claim
from readback.demo.tally import Row, Totals

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

SHARES: Final = (24, 18, 19, 20)
"""Width shares of step, tool, truth and Readback. Pattern and naive agent are narrow."""
SAID_MAX: Final = 48
WORDS: Final = {"reconciled_success": "done", "review_required": "review"}


def show(rows: Sequence[Row], totals: Totals, ledger: str, events: int) -> None:
    """Print the result of the morning on stdout."""
    out = console()
    spoiled = sorted((row for row in rows if row.spoiled), key=lambda row: row.pattern or "~")
    honest = [row for row in rows if not row.spoiled]
    out.print()
    out.print(_table(out, [*spoiled, *honest], sections={len(spoiled) - 1}))
    out.print()
    for line in counted(_counts(totals, events)):
        out.print(line)
    out.print()
    for each in where_next(spoiled, ledger):
        out.print(each, soft_wrap=True)


def _table(out: Console, rows: Sequence[Row], sections: set[int]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    room = out.width - (5 + 7 + 2 * 6)
    step, tool, truth, last = (share * room // sum(SHARES) for share in SHARES)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), collapse_padding=True)
    table.add_column("", width=5, no_wrap=True)
    for title, width in (("step", step), ("the tool said", tool), ("what is true", truth)):
        table.add_column(title, width=width, overflow="fold")
    table.add_column("naive", width=7)
    table.add_column("Readback", width=last)
    for index, row in enumerate(rows):
        table.add_row(
            Text(row.pattern, style="dim"),
            safe(row.name),
            Text(short(row.tool_said), style="dim"),
            Text(safe(row.fact.text), style="green" if row.fact.done else "red"),
            naive_cell(row),
            readback_cell(row),
            end_section=index in sections,
        )
    return table


def naive_cell(row: Row) -> Text:
    from rich.text import Text

    said = row.naive.claim.value
    if not row.naive_wrong:
        return Text(said)
    return Text(f"{'✗' if speaks_unicode() else '!'}{said}", style="bold red")


def readback_cell(row: Row) -> Text:
    """The state, and the finding of an unintended result."""
    from rich.text import Text

    if not row.state:
        return Text("not on record")
    state = WORDS.get(row.state, row.state).replace("_", " ")
    found = "compensation failed" if row.review == "compensation_failed" else row.discrepancy.replace("_", " ")
    text = state if row.readback.claim is Claim.DONE or not found else f"{state}: {found}"
    return Text(text, style="bold red" if row.readback_false or row.missed else "")


def short(said: str) -> str:
    """A tool's answer in a few words: the status with the body's own word, or the text."""
    status, _, body = said.partition(" ")
    if not status.isdecimal():
        return safe(_word(said)[:SAID_MAX])
    return safe(f"{status} {_word(body)}"[:SAID_MAX])


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


def counted(counts: Sequence[tuple[str, str, bool]]) -> list[Text]:
    """Counts with names, one a line, bad counts in red."""
    from rich.text import Text

    return [Text.assemble(f"{name:<42}", (value, "bold" if good else "bold red")) for name, value, good in counts]


def _counts(totals: Totals, events: int) -> list[tuple[str, str, bool]]:
    ledger = f"{events} entries recomputed, {'all sound' if totals.ledger_ok else 'FAULTS FOUND'}"
    return [
        ("steps", str(totals.actions), True),
        ("false successes told by the naive agent", str(totals.naive_false_successes), True),
        ("false successes told by Readback", str(totals.readback_false_successes), not totals.readback_false_successes),
        ("effects duplicated by our own doing", str(totals.duplicated_effects), not totals.duplicated_effects),
        ("true outcomes that Readback did not tell", str(totals.missed_successes), not totals.missed_successes),
        ("the ledger", ledger, totals.ledger_ok),
    ]


def where_next(rows: Sequence[Row], ledger: str) -> list[str]:
    worth = max(rows, key=lambda row: (row.review == "compensation_failed", row.state == "review_required"))
    setting = f"READBACK_URL={ledger} READBACK_TENANT=acme"
    return [
        f"Look closer, for instance at {worth.name!r}:",
        f"  {setting} readback show {worth.id}",
        f"  {setting} readback list",
    ]
