"""`readback drill key`: whether a tool really honours the key that its contract says it does.

It calls the action's declared safe twin twice, and nothing else. No ledger is opened: nothing is done for anybody.
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
    """Find out whether a claim of a contract is true, on a safe twin of its action."""


@drill.command("key", short_help="Does the tool honour its idempotency key?")
@click.argument("contract")
@click.option(
    "--arg", "texts", metavar="K=V", multiple=True, help="An argument, as for `readback run`; may be repeated."
)
@click.option("--arg-json", "jsons", metavar="K=JSON", multiple=True, help="An argument as JSON; may be repeated.")
@click.option(
    "--settle",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long a second effect is looked for (else the contract's `within`).",
)
@click.option("--tenant", metavar="ID", help="The tenant that the twin is told (else drill).")
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
    """Call the safe twin of CONTRACT twice under one key, and count the effects.

    The twin is the one that the action's author declared with `.twin`; nothing else is called.

    \b
    Exit code 0: one effect, and answers that agree; 1: two effects, or a second
    answer that says something else; 3: it shows nothing; 5: it cannot be
    drilled, and nothing was called.
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
