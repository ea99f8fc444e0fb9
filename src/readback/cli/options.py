"""Options that several commands share, each with its environment variable in its help.

Used by the modules of single commands. Values are read by `config.settings`, so that the order flag, environment, file,
default is the same for the command line and for Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def ledger(command: F) -> F:
    """Which ledger, and for whom."""
    for option in (
        click.option("--principal", metavar="ID", help="Who acts (READBACK_PRINCIPAL; else agent:local)."),
        click.option("--tenant", metavar="ID", help="Whose actions (READBACK_TENANT; else default)."),
        click.option("--url", metavar="URL", help="The ledger (READBACK_URL; else sqlite:///readback.db)."),
    ):
        command = option(command)
    return command


def request(command: F) -> F:
    """What is asked for, and under which name."""
    for option in (
        click.option("--operation", metavar="ID", help="Names the intent: the same name never executes twice."),
        click.option(
            "--arg-json", "jsons", metavar="K=JSON", multiple=True, help="An argument as JSON; may be repeated."
        ),
        click.option("--arg", "texts", metavar="K=V", multiple=True, help="An argument (see above); may be repeated."),
    ):
        command = option(command)
    return command


def purpose(command: F) -> F:
    """What it is for, and what it belongs to."""
    for option in (
        click.option("--trace", default="", metavar="ID", help="The trace that it belongs to, for the record."),
        click.option("--run", "run_id", default="", metavar="ID", help="The run that it belongs to, for the record."),
        click.option("--step", default="", metavar="ID", help="The plan's step that it serves, for the record."),
        click.option(
            "--intended", metavar="JSON", help="The goal as a JSON object, where it is more than the request."
        ),
    ):
        command = option(command)
    return command


def contracts(command: F) -> F:
    """Where the contracts are."""
    return click.option(
        "--contracts",
        "modules",
        metavar="MODULE",
        multiple=True,
        help="A Python module with actions, as package.module, or a contract file (.yaml); may be repeated "
        "(READBACK_CONTRACTS, apart by commas). A module is searched in the working folder after everything installed.",
    )(command)


def table(command: F) -> F:
    """By which recovery table is decided."""
    return click.option(
        "--table",
        metavar="FILE",
        help="An operator's own recovery table, as YAML (READBACK_TABLE; else the default one).",
    )(command)


def as_json(command: F) -> F:
    """The machine's answer."""
    return click.option("--json", "as_json", is_flag=True, help="Answer with one JSON value on stdout.")(command)
