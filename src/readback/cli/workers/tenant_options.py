"""The options by which `readback worker` and `readback resume` are told whose actions they go on with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from readback.client.operations.tenants import Served as Served

F = TypeVar("F", bound=Callable[..., Any])


def tenants(command: F) -> F:
    """Which ledger, and for whom: as `options.ledger`, with any number of tenants."""
    for option in (
        click.option("--principal", metavar="ID", help="Who acts (READBACK_PRINCIPAL; else agent:local)."),
        click.option("--all-tenants", is_flag=True, help="Go on with the actions of every tenant."),
        click.option(
            "--tenant",
            "named",
            metavar="ID",
            multiple=True,
            help="Whose actions; may be repeated (READBACK_TENANT; else default).",
        ),
        click.option("--url", metavar="URL", help="The ledger (READBACK_URL; else sqlite:///readback.db)."),
    ):
        command = option(command)
    return command
