"""`readback drill key`: test whether a tool honours its idempotency key.

The command calls the action's declared sandbox twice, and nothing else. No ledger is opened.
"""

from __future__ import annotations

import click

from readback import bootstrap
from readback.cli import options
from readback.cli.actions.arguments import read_arguments
from readback.cli.sessions import action_named, load_contracts, settings_of
from readback.cli.terminal import note, print_json, quoted_name, safe
from readback.testing.driver_drill import drill_key


@click.group("drill")
def drill() -> None:
    """Test a claim of a contract against the sandbox of its action."""


@drill.command("key", short_help="Test whether a tool honours its idempotency key.")
@click.argument("contract")
@click.option(
    "--arg",
    "texts",
    metavar="K=V",
    multiple=True,
    help="An argument, in the form of `readback run`; may be repeated.",
)
@click.option("--arg-json", "jsons", metavar="K=JSON", multiple=True, help="An argument as JSON; may be repeated.")
@click.option(
    "--settle",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Time to watch for a second effect (default: the contract's `within`).",
)
@click.option("--tenant", metavar="ID", help="Tenant passed to the sandbox (default: drill).")
@options.contracts
@options.as_json
def key(
    contract: str,
    texts: tuple[str, ...],
    jsons: tuple[str, ...],
    settle: float | None,
    tenant: str | None,
    modules: tuple[str, ...],
    as_json: bool,
) -> int:
    """Call the sandbox of CONTRACT twice under one key, and count the effects.

    The author declares the sandbox with `.twin`; nothing else is called.

    \b
    Exit code 0: one effect and consistent answers; 1: two effects, or a
    contradicting second answer; 3: inconclusive; 5: not testable, and nothing
    was called.
    """
    settings = settings_of(modules=modules)
    registry = load_contracts(settings, needed=True)
    assert registry is not None
    action = action_named(registry, contract)
    declared = action.declared_twin
    schema = (declared.action or action).arguments.schema if declared is not None else action.arguments.schema
    arguments = read_arguments(schema, texts, jsons)
    passed = drill_key(action, arguments, settle=settle, runtime=bootstrap.runtime(), tenant=tenant or "drill")
    if as_json:
        print_json(passed.as_json())
    else:
        print(f"{safe(passed.contract)} honours its key: two calls, one effect on {quoted_name(passed.target)}.")
        note(f"The first answer was {passed.first}, the second {passed.second}; seen by {safe(passed.seen_by)}.")
    return 0
