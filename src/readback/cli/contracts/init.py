"""`readback init`: write a commented contract file and the small systems for its actions.

The written files are sound and run unchanged. Existing files are untouched: if a name is taken, nothing is written.
`init_claude_code` installs the hooks of a coding agent.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from importlib.resources import files
from pathlib import Path
from typing import Final

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.terminal import note, print_json, safe
from readback.errors import UsageError

CONTRACTS: Final = "contracts.yaml"
NOTES: Final = "notes"
DATABASE: Final = "stock.db"
TRY: Final = (
    "readback contracts check contracts.yaml",
    "readback run write_note --contracts contracts.yaml --arg name=first.txt --arg text=hello",
    "readback run set_stock --contracts contracts.yaml --arg sku=mug --arg count=12",
)
TRY_CLAUDE_CODE: Final = (
    "readback contracts check .claude/readback-contracts.yaml",
    "claude, in this project; then /hooks shows them",
)


@click.command("init")
@click.argument("folder", required=False, default=".", type=click.Path(path_type=Path))
@click.option("--claude-code", is_flag=True, help="Set up the hooks of Claude Code for the project in FOLDER instead.")
@options.as_json
def init(folder: Path, claude_code: bool, as_json: bool) -> int:
    """Write a commented contract file into FOLDER (default: here), with a folder of notes and a small database to try.

    The contracts run unchanged. Existing files are untouched: if a name is taken, nothing is written.

    With --claude-code the command writes .claude/readback.yaml and .claude/readback-contracts.yaml, keeps the ledger
    out of commits (.claude/.gitignore), and adds the hooks to .claude/settings.json. Existing settings are kept.
    """
    if claude_code:
        return _claude_code(folder, as_json=as_json)
    text = (files("readback.contracts.files") / "start.yaml").read_text(encoding="utf-8")
    made = [folder / CONTRACTS, folder / NOTES, folder / DATABASE]
    for path in made:
        if os.path.lexists(path):
            raise UsageError(f"{path} is there already.", remedy="Name another folder; nothing was written.")
    ours: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / NOTES).mkdir()
        ours.append(folder / NOTES)
        (folder / DATABASE).touch(exist_ok=False)
        ours.append(folder / DATABASE)
        _database(folder / DATABASE)
        with open(folder / CONTRACTS, "x", encoding="utf-8") as file:
            ours.append(folder / CONTRACTS)
            file.write(text)
    except (OSError, sqlite3.Error) as error:
        _forget(ours)
        raise UsageError(f"{folder} cannot be written: {error}.", remedy="Name another folder.") from error
    if as_json:
        listed: list[Json] = [str(path) for path in made]
        print_json({"written": listed, "next": [*TRY]})
        return 0
    print("\n".join(safe(str(path)) for path in made))
    for command in TRY:
        note(f"Next: {command}")
    return 0


def _claude_code(folder: Path, *, as_json: bool) -> int:
    from readback.cli.contracts.init_claude_code import set_up

    done = set_up(folder)
    if as_json:
        told = {"written": [*done.written], "kept": [*done.kept], "narrow": [*done.narrow], "next": [*TRY_CLAUDE_CODE]}
        print_json(told)
        return 0
    for path in done.written:
        print(f"written: {safe(path)}")
    for path in done.kept:
        print(f"exists, unchanged: {safe(path)}")
    for hook in done.narrow:
        note(f"Warning: an existing hook matches only some tools; other tools are not verified: {safe(hook)}")
    for command in TRY_CLAUDE_CODE:
        note(f"Next: {command}")
    return 0


def _forget(made: list[Path]) -> None:
    """Remove the files of a failed attempt, so that the next attempt finds no name taken."""
    for path in made:
        with suppress(OSError):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()


def _database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as stock:
        stock.execute("create table stock (sku text primary key, count integer not null, version integer not null)")
        stock.execute("insert into stock values ('mug', 10, 1), ('lamp', 3, 1)")
        stock.commit()
