"""`readback table`: print the active recovery table, or check a table file."""

from __future__ import annotations

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.sessions import settings_of
from readback.cli.terminal import note, print_json, safe
from readback.client.recovery_table import table_in_force
from readback.contracts.documents.recovery_tables import TableFault, parsed, read_table, table_json, table_yaml

EXIT_REFUSED = 5
FAULT_MAX_CHARACTERS = 600


@click.group("table")
def table() -> None:
    """Show or check a recovery table.

    The table maps each finding to a decision. An operator may supply another table. A table with gaps, or below the
    floor, is refused before anything runs.
    """


@table.command("show", short_help="Print the active recovery table as YAML.")
@options.table
@options.as_json
def show(table: str | None, as_json: bool) -> int:
    """Print the active recovery table as YAML that loads again to the same version.

    The active table is the default, unless --table, READBACK_TABLE or the settings name another. The version is the
    hash of the rows and is recorded in each decision. Exit code 5: the named table cannot be used.
    """
    settings = settings_of(table=table)
    found = table_in_force(None, settings)
    if as_json:
        print_json({"path": settings.recovery_table or None, **table_json(found)})
    else:
        click.echo(table_yaml(found, "own" if settings.recovery_table else "default"), nl=False)
    return 0


@table.command("check", short_help="Check a recovery table.")
@click.argument("file")
@options.as_json
def check(file: str, as_json: bool) -> int:
    """Check a recovery table and report every fault with line and column; nothing runs.

    \b
    Checked over every possible situation: each finding has a row, each row can
    apply, and the floor holds: no blind retry, no success without verification,
    no failure of an unknown state, no reversal without a reading, no review,
    freeze or incident below the demand of the class.

    Exit code 0: usable; 5: not usable.
    """
    found, faults = parsed(read_table(file))
    if as_json:
        version = found.version if found is not None else None
        listed: list[Json] = [_described(one) for one in faults]
        print_json({"path": file, "version": version, "rows": len(found.rows) if found else None, "faults": listed})
    elif found is not None:
        print(f"{safe(file)}: {len(found.rows)} rows, total, and above the floor.")
        print(f"version {found.version}")
    else:
        for one in faults:
            print(safe(f"{file}:{one.line}:{one.column}: {one.said}", FAULT_MAX_CHARACTERS))
        note(f"{len(faults)} {'fault' if len(faults) == 1 else 'faults'}: this table is not used.")
    return 0 if found is not None else EXIT_REFUSED


def _described(fault: TableFault) -> dict[str, Json]:
    return {"line": fault.line, "column": fault.column, "said": fault.said}
