"""`readback table`: the recovery table that decides here, as a file; and whether a file is one that may decide."""

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

    The table says what is done about each finding. An operator may bring another; one that has gaps, or that goes
    below the floor, is refused before anything runs.
    """


@table.command("show", short_help="The table that decides here, as YAML.")
@options.table
@options.as_json
def show(table: str | None, as_json: bool) -> int:
    """The recovery table that decides here, as YAML that loads again to the same version.

    It is the default one, unless --table, READBACK_TABLE or the settings name another. The version is the hash of the
    rows; it stands in each decision. Exit code 5: the table that is named cannot be used.
    """
    settings = settings_of(table=table)
    found = table_in_force(None, settings)
    if as_json:
        print_json({"path": settings.recovery_table or None, **table_json(found)})
    else:
        click.echo(table_yaml(found, "own" if settings.recovery_table else "default"), nl=False)
    return 0


@table.command("check", short_help="Is this file a table that may decide?")
@click.argument("file")
@options.as_json
def check(file: str, as_json: bool) -> int:
    """Read a recovery table and name every fault with its line and column; nothing is run.

    \b
    Checked, over every situation that there can be: that each finding has a row,
    that each row can apply, and the floor: no blind retry, no success of what is
    not verified, no failure of what is unknown, no reversal of what no reading
    shows, no review, freeze or incident less than the class demands.

    Exit code 0: it may be used; 5: it may not.
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
