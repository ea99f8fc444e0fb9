"""`readback gates`: the group with its commands, each imported on call, and `capture`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from readback.cli import options
from readback.cli.lazy_group import LazyGroup

PER_CELL: Final = 20

COMMANDS: Final = {
    "check": ("readback.cli.gates.check:check", "Run all gates and write the reports."),
    "replay": ("readback.cli.gates.check:replay", "Judge recorded actions again (gate 1)."),
    "diff": ("readback.cli.gates.check:diff", "Show changed predicates and affected actions (gate 2)."),
    "canary": ("readback.cli.gates.canary:canary", "Ask a candidate beside the incumbent (gate 3)."),
    "inject": ("readback.cli.gates.check:inject", "Inject faults into each contract (gate 4)."),
    "drill": ("readback.cli.gates.check:drill", "Execute and verify each recovery on sandboxes (gate 5)."),
    "schema": (
        "readback.cli.gates.check:schema",
        "Read earlier ledgers and new entries (gate 6).",
    ),
    "false-success": ("readback.cli.gates.check:guard", "Test that no surface tells completion early (gate 7)."),
    "unknown": ("readback.cli.gates.check:unknown", "Test that an unknown blocks a second mutation (gate 8)."),
    "capture": ("readback.cli.gates.group:capture", "Write a corpus of recorded actions from a ledger."),
    "promote": ("readback.cli.gates.promote:promote", "Decide whether these contracts may be released."),
    "report-schema": ("readback.cli.gates.promote:report_schema", "Print the JSON Schema of the result."),
}
"""The module and the help line of each command. `--help` imports no command."""


class Gates(LazyGroup):
    """The commands of the release gates."""

    commands_by_name = COMMANDS


@click.group("gates", cls=Gates)
def gates() -> None:
    """Check new contracts, recovery tables and releases before promotion.

    Verification logic is production logic: a looser predicate lets false success through. Each gate passes, fails, or
    stays undetermined. Undetermined is never a pass.

    \b
    Exit code 0: passed; 1: failed; 2: bad input; 3: undetermined; 5: a contract
    or the verifier has a fault.
    """


@click.command("capture", short_help="Write a corpus of recorded actions from a ledger.")
@click.option("--from", "ledger", metavar="LEDGER", help="The ledger, as a URL or an SQLite file (READBACK_URL).")
@click.option("--out", metavar="FOLDER", required=True, help="A new or empty folder for the bundles.")
@click.option(
    "--per-cell",
    metavar="N",
    type=click.IntRange(1),
    default=PER_CELL,
    help=f"At most N actions of each cell (default {PER_CELL}).",
)
@click.option("--tenant", metavar="ID", help="Only actions of this tenant.")
@options.table
@options.as_json
def capture(ledger: str | None, out: str, per_cell: int, tenant: str | None, table: str | None, as_json: bool) -> int:
    """Write the newest actions of each cell as replay bundles. A cell is a contract, a verdict, a class and a row.

    The corpus holds requests, answers and readings, so keep the folder as private as the ledger. An action without a
    whole record is named and left out. The ledger is opened read-only.

    Exit code 0: written; 2: the folder is not empty, or the ledger has no judged action; 3: an action was left out.
    """
    from readback.assurance.history import capture as corpus
    from readback.assurance.history.recorded import Selection
    from readback.cli.progress import counted
    from readback.cli.sessions import settings_of
    from readback.cli.terminal import note, print_json, safe
    from readback.client.recovery_table import table_in_force
    from readback.domain.recovery.table import DEFAULT_TABLE

    settings = settings_of(None, table=table)
    tables = (DEFAULT_TABLE, table_in_force(None, settings))
    with counted("capturing the history", enabled=not as_json) as step:
        found = corpus.capture(ledger or settings.url, Path(out), per_cell, Selection(tenant or ""), tables, step)
    if as_json:
        print_json(found.as_json())
    else:
        for cell, (seen, written) in sorted(found.cells.items(), key=lambda each: each[0].text()):
            print(safe(f"{cell.text()}: {written} of {seen}"))
        for action_id, why in found.refused.items():
            note(safe(f"Left out: {action_id}: {why}"))
        note(f"{found.bundles} bundles in {safe(out)}.")
    return 3 if found.refused else 0
