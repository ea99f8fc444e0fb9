"""`readback gates capture`: write a stratified corpus of replay bundles from a ledger."""

from __future__ import annotations

from pathlib import Path

import click

from readback.assurance.history import capture as corpus
from readback.assurance.history.recorded import Selection
from readback.cli import options
from readback.cli.progress import counted
from readback.cli.sessions import settings_of
from readback.cli.terminal import note, print_json, safe
from readback.client.recovery_table import table_in_force
from readback.domain.recovery.table import DEFAULT_TABLE


@click.command("capture", short_help="Write a corpus of recorded actions from a ledger.")
@click.option("--from", "ledger", metavar="LEDGER", help="The ledger, as a URL or an SQLite file (READBACK_URL).")
@click.option("--out", metavar="FOLDER", required=True, help="A new or empty folder for the bundles.")
@click.option(
    "--per-cell",
    metavar="N",
    type=click.IntRange(1),
    default=corpus.PER_CELL,
    help=f"At most N actions of each cell (default {corpus.PER_CELL}).",
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
