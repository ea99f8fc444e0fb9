"""`readback submit`: queue an action for the workers of the ledger and print the id.

The command calls no tool. The contract, credentials and systems are with the workers.
"""

from __future__ import annotations

from typing import Final

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.actions.arguments import read_arguments, read_object
from readback.cli.actions.run import interrupted, look, sigterm_interrupts, tell
from readback.cli.sessions import action_named, again_with, load_contracts, settings_of, working
from readback.cli.terminal import note, print_json
from readback.client.operations import submitting
from readback.client.proposal import Proposal
from readback.client.session import Session
from readback.config import Settings
from readback.contracts.registry import Registry
from readback.drivers.driver_sync import SyncDriver
from readback.drivers.interpreter import Parked
from readback.engine import coordinator
from readback.engine.compiled_contract import CompiledContract

EXIT_SUBMITTED: Final = 0


@click.command("submit")
@click.argument("contract")
@options.request
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Wait this many seconds for the outcome (inf: no limit).",
)
@options.purpose
@options.contracts
@options.ledger
@options.as_json
def submit(
    contract: str,
    texts: tuple[str, ...],
    jsons: tuple[str, ...],
    operation: str | None,
    wait: float | None,
    intended: str | None,
    step: str,
    run_id: str,
    trace: str,
    modules: tuple[str, ...],
    url: str | None,
    tenant: str | None,
    principal: str | None,
    as_json: bool,
) -> int:
    """Queue an action of CONTRACT for the workers of this ledger, and print the id after a durable commit.

    \b
    --arg k=v       v is text; with --contracts the rule of `readback run` applies.
    --arg-json k=v  v is always JSON.

    No tool is called here. Without --contracts the contract is unknown here: --operation is required, and a worker ends
    an invalid request as failed. With --contracts the arguments are checked at once.

    Without --wait, exit code 0 means submitted and says nothing about the result. With --wait the answer and the exit
    code are those of the action.
    """
    settings = settings_of(url, tenant, principal, modules)
    registry = load_contracts(settings, needed=False)
    asked, arguments = _asked(registry, contract, texts, jsons)
    try:
        goal = read_object("--intended", intended)
        with working(settings, registry, run=run_id, trace=trace) as session, sigterm_interrupts():
            until_us = session.give_up_us(wait)
            ticket = coordinator.ActionHandle()
            driver = SyncDriver(session.store, session.runtime, session.courier)
            try:
                work = submitting.submit(session, asked, arguments, operation, goal, step, (), named=ticket.hear)
                told = driver.drive(work)
                assert isinstance(told, str)
                ticket.action_id = told
                if wait is None:
                    return _submitted(session, settings, told, as_json=as_json)
                return _waited(session, settings, driver, told, until_us, as_json=as_json)
            except KeyboardInterrupt:
                return interrupted(session, driver, ticket, settings, as_json=as_json)
            finally:
                driver.close()
    finally:
        if isinstance(asked, Proposal) and not asked.used:
            asked.mark_run()  # refused: the error says so


def _asked(
    registry: Registry | None, contract: str, texts: tuple[str, ...], jsons: tuple[str, ...]
) -> tuple[Proposal | str, dict[str, Json] | None]:
    """A proposal if the contract is known here, otherwise the contract's name with the unchecked arguments."""
    if registry is None:
        return contract, read_arguments({}, texts, jsons)
    definition = action_named(registry, contract)
    return definition(**read_arguments(definition.arguments.schema, texts, jsons)), None


def _submitted(session: Session, settings: Settings, action_id: str, *, as_json: bool) -> int:
    stored = session.store.projection(action_id)
    if as_json:
        operation = "" if stored is None else stored.projection.operation
        print_json({"id": action_id, "operation": operation, "submitted": True, "exit_code": EXIT_SUBMITTED})
    else:
        print(action_id)
    note(f"Next: readback show {action_id}{again_with(settings)}")
    return EXIT_SUBMITTED


def _waited(
    session: Session, settings: Settings, driver: SyncDriver, action_id: str, until_us: int | None, *, as_json: bool
) -> int:
    """Wait for the outcome by reading the ledger only."""
    told = driver.drive(
        coordinator.wait_until_settled(session.engine, action_id, session.scope.tenant, _no_plan), until_us
    )
    outcome = look(session, driver, action_id) if isinstance(told, Parked) else told
    return tell(outcome, settings, as_json=as_json)


def _no_plan(_contract: str) -> CompiledContract | None:
    """No plan is known here, so nothing is resumed."""
    return None
