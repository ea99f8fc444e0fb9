"""Options shared by several commands, each with its environment variable in the help.

`config.settings` reads the values, so the command line and Python use the same order: flag, environment, file, default.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

F = TypeVar("F", bound=Callable[..., Any])


def ledger(command: F) -> F:
    """Ledger, tenant and principal."""
    for option in (
        click.option("--principal", metavar="ID", help="The acting principal (READBACK_PRINCIPAL; else agent:local)."),
        click.option("--tenant", metavar="ID", help="The tenant (READBACK_TENANT; else default)."),
        click.option("--url", metavar="URL", help="The ledger (READBACK_URL; else sqlite:///readback.db)."),
    ):
        command = option(command)
    return command


def settings(command: F) -> F:
    """Ledger, tenant and principal. The command gets them as its parameter `settings`."""

    @wraps(command)
    def with_settings(*given: Any, url: str | None, tenant: str | None, principal: str | None, **named: Any) -> Any:
        from readback.cli.sessions import settings_of  # a hook starts for each call of a tool, and needs no ledger yet

        return command(*given, settings=settings_of(url, tenant, principal), **named)

    return ledger(cast("F", with_settings))


def request(command: F) -> F:
    """Arguments and operation of an action."""
    for option in (
        click.option("--operation", metavar="ID", help="Name of the intent; the same name never executes twice."),
        click.option(
            "--arg-json", "jsons", metavar="K=JSON", multiple=True, help="An argument as JSON; may be repeated."
        ),
        click.option("--arg", "texts", metavar="K=V", multiple=True, help="An argument (see above); may be repeated."),
    ):
        command = option(command)
    return command


def purpose(command: F) -> F:
    """Goal, plan step, run and trace of an action."""
    for option in (
        click.option("--trace", default="", metavar="ID", help="The action's trace, for the record."),
        click.option("--run", "run_id", default="", metavar="ID", help="The action's run, for the record."),
        click.option("--step", default="", metavar="ID", help="The plan step behind the action, for the record."),
        click.option("--intended", metavar="JSON", help="The goal as a JSON object, if wider than the request."),
    ):
        command = option(command)
    return command


def contracts(command: F) -> F:
    """Modules and files with contracts."""
    return click.option(
        "--contracts",
        "modules",
        metavar="MODULE",
        multiple=True,
        help=(
            "A Python module with actions, as package.module, or a contract file (.yaml); may be repeated"
            " (READBACK_CONTRACTS, separated by commas). Installed modules are searched before the "
            "working folder."
        ),
    )(command)


def table(command: F) -> F:
    """Recovery table."""
    return click.option(
        "--table",
        metavar="FILE",
        help="An operator's recovery table, as YAML (READBACK_TABLE; else the default table).",
    )(command)


def as_json(command: F) -> F:
    """JSON output."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON value on stdout.")(command)
